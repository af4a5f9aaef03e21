#include "worker/extension/devices.h"

#include <map>
#include <utility>

#include "base/elastic_threads.h"

namespace braid {

Result<std::shared_ptr<CudaContext>> DeviceOf(int gpu) {
  // Never destroyed: threads of the driver and of user code end with the process.
  static auto& contexts = *new std::map<int, std::shared_ptr<CudaContext>>();
  if (const auto known = contexts.find(gpu); known != contexts.end()) return known->second;
  BRAID_ASSIGN_OR_RETURN(auto driver, CudaDriver::Open());
  BRAID_ASSIGN_OR_RETURN(auto context, CudaContext::Create(std::move(driver), gpu));
  return contexts[gpu] = std::move(context);
}

Result<std::shared_ptr<CudaContext>> DeviceNamed(const GpuUuid& uuid) {
  static auto& known = *new std::map<GpuUuid, int>();
  if (const auto found = known.find(uuid); found != known.end()) return DeviceOf(found->second);
  BRAID_ASSIGN_OR_RETURN(const auto driver, CudaDriver::Open());
  int count = 0;
  BRAID_RETURN_IF_ERROR(driver->Check("cuDeviceGetCount", driver->device_get_count(&count)));
  for (int gpu = 0; gpu < count; ++gpu) {
    CudaDevice device = 0;
    CudaUuid its;
    BRAID_RETURN_IF_ERROR(driver->Check("cuDeviceGet", driver->device_get(&device, gpu)));
    BRAID_RETURN_IF_ERROR(driver->Check("cuDeviceGetUuid", driver->device_get_uuid(&its, device)));
    known[its.bytes] = gpu;
  }
  const auto found = known.find(uuid);
  if (found == known.end())
    return NotFoundError(
        "a tensor is on a GPU that this model's process cannot access (CUDA_VISIBLE_DEVICES)");
  return DeviceOf(found->second);
}

PinnedMemory::Thread ThreadOf(int gpu) {
  static auto& threads = *new std::map<int, ElasticThreads>();
  ElasticThreads& thread =
      threads.try_emplace(gpu, ElasticThreads::Options{.name = "brd-gpu", .most = 1}).first->second;
  return [&thread](std::function<void()> call) { thread.Run(std::move(call)); };
}

void WhenDone(std::shared_ptr<CudaContext> device, std::function<void()> done) {
  const PinnedMemory::Thread thread = ThreadOf(device->gpu());
  thread([device = std::move(device), done = std::move(done)] {
    // On a device that fails, all work has ended, too.
    static_cast<void>(device->Synchronize());
    done();
  });
}

Result<int> GpuOf(CudaAddress address) {
  BRAID_ASSIGN_OR_RETURN(const auto driver, CudaDriver::Open());
  int gpu = 0;
  BRAID_RETURN_IF_ERROR(driver->Check(
      "cuPointerGetAttribute", driver->pointer_get_attribute(&gpu, CudaDriver::kDeviceOrdinal, address)));
  return gpu;
}

}  // namespace braid
