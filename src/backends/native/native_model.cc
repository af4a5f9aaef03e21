#include "backends/native/native_model.h"

#include <poll.h>

#include <algorithm>
#include <future>

#include "base/check.h"
#include "base/clock.h"
#include "base/guard.h"

namespace braid {
namespace {

// For a model that was loaded and is not wanted.
constexpr int64_t kStopUnusedNs = 10'000'000'000;

// Whether the worker has ended, though that may not be known yet.
bool IsGone(const Channel& channel) {
  pollfd socket{channel.socket(), 0, 0};
  return poll(&socket, 1, 0) > 0 && (socket.revents & (POLLHUP | POLLERR)) != 0;
}

bool IsUnwanted(const Execution& execution) {
  return std::all_of(execution.requests.begin(), execution.requests.end(),
                     [](const auto& request) { return request->cancelled(); });
}

}  // namespace

void NativeInstance::Execute(std::unique_ptr<Execution> execution) {
  model_.Execute(*this, std::move(execution));
}

InstanceReport NativeInstance::report() const {
  InstanceReport report;
  report.name = name_;
  report.executions = executions_.load(std::memory_order_relaxed);
  model_.Describe(*this, report);
  return report;
}

NativeModel::NativeModel(WorkerFacts facts, const Ground& ground, std::shared_ptr<const void> files)
    : name_(facts.model_name),
      spec_{.name = name_, .kind = "CPU"},
      facts_(std::move(facts)),
      files_(std::move(files)),
      arena_(ground.segment_ids, ground.arena),
      host_({.mode = LoadMode::kInstance,
             .thread_name = "brd-native",
             .title = "the native worker of model '" + name_ + "'",
             .noun = "worker",
             .sign_in_timeout_ns = ground.sign_in_timeout_ns,
             .runs_user_code = false},
            spec_, facts_, ground.services, ground.spawner, ground.reaper, arena_, ground.log, *this) {}

NativeModel::~NativeModel() {
  if (loaded_) Stop(SteadyNowNs() + kStopUnusedNs);
}

Result<NativeAnswer> NativeModel::Load() {
  auto started = std::make_shared<std::promise<Status>>();
  auto result = started->get_future();
  host_.Start([started](Status status) { started->set_value(std::move(status)); });
  if (Status status = result.get(); !status.ok()) {
    host_.Join();
    return status;
  }
  loaded_ = true;
  // Written by the host's thread before it has said that it started; by that alone.
  return DecodeAnswer(first_answer_);
}

void NativeModel::AddInstances(const std::vector<InstanceName>& names) {
  for (const InstanceName& each : names) {
    instances_.push_back(std::make_unique<NativeInstance>(*this, static_cast<uint32_t>(instances_.size()),
                                                          each.name, each.passive));
  }
}

std::vector<Instance*> NativeModel::instances() {
  std::vector<Instance*> all;
  for (auto& instance : instances_) all.push_back(instance.get());
  return all;
}

Status NativeModel::Start(ExecutionListener& listener, const std::function<void(const std::string&)>&) {
  Status status;
  {
    MutexLock lock(mutex_);
    listener_ = &listener;
    if (!accepting_) status = UnavailableError(reason_);
  }
  if (!status.ok()) Stop(SteadyNowNs() + kStopUnusedNs);
  return status;
}

void NativeModel::Stop(int64_t deadline_ns) {
  if (!loaded_) return;
  host_.BeginStop(deadline_ns);
  host_.Join();
  loaded_ = false;
}

Readiness NativeModel::readiness() const {
  MutexLock lock(mutex_);
  return {accepting_, reason_};
}

void NativeModel::Describe(const NativeInstance& instance, InstanceReport& report) const {
  {
    MutexLock lock(mutex_);
    report.ready = accepting_;
    report.reason = reason_;
  }
  // The worker is told of once, so that its memory is not counted for each instance.
  if (instance.index() == 0) host_.Describe(report);
}

InstanceReport NativeModel::report() const {
  InstanceReport report;
  for (const auto& instance : instances_) {
    const InstanceReport one = instance->report();
    if (instance->index() == 0) report = one;
    if (instance->index() != 0) report.executions += one.executions;
  }
  report.name = name_;
  return report;
}

// --- Requests in
// -----------------------------------------------------------------------------------------------------

Status NativeModel::Send(const NativeInstance& instance, const Execution& execution, uint64_t id) {
  WorkerMemory::Loan loan(*link_.memory);
  outgoing_.execution_id = id;
  outgoing_.instance = instance.index();
  outgoing_.rows = execution.rows;
  outgoing_.requests.resize(execution.requests.size());
  for (size_t i = 0; i < execution.requests.size(); ++i) {
    const InferenceRequest& request = *execution.requests[i];
    NativeExecuteMessage::Request& message = outgoing_.requests[i];
    message.rows = request.batch_size;
    message.inputs.resize(request.inputs.size());
    for (size_t k = 0; k < request.inputs.size(); ++k) {
      const Tensor& input = request.inputs[k];
      TensorMessage& tensor = message.inputs[k];
      tensor.name = input.name;
      tensor.type = input.type;
      tensor.custom_type = input.custom_type;
      tensor.shape = input.shape;
      // The worker writes to no input.
      BRAID_RETURN_IF_ERROR(loan.Lend(input.data, false, tensor));
    }
  }
  Encode(encoded_, outgoing_);
  BRAID_RETURN_IF_ERROR(link_.channel->Send(encoded_));
  loan.Keep();
  return OkStatus();
}

void NativeModel::Execute(NativeInstance& instance, std::unique_ptr<Execution> execution) {
  const PatientAllocation patience;
  {
    MutexLock lock(mutex_);
    Running running{&instance, std::move(execution)};
    Status refused;
    if (IsUnwanted(*running.execution)) {
      refused = CancelledError("Request cancelled before model '" + name_ + "' ran it");
    } else if (accepting_) {
      const uint64_t id = next_execution_id_;
      refused = Send(instance, *running.execution, id);
      if (refused.ok()) {
        ++next_execution_id_;
        running_.emplace(id, std::move(running));
        return;
      }
      if (IsGone(*link_.channel)) refused = OkStatus();
    }
    refused_.push_back({std::move(running), std::move(refused)});
  }
  host_.Wake();
}

void NativeModel::ReturnRefused() {
  std::vector<Refused> refused;
  ExecutionListener* listener = nullptr;
  {
    MutexLock lock(mutex_);
    refused.swap(refused_);
    listener = listener_;
  }
  for (Refused& one : refused) {
    NativeInstance& instance = *one.running.instance;
    if (one.status.ok()) {
      std::vector<std::unique_ptr<Execution>> unstarted;
      unstarted.push_back(std::move(one.running.execution));
      listener->OnUnstarted(instance, std::move(unstarted));
      continue;
    }
    const Execution& execution = *one.running.execution;
    const int64_t now = SteadyNowNs();
    const ExecutionTimes times{execution.compute_start_ns, now, now, now};
    listener->OnExecuted(instance, execution.rows, execution.requests.size(), times);
    for (const auto& request : execution.requests) {
      InferenceResponse response;
      response.status = one.status;
      listener->OnResponse(instance, *request, std::move(response), true, times);
    }
    listener->OnDelivered(instance);
  }
}

// --- Responses out
// ---------------------------------------------------------------------------------------------------

Status NativeModel::MakeResponse(const NativeExecutedMessage::Response& message,
                                 WorkerMemory::Returned& returned, InferenceResponse& response) {
  response.status = StatusOf(static_cast<StatusCode>(message.code), message.fault, message.error);
  response.outputs.reserve(message.outputs.size());
  for (const TensorMessage& output : message.outputs) {
    Tensor& tensor = response.outputs.emplace_back();
    tensor.name = output.name;
    tensor.type = output.type;
    tensor.shape = output.shape;
    if (output.type == DataType::kInvalid || output.type == DataType::kCustom)
      return InvalidArgumentError("the worker sent a tensor without a type");
    BRAID_ASSIGN_OR_RETURN(tensor.data, link_.memory->Take(output, returned));
    const auto bytes = ByteSize(output.type, output.shape);
    if (output.type != DataType::kBytes && (!bytes || *bytes != tensor.data.size()))
      return InvalidArgumentError("the worker sent a tensor whose size is not that of its shape");
  }
  return OkStatus();
}

Status NativeModel::HandleExecuted(const NativeExecutedMessage& message) {
  const int64_t now = SteadyNowNs();
  Running running;
  ExecutionListener* listener = nullptr;
  {
    MutexLock lock(mutex_);
    const auto found = running_.find(message.execution_id);
    if (found == running_.end())
      return InvalidArgumentError("the worker returns from an execution that it does not run");
    if (found->second.execution->requests.size() != message.responses.size())
      return InvalidArgumentError("the worker does not answer as many requests as it was asked");
    running = std::move(found->second);
    running_.erase(found);
    listener = listener_;
  }
  Execution& execution = *running.execution;
  std::vector<InferenceResponse> responses(message.responses.size());
  WorkerMemory::Returned returned;
  Status made;
  for (size_t i = 0; i < responses.size() && made.ok(); ++i)
    made = MakeResponse(message.responses[i], returned, responses[i]);
  if (made.ok() && !message.released.empty()) made = link_.memory->OnRelease({message.released});
  if (!made.ok()) {
    // The worker is about to be ended, and this with what else it has.
    MutexLock lock(mutex_);
    running_.emplace(message.execution_id, std::move(running));
    return made;
  }
  ExecutionTimes times;
  times.compute_start_ns = execution.compute_start_ns;
  times.input_end_ns = std::clamp(message.input_end_ns, times.compute_start_ns, now);
  times.infer_end_ns = std::clamp(message.infer_end_ns, times.input_end_ns, now);
  times.output_end_ns = now;
  host_.NoteServed();
  running.instance->CountExecution();
  listener->OnExecuted(*running.instance, execution.rows, execution.requests.size(), times);
  for (size_t i = 0; i < responses.size(); ++i) {
    listener->OnResponse(*running.instance, *execution.requests[i], std::move(responses[i]), true, times);
    execution.requests[i] = nullptr;
  }
  listener->OnDelivered(*running.instance);
  return OkStatus();
}

Status NativeModel::OnMessage(const std::vector<std::byte>& message) {
  NativeExecutedMessage executed;
  // One that has not loaded its model has nothing to answer.
  if (link_.channel == nullptr || TypeOf(message) != MessageType::kNativeExecuted ||
      !Decode(message, executed)) {
    return InvalidArgumentError("the worker sent a message that cannot be read");
  }
  return HandleExecuted(executed);
}

// --- The worker's life
// -----------------------------------------------------------------------------------------------

Status NativeModel::OnUp(const WorkerLink& link, const WorkerProcess::Answer& loaded) {
  BRAID_ASSIGN_OR_RETURN(const NativeAnswer answer, DecodeAnswer(loaded.completed_config));
  BRAID_RETURN_IF_ERROR(answer.status);
  if (first_answer_.empty()) first_answer_ = loaded.completed_config;
  if (loaded.completed_config != first_answer_) {
    return FailedPreconditionError("the files of model '" + name_ +
                                   "' are not those any more that it was loaded from; load it anew");
  }
  {
    MutexLock lock(mutex_);
    link_ = link;
    next_execution_id_ = 1;
    accepting_ = true;
    reason_.clear();
  }
  TellAvailable(true);
  return OkStatus();
}

void NativeModel::OnDown(const std::string& reason) {
  MutexLock lock(mutex_);
  accepting_ = false;
  reason_ = reason;
}

void NativeModel::TellAvailable(bool available) {
  ExecutionListener* listener = nullptr;
  {
    MutexLock lock(mutex_);
    listener = listener_;
  }
  if (std::exchange(available_, available) == available || listener == nullptr) return;
  for (auto& instance : instances_) listener->OnAvailability(*instance, available);
}

void NativeModel::OnDead() {
  TellAvailable(false);
  if (link_.channel == nullptr) return;
  const uint64_t begun = link_.channel->header().begun_execution.load(std::memory_order_acquire);
  WorkerLink gone;
  MutexLock lock(mutex_);
  for (auto& [id, running] : running_) (id <= begun ? failed_ : unstarted_).push_back(std::move(running));
  running_.clear();
  std::swap(gone, link_);
}

void NativeModel::OnGone(const std::string& reason) {
  ExecutionListener* listener = nullptr;
  {
    MutexLock lock(mutex_);
    listener = listener_;
  }
  const int64_t now = SteadyNowNs();
  for (Running& running : std::exchange(failed_, {})) {
    for (const auto& request : running.execution->requests) {
      InferenceResponse response;
      response.status = InternalError(reason);
      const ExecutionTimes times{request->queue_start_ns, now, now, now};
      listener->OnResponse(*running.instance, *request, std::move(response), true, times);
    }
  }
  for (Running& running : std::exchange(unstarted_, {})) {
    std::vector<std::unique_ptr<Execution>> unstarted;
    unstarted.push_back(std::move(running.execution));
    listener->OnUnstarted(*running.instance, std::move(unstarted));
  }
}

int64_t NativeModel::OnRound(int64_t) {
  ReturnRefused();
  return INT64_MAX;
}

void NativeModel::OnIdle() {
  if (!arena_.has_excess()) return;
  for (uint32_t segment : arena_.Trim(SteadyNowNs())) host_.RetireSegment(segment);
}

}  // namespace braid
