#include "gpu/cuda_context.h"

#include <utility>

namespace braid {

Result<std::shared_ptr<CudaContext>> CudaContext::Create(std::shared_ptr<const CudaDriver> driver, int gpu) {
  CudaDevice device = 0;
  BRAID_RETURN_IF_ERROR(driver->Check("cuDeviceGet", driver->device_get(&device, gpu)));
  std::shared_ptr<CudaContext> context(new CudaContext(std::move(driver), device));
  const CudaDriver& cuda = *context->driver_;
  context->gpu_ = gpu;
  BRAID_RETURN_IF_ERROR(cuda.Check("cuDeviceGetUuid", cuda.device_get_uuid(&context->uuid_, device)));
  BRAID_RETURN_IF_ERROR(
      cuda.Check("cuDevicePrimaryCtxRetain", cuda.device_primary_ctx_retain(&context->handle_, device)));
  BRAID_RETURN_IF_ERROR(context->Within([&] {
    return cuda.Check("cuStreamCreate",
                      cuda.stream_create(&context->stream_, CudaDriver::kStreamNonBlocking));
  }));
  return context;
}

CudaContext::~CudaContext() {
  if (handle_ == nullptr) return;
  // On a lost device this fails, and nothing is left to release.
  if (stream_ != nullptr) {
    static_cast<void>(
        Within([&] { return driver_->Check("cuStreamDestroy", driver_->stream_destroy(stream_)); }));
  }
  driver_->device_primary_ctx_release(device_);
}

Status CudaContext::Order(CudaStream first, CudaStream then) const {
  return Within([&] {
    CudaEvent event = nullptr;
    BRAID_RETURN_IF_ERROR(
        driver_->Check("cuEventCreate", driver_->event_create(&event, CudaDriver::kEventDisableTiming)));
    Status ordered = driver_->Check("cuEventRecord", driver_->event_record(event, first));
    if (ordered.ok())
      ordered = driver_->Check("cuStreamWaitEvent", driver_->stream_wait_event(then, event, 0));
    driver_->event_destroy(event);  // once no stream waits for it
    return ordered;
  });
}

Status CudaContext::CopyFrom(CudaAddress from, std::span<std::byte> to) {
  return Within([&] {
    BRAID_RETURN_IF_ERROR(
        driver_->Check("cuMemcpyDtoHAsync", driver_->memcpy_dtoh_async(to.data(), from, to.size(), stream_)));
    return driver_->Check("cuStreamSynchronize", driver_->stream_synchronize(stream_));
  });
}

Status CudaContext::ZeroBehind(CudaAddress at, size_t bytes, size_t zero_until) {
  if (zero_until > bytes) {
    BRAID_RETURN_IF_ERROR(driver_->Check(
        "cuMemsetD8Async", driver_->memset_d8_async(at + bytes, 0, zero_until - bytes, stream_)));
  }
  return driver_->Check("cuStreamSynchronize", driver_->stream_synchronize(stream_));
}

Status CudaContext::CopyTo(CudaAddress to, std::span<const std::byte> from, size_t zero_until) {
  return Within([&] {
    BRAID_RETURN_IF_ERROR(driver_->Check("cuMemcpyHtoDAsync",
                                         driver_->memcpy_htod_async(to, from.data(), from.size(), stream_)));
    return ZeroBehind(to, from.size(), zero_until);
  });
}

Status CudaContext::CopyWithin(CudaAddress to, CudaAddress from, size_t bytes, size_t zero_until) {
  return Within([&] {
    BRAID_RETURN_IF_ERROR(
        driver_->Check("cuMemcpyDtoDAsync", driver_->memcpy_dtod_async(to, from, bytes, stream_)));
    return ZeroBehind(to, bytes, zero_until);
  });
}

Status CudaContext::Pin(std::span<std::byte> pages) {
  return Within([&] {
    return driver_->Check("cuMemHostRegister", driver_->mem_host_register(pages.data(), pages.size(),
                                                                          CudaDriver::kHostRegisterPortable));
  });
}

void CudaContext::Unpin(std::byte* base) {
  static_cast<void>(
      Within([&] { return driver_->Check("cuMemHostUnregister", driver_->mem_host_unregister(base)); }));
}

Status CudaContext::Synchronize() {
  return Within([&] { return driver_->Check("cuCtxSynchronize", driver_->ctx_synchronize()); });
}

Result<std::shared_ptr<CudaMemory>> CudaMemory::Open(std::shared_ptr<CudaContext> context,
                                                     const CudaIpcHandle& handle) {
  std::shared_ptr<CudaMemory> memory(new CudaMemory(std::move(context)));
  const CudaDriver& cuda = *memory->context_->driver_;
  BRAID_RETURN_IF_ERROR(memory->context_->Within([&] {
    BRAID_RETURN_IF_ERROR(cuda.Check(
        "cuIpcOpenMemHandle",
        cuda.ipc_open_mem_handle(&memory->address_, handle, CudaDriver::kIpcMemLazyEnablePeerAccess)));
    size_t size = 0;
    BRAID_RETURN_IF_ERROR(
        cuda.Check("cuMemGetAddressRange", cuda.mem_get_address_range(nullptr, &size, memory->address_)));
    memory->size_ = size;
    return OkStatus();
  }));
  return memory;
}

CudaMemory::~CudaMemory() {
  if (address_ == 0) return;
  const CudaDriver& cuda = *context_->driver_;
  static_cast<void>(context_->Within(
      [&] { return cuda.Check("cuIpcCloseMemHandle", cuda.ipc_close_mem_handle(address_)); }));
}

}  // namespace braid
