// The GPUs that hold tensors of this worker's user code. The first use opens the driver. The zygote, which
// workers are forked from, runs no user code and never opens it.
#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "gpu/cuda_context.h"
#include "gpu/pinned_memory.h"
#include "ipc/segment.h"

namespace braid {

// Returns the context of a device, with the worker's stream for tensors there; it lives as long as the
// process. Guarded by the GIL. Errors: those of the driver.
Result<std::shared_ptr<CudaContext>> DeviceOf(int gpu);
// The same by the device's UUID. Errors also: NOT_FOUND if this process does not see the device.
Result<std::shared_ptr<CudaContext>> DeviceNamed(const GpuUuid& uuid);

// Returns a thread that may block on the device; it lives as long as the process. Guarded by the GIL.
PinnedMemory::Thread ThreadOf(int gpu);

// Calls `done` when the device has finished all work that this process has given it so far. The call runs on
// ThreadOf(), without the GIL. A device that hangs delays only its own callbacks. Waiting for single streams
// does not suffice: user code need not name its streams, and may have destroyed one that it named. Guarded by
// the GIL.
void WhenDone(std::shared_ptr<CudaContext> device, std::function<void()> done);

// Returns the device of an address. Errors: those of the driver.
Result<int> GpuOf(CudaAddress address);

}  // namespace braid
