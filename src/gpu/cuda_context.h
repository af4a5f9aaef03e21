// CudaContext: the primary context of one device, with a stream for copies. Creating it takes about 100 ms
// and 100 MiB of device memory, so it is created on first use and destroyed with its last owner.
//
//   BRAID_ASSIGN_OR_RETURN(std::shared_ptr<CudaContext> context, CudaContext::Create(gpus.driver, 0));
//   BRAID_ASSIGN_OR_RETURN(auto memory, CudaMemory::Open(context, handle));
//   BRAID_RETURN_IF_ERROR(memory->Read(0, bytes));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "gpu/cuda_driver.h"

namespace braid {

// Thread-safe; every call may block.
class CudaContext {
 public:
  // Errors: those of the driver.
  static Result<std::shared_ptr<CudaContext>> Create(std::shared_ptr<const CudaDriver> driver, int gpu);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  // The device's number in this process.
  int gpu() const { return gpu_; }
  // Identifies the device across processes, which may number devices differently.
  const CudaUuid& uuid() const { return uuid_; }
  // The stream for copies, for ordering other work against it.
  CudaStream stream() const { return stream_; }
  // Follow() makes later work of the stream wait for the pending work of `other`; Lead() does the reverse.
  // Both return at once. 0 and 1 are the default stream.
  Status Follow(CudaStream other) { return Order(other, stream_); }
  Status Lead(CudaStream other) { return Order(stream_, other); }

  // Copy on the stream and wait for the result. Device memory after the copied bytes is zeroed up to
  // `zero_until`. Errors: those of the driver, for example for a lost device.
  Status CopyFrom(CudaAddress from, std::span<std::byte> to);
  Status CopyTo(CudaAddress to, std::span<const std::byte> from, size_t zero_until = 0);
  Status CopyWithin(CudaAddress to, CudaAddress from, size_t bytes, size_t zero_until);
  // Locks pages of the host for copies, until Unpin() or the end of the context. Errors: those of the driver.
  Status Pin(std::span<std::byte> pages);
  void Unpin(std::byte* base);
  // Waits for all pending work of this process on the device.
  Status Synchronize();

 private:
  friend class CudaMemory;
  friend class DeviceMemory;
  CudaContext(std::shared_ptr<const CudaDriver> driver, CudaDevice device)
      : driver_(std::move(driver)), device_(device) {}
  Status Order(CudaStream first, CudaStream then) const;
  // Ends a copy to the device. REQUIRES: the context is current.
  Status ZeroBehind(CudaAddress at, size_t bytes, size_t zero_until);
  // Runs `calls` with this context current on the thread.
  template <class Calls>
  Status Within(Calls calls) const {
    BRAID_RETURN_IF_ERROR(driver_->Check("cuCtxPushCurrent", driver_->ctx_push_current(handle_)));
    Status status = calls();
    CudaContextHandle popped = nullptr;
    const Status left = driver_->Check("cuCtxPopCurrent", driver_->ctx_pop_current(&popped));
    return status.ok() ? left : status;
  }

  const std::shared_ptr<const CudaDriver> driver_;  // shared by all users of the driver
  const CudaDevice device_;
  int gpu_ = 0;  // this and the members below are constant after Create()
  CudaUuid uuid_ = {};
  CudaContextHandle handle_ = nullptr;
  CudaStream stream_ = nullptr;
};

// Device memory of another process. Thread-safe; every call may block.
class CudaMemory {
 public:
  // Errors: those of the driver, for handles that are not valid (any more).
  static Result<std::shared_ptr<CudaMemory>> Open(std::shared_ptr<CudaContext> context,
                                                  const CudaIpcHandle& handle);
  ~CudaMemory();
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  uint64_t size() const { return size_; }
  const std::shared_ptr<CudaContext>& context() const { return context_; }
  // REQUIRES: within size(). Errors: as CudaContext::CopyFrom().
  Status Read(uint64_t offset, std::span<std::byte> to) const {
    return context_->CopyFrom(address_ + offset, to);
  }
  Status Write(uint64_t offset, std::span<const std::byte> from) const {
    return context_->CopyTo(address_ + offset, from);
  }

 private:
  explicit CudaMemory(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}

  const std::shared_ptr<CudaContext> context_;  // shared by all objects on the device
  CudaAddress address_ = 0;                     // constant after Open(), like the size; 0: not open
  uint64_t size_ = 0;
};

}  // namespace braid
