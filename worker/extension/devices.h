// The GPUs that this worker's user code has tensors on. The driver is opened with the first of them: never in the warm
// process that workers are forked from, which runs no user code.
#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "gpu/cuda_context.h"
#include "gpu/pinned_memory.h"
#include "ipc/segment.h"

namespace braid {

// The context of a device, with the stream on which this worker reads tensors there; it lasts as long as the process.
// Guarded by the GIL. Errors: those of the driver.
Result<std::shared_ptr<CudaContext>> DeviceOf(int gpu);
// The same of a device by its UUID. Errors also: NOT_FOUND where this process does not see it.
Result<std::shared_ptr<CudaContext>> DeviceNamed(const GpuUuid& uuid);

// Does things on a thread that may wait for the device, which lasts as long as the process. Guarded by the GIL.
PinnedMemory::Thread ThreadOf(int gpu);

// Calls `done` when the device has come to the end of all that this process has given it by now; on ThreadOf() it,
// without the GIL. Nobody waits for that, so a device that hangs holds up nothing else. (Not of one stream alone: user code need not
// name those on which it uses what it is given, and one that it has named may have been destroyed since.) Guarded by the GIL.
void WhenDone(std::shared_ptr<CudaContext> device, std::function<void()> done);

// The device that an address lies on. Errors: those of the driver.
Result<int> GpuOf(CudaAddress address);

}  // namespace braid
