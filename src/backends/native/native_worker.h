// The other side of NativeModel: the process that has a model of OpenVINO's, and runs its executions.
//
// One thread reads what the server says, and runs short inferences itself; others run on OpenVINO's threads, and answer
// from there. A process ends with its server.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/native/function_model.h"
#include "base/status.h"
#include "ipc/channel.h"

namespace braid {

// The command of the program that starts one, with the numbers of the channel's descriptors (memory, socket, wake-up)
// behind it. It is the server's own to use.
inline constexpr char kNativeWorkerCommand[] = "native-worker";

// A library of calculators as a worker has it. What their calls are is for those to know who link the engine of graphs.
struct NativeCalculators {
  std::vector<std::string> names;
  FunctionModel::Function call;
};
using OpenCalculators = std::function<Result<NativeCalculators>(const std::string& path)>;

// Does what the server says until it says that it is enough. Returns the exit code. The process ends right after it:
// threads of the libraries may still be there.
int RunNativeWorker(Channel::WorkerEnd end, OpenCalculators open_calculators);

}  // namespace braid
