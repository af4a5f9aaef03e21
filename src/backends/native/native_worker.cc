#include "backends/native/native_worker.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/native/function_model.h"
#include "backends/native/isolated_images.h"
#include "backends/native/native_memory.h"
#include "backends/native/native_task.h"
#include "backends/openvino/openvino_backend.h"
#include "base/clock.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/process_family.h"
#include "base/thread.h"
#include "ipc/native_messages.h"
#include "pipeline/custom_node_library.h"

namespace braid {
namespace {

constexpr int64_t kTrimIntervalNs = kSecondNs;
constexpr int64_t kForeverNs = 3600 * kSecondNs;
constexpr int64_t kFamilyNs = 5 * kSecondNs;
constexpr int64_t kDrainNs = kSecondNs;
// Running executions may finish: the server kills the process after its own deadline.
constexpr int64_t kLastRunsNs = 365 * 24 * 3600 * kSecondNs;

// Sends log lines to the server's log.
class LogSender final : public LogObserver {
 public:
  explicit LogSender(Channel& channel) : channel_(channel) {}
  void OnLine(const LogLine& line) override {
    LogMessage message;
    message.level = static_cast<uint8_t>(line.level.value_or(LogLevel::kInfo));
    message.file = "native_worker.cc";
    message.line = __LINE__;
    message.text = line.text;
    std::vector<std::byte> encoded;
    Encode(encoded, message);
    static_cast<void>(channel_.Send(encoded));
  }

 private:
  Channel& channel_;
};

Logger::Options LogOptions(LogObserver& observer) {
  Logger::Options options;
  options.file = "/dev/null";
  options.observer = &observer;
  return options;
}

Status Malformed() { return InvalidArgumentError("the server sent a malformed message"); }

class NativeWorker final : private ExecutionListener {
 public:
  NativeWorker(std::unique_ptr<Channel> channel, OpenCalculators open_calculators)
      : open_calculators_(std::move(open_calculators)),
        channel_(std::move(channel)),
        memory_(*channel_),
        log_sender_(*channel_) {}

  // Errors: the server sent malformed messages, or memory ran out.
  Status Run();

 private:
  // The result of an execution, until its answer is sent.
  struct Ended {
    std::deque<uint64_t> handed_over;  // ids of executions, in the order in which they end
    ExecutionTimes times;
    std::vector<InferenceResponse> responses;
  };

  // Receives segments; ends the process when the server is gone.
  void Watch();
  // Errors: as of Run(). Sets `ended` when the server asked for the end.
  Status Handle(const std::vector<std::byte>& message, bool& ended);
  Status Load(const std::vector<std::byte>& message, bool& ended);
  // Errors: the reason why the task failed; it is also in the answer.
  Status Do(const NativeTask& task, NativeAnswer& answer);
  Status DoOpenVino(const NativeTask& task, NativeAnswer& answer);
  Status LoadNode(const NativeTask& task, NativeAnswer& answer);
  Status Execute(const std::vector<std::byte>& message);
  void Finalize();
  size_t IndexOf(const Instance& instance) const;
  void Answer(uint64_t execution_id, const ExecutionTimes& times,
              const std::vector<InferenceResponse>& responses);
  Status Place(const InferenceResponse& response, bool part, NativeExecutedMessage::Response& message);

  // ExecutionListener.
  void OnExecuted(Instance& instance, int64_t rows, size_t request_count,
                  const ExecutionTimes& times) override;
  void OnDelivered(Instance& instance) override;
  void OnResponse(Instance& instance, InferenceRequest& request, std::optional<InferenceResponse> response,
                  bool final, const ExecutionTimes& times) override;
  // An infer request does not die, and returns no requests.
  void OnRescheduled(Instance&, std::unique_ptr<InferenceRequest>) override {}
  void OnUnstarted(Instance&, std::vector<std::unique_ptr<Execution>>) override {}
  void OnAvailability(Instance&, bool) override {}

  const OpenCalculators open_calculators_;
  const std::unique_ptr<Channel> channel_;
  NativeMemory memory_;
  LogSender log_sender_;
  std::unique_ptr<Logger> log_;
  bool loaded_ = false;
  std::unique_ptr<OpenVinoBackend> backend_;
  std::unique_ptr<BackendModel> model_;  // null when the task runs nothing
  std::vector<Instance*> instances_;

