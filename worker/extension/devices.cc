#include "worker/extension/devices.h"

#include <map>

namespace braid {

Result<CudaContext*> DeviceOf(int gpu) {
  // Never destroyed: threads of the driver and of user code end with the process.
  static auto& contexts = *new std::map<int, std::shared_ptr<CudaContext>>();
  if (const auto known = contexts.find(gpu); known != contexts.end()) return known->second.get();
  BRAID_ASSIGN_OR_RETURN(auto driver, CudaDriver::Open());
  BRAID_ASSIGN_OR_RETURN(auto context, CudaContext::Create(std::move(driver), gpu));
  return (contexts[gpu] = std::move(context)).get();
}

Result<int> GpuOf(CudaAddress address) {
  BRAID_ASSIGN_OR_RETURN(const auto driver, CudaDriver::Open());
  int gpu = 0;
  BRAID_RETURN_IF_ERROR(driver->Check(
      "cuPointerGetAttribute", driver->pointer_get_attribute(&gpu, CudaDriver::kDeviceOrdinal, address)));
  return gpu;
}

}  // namespace braid
