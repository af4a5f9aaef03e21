// CudaContext: the primary context of one device, with a stream for copies. It takes some 100 ms to make and some 100 MiB of
// the device, so it is made when it is first needed, and goes with the last who has it.
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

// Any thread; all of it may block.
class CudaContext {
 public:
  // Errors: those of the driver.
  static Result<std::shared_ptr<CudaContext>> Create(std::shared_ptr<const CudaDriver> driver, int gpu);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  // The device, as this process counts them.
  int gpu() const { return gpu_; }
  // Names the device in other processes, which may count devices differently.
  const CudaUuid& uuid() const { return uuid_; }
  // That of copies, for those who order their work before it.
  CudaStream stream() const { return stream_; }
  // What the stream is given from now on waits for what `other` has; or the other way round. Both return at once. 0 and 1
  // are the default stream.
  Status Follow(CudaStream other) { return Order(other, stream_); }
  Status Lead(CudaStream other) { return Order(stream_, other); }

  // Copy on the stream, and wait until that is done; what lies behind the bytes on the device is zeroed up to `zero_until`.
  // Errors: those of the driver, e.g. of a device that is lost.
  Status CopyFrom(CudaAddress from, std::span<std::byte> to);
  Status CopyTo(CudaAddress to, std::span<const std::byte> from, size_t zero_until = 0);
  Status CopyWithin(CudaAddress to, CudaAddress from, size_t bytes, size_t zero_until);
  // Locks pages of the host in their place, for copies, until Unpin() or the end of the context. Errors: those of the driver.
  Status Pin(std::span<std::byte> pages);
  void Unpin(std::byte* base);
  // Waits for all that this process has under way on the device.
  Status Synchronize();

 private:
  friend class CudaMemory;
  friend class DeviceMemory;
  CudaContext(std::shared_ptr<const CudaDriver> driver, CudaDevice device)
      : driver_(std::move(driver)), device_(device) {}
  Status Order(CudaStream first, CudaStream then) const;
  // The end of a copy to the device, within the context.
  Status ZeroBehind(CudaAddress at, size_t bytes, size_t zero_until);
  // `calls` with this context as the thread's own.
  template <class Calls>
  Status Within(Calls calls) const {
    BRAID_RETURN_IF_ERROR(driver_->Check("cuCtxPushCurrent", driver_->ctx_push_current(handle_)));
    Status status = calls();
    CudaContextHandle popped = nullptr;
    const Status left = driver_->Check("cuCtxPopCurrent", driver_->ctx_pop_current(&popped));
    return status.ok() ? left : status;
  }

  const std::shared_ptr<const CudaDriver> driver_;  // shared by all who use it
  const CudaDevice device_;
  int gpu_ = 0;  // constant once it is made, as what follows
  CudaUuid uuid_ = {};
  CudaContextHandle handle_ = nullptr;  // constant once it is made, as the stream
  CudaStream stream_ = nullptr;
};

// Memory of a device that another process has made. Any thread; all of it may block.
class CudaMemory {
 public:
  // Errors: those of the driver, for handles that name nothing (any more).
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

  const std::shared_ptr<CudaContext> context_;  // shared by all that is on the device
  CudaAddress address_ = 0;                     // constant once it is open, as the size; 0: it is not
  uint64_t size_ = 0;
};

}  // namespace braid
