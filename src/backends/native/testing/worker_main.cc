// A native worker for tests. With the name of a fault as an argument, it breaks the rules in that way with
// each execution.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/native/native_task.h"
#include "backends/native/native_worker.h"
#include "base/unique_fd.h"
#include "ipc/native_messages.h"

namespace braid {
namespace {

TensorMessage Output(const Shape& shape) {
  TensorMessage tensor;
  tensor.name = "a";
  tensor.type = DataType::kFp32;
  tensor.shape = shape;
  return tensor;
}

// Returns the answer of a faulty worker to an execution.
std::vector<std::byte> FaultyAnswer(std::string_view fault, uint64_t id) {
  std::vector<std::byte> encoded;
  NativeExecutedMessage message;
  message.execution_id = id;
  message.responses.resize(1);
  static const float kValues[4] = {};
  TensorMessage good = Output({4});
  good.bytes = std::as_bytes(std::span(kValues));
  if (fault == "another-execution") message.execution_id = id + 1;
  if (fault == "too-many-responses") message.responses.resize(2);
  if (fault == "size") good.shape = {5};
  if (fault == "type") good.type = DataType::kInvalid;
  if (fault == "segment") {
    good.place = Place::kSenderMemory;
    good.handle = {12, 0, 16};
  }
  if (fault == "not-lent") {
    good.place = Place::kReceiverMemory;
    good.handle = {1, 64, 16};
  }
  if (fault == "release") message.released = {{1, 2, 3}};
  message.responses[0].outputs = {good};
  Encode(encoded, message);
  if (fault == "call") {
    CallMessage call;
    call.model_name = "m";
    call.request.id = 1;
    Encode(encoded, call);
  }
  if (fault == "ask") {
    AskMessage ask;
    ask.ask_id = 1;
    ask.topic = AskTopic::kUnloadModel;
    Encode(encoded, ask);
  }
  if (fault == "nonsense") encoded.assign(3, std::byte{200});
  return encoded;
}

int RunFaulty(std::string_view fault, Channel::WorkerEnd end) {
  auto channel = Channel::OpenWorkerEnd(std::move(end)).value();
  std::vector<std::byte> encoded;
  Encode(encoded, HelloMessage{});
  if (!channel->Send(encoded).ok()) return 1;
  std::vector<std::byte> message;
  while (channel->Receive(message, 60'000'000'000) == Channel::Outcome::kMessage) {
    const MessageType type = TypeOf(message);
    if (type == MessageType::kFinalize) {
      EncodeBare(encoded, MessageType::kFinalized);
      return channel->Send(encoded).ok() ? 0 : 1;
    }
    if (type == MessageType::kLoad) {
      const std::string answer = fault == "answer" ? "?" : EncodeAnswer({});
      LoadedMessage loaded;
      loaded.auto_completed_config = answer;
      Encode(encoded, loaded);
    } else if (NativeExecuteMessage execute; Decode(message, execute)) {
      channel->header().begun_execution = execute.execution_id;
      if (fault == "death") std::raise(SIGABRT);
      if (fault == "silence") continue;
      encoded = FaultyAnswer(fault, execute.execution_id);
    } else {
      continue;
    }
    if (!channel->Send(encoded).ok()) return 1;
  }
  return 1;
}

// One that is called "Twice" and answers with its inputs and those again.
Result<NativeCalculators> OpenCalculatorsForTests(const std::string& path) {
  if (path != "twice.so") return InvalidArgumentError("no library: " + path);
  return NativeCalculators{{"Twice"}, [](const std::vector<Tensor>& inputs) -> Result<std::vector<Tensor>> {
                             std::vector<Tensor> outputs = inputs;
                             outputs.insert(outputs.end(), inputs.begin(), inputs.end());
                             return outputs;
                           }};
}

int Main(int argc, char** argv) {
  const auto descriptor = [&](int back) {
    const int number = std::atoi(argv[argc - back]);
    fcntl(number, F_SETFD, FD_CLOEXEC);
    return UniqueFd(number);
  };
  if (argc < 4) return 1;
  Channel::WorkerEnd end{descriptor(3), descriptor(2), descriptor(1)};
  _exit(argc == 4 ? RunNativeWorker(std::move(end), &OpenCalculatorsForTests)
                  : RunFaulty(argv[1], std::move(end)));
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) { return braid::Main(argc, argv); }
