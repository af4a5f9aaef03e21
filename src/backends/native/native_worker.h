// The worker's end of NativeModel: a process that loads a model, and runs its executions.
//
// One thread reads the server's messages, and runs short inferences itself. Other inferences run on
// OpenVINO's threads, which send the responses. The process ends with its server.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/native/function_model.h"
#include "base/status.h"
#include "ipc/channel.h"

namespace braid {

// The command that starts a native worker, followed by the channel's file descriptors (memory, socket,
// wake-up). Internal to the server.
inline constexpr char kNativeWorkerCommand[] = "native-worker";

// A calculator library, opened in a worker. The code that links the graph engine defines the format of its
// calls.
struct NativeCalculators {
  std::vector<std::string> names;
  FunctionModel::Function call;
};
using OpenCalculators = std::function<Result<NativeCalculators>(const std::string& path)>;

// Runs the worker until the server ends it. Returns the exit code. The process exits right after: threads of
// libraries may still be running.
int RunNativeWorker(Channel::WorkerEnd end, OpenCalculators open_calculators);

}  // namespace braid