  Mutex mutex_;
  // One for each instance. `handed_over` is guarded by mutex_; the thread that calls the listener owns the
  // rest.
  std::vector<Ended> ended_;
};

void NativeWorker::Watch() {
  while (true) {
    Result<std::shared_ptr<Segment>> received = channel_->ReceiveSegment(true);
    if (!received.ok()) {
      // Usually the server has just ended, which is not worth a log line.
      if (received.status().code() != StatusCode::kUnavailable)
        ReportFault("native worker", received.status());
      // Without a server, only this ends processes that a library has started.
      if (const auto family = ProcessFamily::Own()) family->End(kFamilyNs);
      _exit(1);
    }
    memory_.AddSegment(std::move(received).value());
  }
}

Status NativeWorker::Run() {
  BRAID_ASSIGN_OR_RETURN(log_, Logger::Create(LogOptions(log_sender_)));
  BRAID_ASSIGN_OR_RETURN(std::thread watcher, TryStartThread("brd-watch", [this] { Watch(); }));
  watcher.detach();
  std::vector<std::byte> message;
  Encode(message, HelloMessage{});
  BRAID_RETURN_IF_ERROR(channel_->Send(message));
  for (bool ended = false; !ended;) {
    const int64_t wait_ns = memory_.has_to_trim() ? kTrimIntervalNs : kForeverNs;
    switch (channel_->Receive(message, wait_ns)) {
      case Channel::Outcome::kMessage:
        BRAID_RETURN_IF_ERROR(Guarded([&] { return Handle(message, ended); }));
        break;
      case Channel::Outcome::kTimeout:
        memory_.Trim();
        break;
      case Channel::Outcome::kCorrupted:
        return InvalidArgumentError("the server wrote invalid data to the channel");
    }
  }
  // Receiving also finishes pending sends when the server makes room.
  const int64_t deadline = SteadyNowNs() + kDrainNs;
  while (SteadyNowNs() < deadline) {
    channel_->Flush();
    if (channel_->Receive(message, 0) == Channel::Outcome::kTimeout) break;
  }
  return OkStatus();
}

Status NativeWorker::Handle(const std::vector<std::byte>& message, bool& ended) {
  switch (TypeOf(message)) {
    case MessageType::kLoad:
      return Load(message, ended);
    case MessageType::kNativeExecute:
      return Execute(message);
    case MessageType::kRelease:
      return memory_.OnRelease(message) ? OkStatus() : Malformed();
    case MessageType::kRetireSegment:
      return memory_.OnRetire(message) ? OkStatus() : Malformed();
    case MessageType::kFinalize:
      Finalize();
      ended = true;
      return OkStatus();
    default:
      return Malformed();
  }
}

Status NativeWorker::Load(const std::vector<std::byte>& message, bool& ended) {
  LoadMessage load;
  if (loaded_ || !Decode(message, load)) return Malformed();
  loaded_ = true;
  memory_.Configure(load.arena_keep_bytes);
  // Closes this process to other processes of the same user. The server has already opened the files that it
  // needs.
  prctl(PR_SET_DUMPABLE, 0);
  BRAID_ASSIGN_OR_RETURN(const NativeTask task, DecodeTask(load.model_config));
  const std::string name(load.model_name);
  const LogAbout about(name);
  NativeAnswer answer;
  answer.status = Guarded([&] { return Do(task, answer); });
  LoadedMessage loaded;
  const std::string text = EncodeAnswer(answer);
  loaded.auto_completed_config = text;
  std::vector<std::byte> encoded;
  Encode(encoded, loaded);
  ended = load.mode != LoadMode::kInstance || !answer.status.ok();
  return channel_->Send(encoded);
}

Status NativeWorker::Do(const NativeTask& task, NativeAnswer& answer) {
  switch (task.kind) {
    case NativeTask::Kind::kConfigModel:
    case NativeTask::Kind::kTritonModel:
    case NativeTask::Kind::kTritonConfig:
    case NativeTask::Kind::kExtension:
      BRAID_RETURN_IF_ERROR(DoOpenVino(task, answer));
      break;
    case NativeTask::Kind::kNodeLibrary:
      return CustomNodeLibrary::Open(task.library_name, task.library_path).status();
    case NativeTask::Kind::kNode:
      BRAID_RETURN_IF_ERROR(LoadNode(task, answer));
      break;
    case NativeTask::Kind::kImages:
      model_ = std::make_unique<FunctionModel>(ImageFunction(task.library_path, memory_.outputs()),
                                               task.most_calls);
      break;
    case NativeTask::Kind::kCalculators: {
      BRAID_ASSIGN_OR_RETURN(NativeCalculators calculators, open_calculators_(task.library_path));
      answer.calculators = std::move(calculators.names);
      model_ = std::make_unique<FunctionModel>(std::move(calculators.call), task.most_calls);
      break;
    }
  }
  if (model_ == nullptr) return OkStatus();
  instances_ = model_->instances();
  ended_.resize(instances_.size());
  return model_->Start(*this, [](const std::string&) {});
}

Status NativeWorker::LoadNode(const NativeTask& task, NativeAnswer& answer) {
  BRAID_ASSIGN_OR_RETURN(const auto library, CustomNodeLibrary::Open(task.library_name, task.library_path));
  BRAID_ASSIGN_OR_RETURN(const auto code, library->CodeFor(task.node, task.params));
  BRAID_ASSIGN_OR_RETURN(answer.node_inputs, code->Inputs());
  BRAID_ASSIGN_OR_RETURN(answer.node_outputs, code->Outputs());
  model_ = std::make_unique<FunctionModel>(
      [code](const std::vector<Tensor>& inputs) { return code->Execute(inputs); }, task.most_calls);
  return OkStatus();
}

Status NativeWorker::DoOpenVino(const NativeTask& task, NativeAnswer& answer) {
  OpenVinoBackend::Options options;
  options.cache_directory = task.cache_directory;
  options.cpu_extension = task.cpu_extension;
  options.smaller_types = task.smaller_types;
  options.output_memory = &memory_.outputs();
  BRAID_ASSIGN_OR_RETURN(backend_, OpenVinoBackend::Create(std::move(options), *log_));
  ModelLocation location;
  location.model_path = task.model_path;
  location.version_path = task.version_path;
  location.model_file = task.model_file;
  location.version = task.version;
  switch (task.kind) {
    case NativeTask::Kind::kTritonConfig: {
      inference::ModelConfig config = task.triton_config;
      BRAID_RETURN_IF_ERROR(backend_->AutoComplete(location, config));
      answer.config = std::move(config);
      return OkStatus();
    }
    case NativeTask::Kind::kTritonModel: {
      BRAID_ASSIGN_OR_RETURN(
          model_,
          backend_->Create(location, std::make_shared<const inference::ModelConfig>(task.triton_config)));
      break;
    }
    case NativeTask::Kind::kConfigModel: {
      BRAID_ASSIGN_OR_RETURN(OpenVinoBackend::LoadedModel loaded,
                             backend_->Load(task.ovms_config, task.version, task.version_path));
      answer.info = std::move(loaded.info);
      model_ = std::move(loaded.model);
      break;
    }
    default:
      break;  // kExtension: the backend has checked it
  }
  return OkStatus();
}

Status NativeWorker::Execute(const std::vector<std::byte>& message) {
  const int64_t now = SteadyNowNs();
  NativeExecuteMessage execute;
  if (!Decode(message, execute) || execute.instance >= instances_.size()) return Malformed();
  auto execution = std::make_unique<Execution>();
  execution->rows = execute.rows;
  execution->compute_start_ns = now;
  execution->on_callers_thread = true;
  Status taken;
  for (const NativeExecuteMessage::Request& each : execute.requests) {
    auto& request = execution->requests.emplace_back(std::make_unique<InferenceRequest>());
    request->batch_size = each.rows;
    request->inputs.reserve(each.inputs.size());
    for (const TensorMessage& input : each.inputs) {
      Tensor& tensor = request->inputs.emplace_back();
      tensor.name = input.name;
      tensor.type = input.type;
      tensor.shape = input.shape;
      tensor.custom_type = input.custom_type;
      Result<Buffer> data = memory_.Take(input);
      if (!data.ok()) taken = data.status();
      if (data.ok()) tensor.data = *std::move(data);
    }
  }
  channel_->header().begun_execution.store(execute.execution_id, std::memory_order_release);
  if (!taken.ok()) {
    InferenceResponse failed;
    failed.status = taken;
    const std::vector<InferenceResponse> responses(execution->requests.size(), failed);
    execution = nullptr;
    Answer(execute.execution_id, {now, now, now, now}, responses);
    return OkStatus();
  }
  {
    MutexLock lock(mutex_);
    ended_[execute.instance].handed_over.push_back(execute.execution_id);
  }
  instances_[execute.instance]->Execute(std::move(execution));
  return OkStatus();
}

void NativeWorker::Finalize() {
  // Running executions are answered first.
  if (model_ != nullptr) model_->Stop(SteadyNowNs() + kLastRunsNs);
  std::vector<std::byte> message;
  EncodeBare(message, MessageType::kFinalized);
  static_cast<void>(channel_->Send(message));
}

size_t NativeWorker::IndexOf(const Instance& instance) const {
  size_t index = 0;
  while (instances_[index] != &instance) ++index;
  return index;
}

void NativeWorker::OnExecuted(Instance& instance, int64_t, size_t request_count,
                              const ExecutionTimes& times) {
  Ended& ended = ended_[IndexOf(instance)];
  ended.times = times;
  ended.responses.clear();
  ended.responses.reserve(request_count);
}

void NativeWorker::OnResponse(Instance& instance, InferenceRequest&,
                              std::optional<InferenceResponse> response, bool, const ExecutionTimes&) {
  ended_[IndexOf(instance)].responses.push_back(std::move(response).value_or(InferenceResponse()));
}

void NativeWorker::OnDelivered(Instance& instance) {
  Ended& ended = ended_[IndexOf(instance)];
  uint64_t id = 0;
  ExecutionTimes times;
  std::vector<InferenceResponse> responses;
  {
    // After the answer, the server may send this instance its next execution, which may end on another
    // thread. The lock hands the entry over to that thread.
    MutexLock lock(mutex_);
    id = ended.handed_over.front();
    ended.handed_over.pop_front();
    times = ended.times;
    responses = std::exchange(ended.responses, {});
  }
  Answer(id, times, responses);
}

Status NativeWorker::Place(const InferenceResponse& response, bool part,
                           NativeExecutedMessage::Response& message) {
  message.outputs.reserve(response.outputs.size());
  for (const Tensor& output : response.outputs) {
    TensorMessage tensor;
    tensor.name = output.name;
    tensor.type = output.type;
    tensor.shape = output.shape;
    if (Status placed = memory_.Place(output.data, part, tensor); !placed.ok()) {
      for (const TensorMessage& before : message.outputs) memory_.Unplace(before);
      message.outputs.clear();
      return placed;
    }
    message.outputs.push_back(std::move(tensor));
  }
  return OkStatus();
}

void NativeWorker::Answer(uint64_t execution_id, const ExecutionTimes& times,
                          const std::vector<InferenceResponse>& responses) {
  const RetryingAllocation retrying;
  NativeExecutedMessage message;
  message.execution_id = execution_id;
  message.input_end_ns = times.input_end_ns;
  message.infer_end_ns = times.infer_end_ns;
  message.output_end_ns = times.output_end_ns;
  message.responses.reserve(responses.size());
  std::deque<Status> faults;  // owns the texts that the message points to
  for (const InferenceResponse& response : responses) {
    NativeExecutedMessage::Response& told = message.responses.emplace_back();
    Status status = response.status;
    if (status.ok()) status = Place(response, responses.size() > 1, told);
    if (status.ok()) continue;
    faults.push_back(status);
    told.code = static_cast<uint8_t>(status.code());
    told.fault = static_cast<uint8_t>(status.fault());
    told.error = faults.back().message();
  }
  message.released = memory_.TakeReleases();
  std::vector<std::byte> encoded;
  Encode(encoded, message);
  if (channel_->Send(encoded).ok()) return;
  // The server cannot continue; it notices that the process ends.
  ReportFault("native worker", InternalError("cannot send an answer"));
  _exit(1);
}

}  // namespace

int RunNativeWorker(Channel::WorkerEnd end, OpenCalculators open_calculators) {
  auto channel = Channel::OpenWorkerEnd(std::move(end));
  Status status = channel.status();
  if (status.ok()) {
    // Never deleted, since threads may still use it when the process exits.
    auto* const worker = new NativeWorker(std::move(channel).value(), std::move(open_calculators));
    status = Guarded([&] { return worker->Run(); });
  }
  if (!status.ok()) ReportFault("native worker", status);
  return status.ok() ? 0 : 1;
}

}  // namespace braid
