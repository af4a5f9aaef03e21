// `braid native-worker MEMORY_FD SOCKET_FD WAKE_FD`: a process that the server starts for its native code, see
// backends/native/native_worker.h. Of no use to people, so `braid --help` does not name it.
#pragma once

namespace braid {

int RunNativeWorkerCommand(int argc, const char* const* argv);

}  // namespace braid
