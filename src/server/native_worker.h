// `braid native-worker MEMORY_FD SOCKET_FD WAKE_FD`: a process that the server starts for its native code,
// see backends/native/native_worker.h. `braid --help` omits it, since people have no use for it.
#pragma once

namespace braid {

int RunNativeWorkerCommand(int argc, const char* const* argv);

}  // namespace braid
