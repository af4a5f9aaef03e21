// The GPUs that this worker's user code has tensors on. The driver is opened with the first of them: never in the warm
// process that workers are forked from, which runs no user code.
#pragma once

#include <memory>
#include <optional>

#include "base/status.h"
#include "gpu/cuda_context.h"
#include "ipc/segment.h"

namespace braid {

// The context of a device, with the stream on which this worker reads tensors there; it lasts as long as the process.
// Guarded by the GIL. Errors: those of the driver.
Result<std::shared_ptr<CudaContext>> DeviceOf(int gpu);
// The same of a device by its UUID. Errors also: NOT_FOUND where this process does not see it.
Result<std::shared_ptr<CudaContext>> DeviceNamed(const GpuUuid& uuid);

// The device that an address lies on. Errors: those of the driver.
Result<int> GpuOf(CudaAddress address);

}  // namespace braid
