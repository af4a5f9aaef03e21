#include "gpu/cuda_driver.h"

#include <string>

#include "gpu/shared_library.h"

namespace braid {
namespace {

constexpr int kOutOfMemory = 2;

}  // namespace

Result<std::shared_ptr<const CudaDriver>> CudaDriver::Open() {
  BRAID_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open("libcuda.so.1"));
  std::shared_ptr<CudaDriver> driver(new CudaDriver());
  BRAID_RETURN_IF_ERROR(library.Find("cuInit", driver->init_));
  BRAID_RETURN_IF_ERROR(library.Find("cuGetErrorName", driver->get_error_name_));
  BRAID_RETURN_IF_ERROR(library.Find("cuGetErrorString", driver->get_error_string_));
  BRAID_RETURN_IF_ERROR(library.Find("cuDeviceGetCount", driver->device_get_count));
  BRAID_RETURN_IF_ERROR(library.Find("cuDeviceGet", driver->device_get));
  BRAID_RETURN_IF_ERROR(library.Find("cuDeviceGetName", driver->device_get_name));
  BRAID_RETURN_IF_ERROR(library.Find("cuDeviceGetUuid", driver->device_get_uuid));
  BRAID_RETURN_IF_ERROR(library.Find("cuDeviceTotalMem_v2", driver->device_total_mem));
  BRAID_RETURN_IF_ERROR(library.Find("cuDeviceGetAttribute", driver->device_get_attribute));
  BRAID_RETURN_IF_ERROR(library.Find("cuDevicePrimaryCtxRetain", driver->device_primary_ctx_retain));
  BRAID_RETURN_IF_ERROR(library.Find("cuDevicePrimaryCtxRelease_v2", driver->device_primary_ctx_release));
  BRAID_RETURN_IF_ERROR(library.Find("cuCtxPushCurrent_v2", driver->ctx_push_current));
  BRAID_RETURN_IF_ERROR(library.Find("cuCtxPopCurrent_v2", driver->ctx_pop_current));
  BRAID_RETURN_IF_ERROR(library.Find("cuCtxSynchronize", driver->ctx_synchronize));
  BRAID_RETURN_IF_ERROR(library.Find("cuStreamCreate", driver->stream_create));
  BRAID_RETURN_IF_ERROR(library.Find("cuStreamSynchronize", driver->stream_synchronize));
  BRAID_RETURN_IF_ERROR(library.Find("cuStreamDestroy_v2", driver->stream_destroy));
  BRAID_RETURN_IF_ERROR(library.Find("cuStreamWaitEvent", driver->stream_wait_event));
  BRAID_RETURN_IF_ERROR(library.Find("cuEventCreate", driver->event_create));
  BRAID_RETURN_IF_ERROR(library.Find("cuEventRecord", driver->event_record));
  BRAID_RETURN_IF_ERROR(library.Find("cuEventDestroy_v2", driver->event_destroy));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemHostRegister_v2", driver->mem_host_register));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemHostUnregister", driver->mem_host_unregister));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemcpyDtoHAsync_v2", driver->memcpy_dtoh_async));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemcpyHtoDAsync_v2", driver->memcpy_htod_async));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemcpyDtoDAsync_v2", driver->memcpy_dtod_async));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemsetD8Async", driver->memset_d8_async));
  BRAID_RETURN_IF_ERROR(
      library.Find("cuMemGetAllocationGranularity", driver->mem_get_allocation_granularity));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemCreate", driver->mem_create));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemRelease", driver->mem_release));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemAddressReserve", driver->mem_address_reserve));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemAddressFree", driver->mem_address_free));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemMap", driver->mem_map));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemUnmap", driver->mem_unmap));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemSetAccess", driver->mem_set_access));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemExportToShareableHandle", driver->mem_export));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemImportFromShareableHandle", driver->mem_import));
  BRAID_RETURN_IF_ERROR(library.Find("cuMemGetAddressRange_v2", driver->mem_get_address_range));
  BRAID_RETURN_IF_ERROR(library.Find("cuPointerGetAttribute", driver->pointer_get_attribute));
  BRAID_RETURN_IF_ERROR(library.Find("cuIpcOpenMemHandle_v2", driver->ipc_open_mem_handle));
  BRAID_RETURN_IF_ERROR(library.Find("cuIpcCloseMemHandle", driver->ipc_close_mem_handle));
  BRAID_RETURN_IF_ERROR(driver->Check("cuInit", driver->init_(0)));
  return std::shared_ptr<const CudaDriver>(std::move(driver));
}

Status CudaDriver::Check(std::string_view function, int result) const {
  if (result == 0) return OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  std::string message = std::string(function) + ": ";
  if (get_error_name_(result, &name) == 0 && name != nullptr) {
    message += name;
  } else {
    message += "CUDA error " + std::to_string(result);
  }
  if (get_error_string_(result, &text) == 0 && text != nullptr) message += " (" + std::string(text) + ")";
  return result == kOutOfMemory ? ResourceExhaustedError(std::move(message))
                                : InternalError(std::move(message));
}

}  // namespace braid
