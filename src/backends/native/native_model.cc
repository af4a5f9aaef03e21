#include "backends/native/native_model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace braid {
namespace {

// The deadline for stopping a model that was loaded but is not used.
constexpr int64_t kStopUnusedNs = 10'000'000'000;

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

NativeModel::NativeModel(WorkerFacts facts, const WorkerServices& services, WorkerSpawner& spawner,
                         const Arena::Options& arena, std::shared_ptr<const void> files)
    : ExecutionsInFlight(true),
      name_(facts.model_name),
      spec_{.name = name_, .kind = "CPU"},
      facts_(std::move(facts)),
      files_(std::move(files)),
      arena_(spawner.support().segment_ids, arena),
      host_({.mode = LoadMode::kInstance,
             .thread_name = "brd-native",
             .title = "the native worker of model '" + name_ + "'",
             .noun = "worker",
             .runs_user_code = false},
            spec_, facts_, services, spawner, arena_, *this) {}

NativeModel::~NativeModel() {
  if (loaded_) Stop(SteadyNowNs() + kStopUnusedNs);
}

Result<NativeAnswer> NativeModel::Load() {
  BRAID_RETURN_IF_ERROR(host_.StartAndWait());
  loaded_ = true;
  // The host's thread wrote it before it reported the start; no other thread writes it.
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
  listener_ = &listener;
  const auto reason = NotReadyReason();
  if (!reason) return OkStatus();
  Stop(SteadyNowNs() + kStopUnusedNs);
  return UnavailableError(*reason);
}

void NativeModel::Stop(int64_t deadline_ns) {
  if (!loaded_) return;
  host_.BeginStop(deadline_ns);
  host_.Join();
  loaded_ = false;
}

Readiness NativeModel::readiness() const {
  const auto reason = NotReadyReason();
  return {!reason, reason.value_or("")};
}

void NativeModel::Describe(const NativeInstance& instance, InstanceReport& report) const {
  const Readiness now = readiness();
  report.ready = now.ready;
  report.reason = now.reason;
  // Describes the worker once, so that its memory is not counted for each instance.
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

Status NativeModel::Send(const Running& running, const Execution& execution) {
  WorkerMemory::Loan loan(*link_.memory);
  outgoing_.execution_id = running.id;
  outgoing_.instance = static_cast<const NativeInstance*>(running.instance)->index();
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
      // Workers do not write to inputs.
      BRAID_RETURN_IF_ERROR(loan.Lend(input.data, false, tensor));
    }
  }
  Encode(encoded_, outgoing_);
  BRAID_RETURN_IF_ERROR(link_.channel->Send(encoded_));
  loan.Keep();
  return OkStatus();
}

void NativeModel::Execute(NativeInstance& instance, std::unique_ptr<Execution> execution) {
  Status refused;
  if (IsUnwanted(*execution))
    refused = CancelledError("Request cancelled before model '" + name_ + "' ran it");
  if (!Hand(instance, std::move(execution), std::move(refused))) host_.Wake();
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
      return InvalidArgumentError("the worker sent a tensor whose size does not match its shape");
  }
  return OkStatus();
}

Status NativeModel::HandleExecuted(const NativeExecutedMessage& message) {
  std::vector<InferenceResponse> responses(message.responses.size());
  WorkerMemory::Returned returned;
  for (size_t i = 0; i < responses.size(); ++i)
    BRAID_RETURN_IF_ERROR(MakeResponse(message.responses[i], returned, responses[i]));
  if (!message.released.empty()) BRAID_RETURN_IF_ERROR(link_.memory->OnRelease({message.released}));
  ExecutionTimes times;
  Running running;
  std::vector<std::unique_ptr<InferenceRequest>> requests;
  {
    MutexLock lock(mutex_);
    const auto found = std::find_if(running_.begin(), running_.end(),
                                    [&](const Running& each) { return each.id == message.execution_id; });
    if (found != running_.end() && found->slots.size() != responses.size())
      return InvalidArgumentError("the worker sent the wrong number of responses");
    BRAID_ASSIGN_OR_RETURN(
        running, TakeReturned(message.execution_id, message.input_end_ns, message.infer_end_ns, times));
    for (const uint32_t slot : running.slots) {
      requests.push_back(std::move(slots_[slot].request));
      FreeSlot(slot);
    }
  }
  host_.NoteServed();
  auto& instance = static_cast<NativeInstance&>(*running.instance);
  instance.CountExecution();
  listener().OnExecuted(instance, running.rows, requests.size(), times);
  for (size_t i = 0; i < responses.size(); ++i) {
    listener().OnResponse(instance, *requests[i], std::move(responses[i]), true, times);
    requests[i] = nullptr;
  }
  listener().OnDelivered(instance);
  delivering_.store(false, std::memory_order_release);
  return OkStatus();
}

Status NativeModel::OnMessage(const std::vector<std::byte>& message) {
  NativeExecutedMessage executed;
  // A worker that has not loaded its model has no executions to answer.
  if (link_.channel == nullptr || TypeOf(message) != MessageType::kNativeExecuted ||
      !Decode(message, executed))
    return WorkerConversation::Malformed();
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
                                   "' changed since it was loaded; reload it");
  }
  return ExecutionsInFlight::OnUp(link, loaded);
}

void NativeModel::TellAvailable(bool available) {
  for (auto& instance : instances_) listener().OnAvailability(*instance, available);
}

int64_t NativeModel::OnRound(int64_t) {
  TellRefused();
  return INT64_MAX;
}

}  // namespace braid
