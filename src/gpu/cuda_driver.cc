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
