// ClientGpus: memory that other processes have made on GPUs, opened, read and written within a limit of time.
//
//   ClientGpus gpus(driver, {0, 1}, {.limit_ns = 10 * kSecondNs, .log = &log});
//   BRAID_ASSIGN_OR_RETURN(auto memory, gpus.Open(0, handle));
//   BRAID_RETURN_IF_ERROR(memory->Read(0, buffer));
//
// The context of a device is made with the first memory there, and goes with the last.
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

// Any thread; all of it blocks, no longer than the limit but for what is said.
class ClientGpus {
 public:
  struct Options {
    int64_t limit_ns = 10'000'000'000;  // see DeviceCalls
    Logger* log = nullptr;              // outlives this
    uint64_t max_pinned_bytes = 0;      // of memory that is copied from and to, see PinnedMemory
  };
  // `ids` are the devices that there are; `driver` may be null where there are none.
  ClientGpus(std::shared_ptr<const CudaDriver> driver, const std::vector<int>& ids, const Options& options);
  ~ClientGpus();

  class Memory;
  // REQUIRES: Has(gpu). Errors: those of the driver; UNAVAILABLE for a device that hangs.
  Result<std::unique_ptr<Memory>> Open(int gpu, const CudaIpcHandle& handle);
  // Waits until what was let go of there is closed; where the device hangs, no longer than the limit. REQUIRES: Has(gpu).
  void Settle(int gpu);
  bool Has(int gpu) const { return devices_.contains(gpu); }
  bool empty() const { return devices_.empty(); }

  const PinnedMemory& pinned() const { return *pinned_; }
  // How often each device has hung so far. Does not block.
  std::map<int, uint64_t> Stalls() const;

 private:
  struct Device;

  const std::shared_ptr<const CudaDriver> driver_;  // shared by all who use it
  const std::shared_ptr<PinnedMemory> pinned_;      // shared with what it has pinned
  std::map<int, std::shared_ptr<Device>> devices_;  // shared with their memory, which may outlive this
};

class ClientGpus::Memory {
 public:
  Memory(std::shared_ptr<Device> device, std::shared_ptr<PinnedMemory> pinned,
         std::shared_ptr<CudaMemory> memory);
  // Does not block: the device's thread closes it, and says so by closed().
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint64_t size() const { return memory_->size(); }
  // Ready when it is gone and closed. Never, where the device hangs for good.
  std::shared_future<void> closed() const { return closed_; }
  // Copy straight between the device and the buffer, of which the copy has a share: of a device that hangs it may go on when
  // these have returned with an error. REQUIRES: within size(). Errors: as for Open().
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
