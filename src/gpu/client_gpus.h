// ClientGpus: opens, reads and writes GPU memory of client processes, within a time limit.
//
//   ClientGpus gpus(driver, {0, 1}, {.limit_ns = 10 * kSecondNs, .log = &log});
//   BRAID_ASSIGN_OR_RETURN(auto memory, gpus.Open(0, handle));
//   BRAID_RETURN_IF_ERROR(memory->Read(0, buffer));
//
// A device's context is created for its first memory, and destroyed with the last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "gpu/cuda_context.h"
#include "gpu/cuda_driver.h"
#include "gpu/device_calls.h"
#include "gpu/pinned_memory.h"
#include "tensor/buffer.h"

namespace braid {

// Thread-safe. All methods block, at most for the limit, unless stated otherwise.
class ClientGpus {
 public:
  struct Options {
    int64_t limit_ns = 10'000'000'000;  // see DeviceCalls
    Logger* log = nullptr;              // outlives the object
    uint64_t max_pinned_bytes = 0;      // the limit for PinnedMemory
  };
  // The existing devices are `ids`; `driver` may be null if there are none.
  ClientGpus(std::shared_ptr<const CudaDriver> driver, const std::vector<int>& ids, const Options& options);
  ~ClientGpus();

  class Memory;
  // REQUIRES: Has(gpu). Errors: those of the driver; UNAVAILABLE if the device hangs.
  Result<std::unique_ptr<Memory>> Open(int gpu, const CudaIpcHandle& handle);
  // Waits until released memory of the device is closed; at most for the limit if the device hangs. REQUIRES:
  // Has(gpu).
  void Settle(int gpu);
  bool Has(int gpu) const { return devices_.contains(gpu); }
  bool empty() const { return devices_.empty(); }

  const PinnedMemory& pinned() const { return *pinned_; }
  // Returns how often each device has hung so far. Does not block.
  std::map<int, uint64_t> Stalls() const;

 private:
  struct Device;

  const std::shared_ptr<const CudaDriver> driver_;  // shared by all users of the driver
  const std::shared_ptr<PinnedMemory> pinned_;      // shared with the mappings that it has pinned
  std::map<int, std::shared_ptr<Device>> devices_;  // shared with their memory, which may outlive this
};

class ClientGpus::Memory {
 public:
  Memory(std::shared_ptr<Device> device, std::shared_ptr<PinnedMemory> pinned,
         std::shared_ptr<CudaMemory> memory);
  // Does not block: the device's thread closes the memory, and sets closed().
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint64_t size() const { return memory_->size(); }
  // Ready after the destructor, once the memory is closed. Never ready if the device hangs for good.
  std::shared_future<void> closed() const { return closed_; }
  // Copy straight between the device and the buffer. The copy keeps its buffers alive, because it may go on
  // after a timeout. REQUIRES: within size(). Errors: as Open().
  Status Read(uint64_t offset, const Buffer& to) const;
  Status Write(uint64_t offset, const Buffer& from) const;

 private:
  // Calls copy(memory, bytes) on the device's thread.
  template <class Copy>
  Status Run(Buffer bytes, Copy copy) const;

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<PinnedMemory> pinned_;
  std::shared_ptr<CudaMemory> memory_;  // shared with calls that hang
  std::promise<void> close_;
  const std::shared_future<void> closed_ = close_.get_future().share();
};

}  // namespace braid
