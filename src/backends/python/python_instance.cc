#include "backends/python/python_instance.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "workers/parameters_json.h"

namespace braid {
namespace {

// The size of the largest message that is decoded into reused memory.
constexpr size_t kMostReusedBytes = size_t{64} << 10;

// Whether no output is on a GPU unless the request wants it there.
bool Placed(const InferenceRequest& request, const std::vector<Tensor>& outputs) {
  return std::none_of(outputs.begin(), outputs.end(), [&](const Tensor& output) {
    return output.data.on_device() && std::find(request.device_outputs.begin(), request.device_outputs.end(),
                                                output.name) == request.device_outputs.end();
  });
}

}  // namespace

PythonInstance::PythonInstance(WorkerSpec spec, const WorkerFacts& facts, const WorkerServices& services,
                               WorkerSpawner& spawner, Arena& arena, const ModelBounds& bounds,
                               std::shared_ptr<WorkerCounters::Row> counters, std::optional<Owner> owner,
                               ForkSource* source)
    : ExecutionsInFlight(false),
      spec_(std::move(spec)),
      facts_(facts),
      owner_(std::move(owner)),
      known_as_(owner_ ? owner_->known_as : *this),
      execute_timeout_ns_(bounds.execute_timeout_ns()),
      readiness_hook_(spec_.name),
      host_({.mode = LoadMode::kInstance,
             .thread_name = "brd-py",
             .title = "instance '" + spec_.name + "'",
             .noun = "instance",
             .initialize_timeout_ns = bounds.initialize_timeout_ns(),
             .finalize_timeout_ns = bounds.finalize_timeout_ns(),
             .source = source,
             .counters = std::move(counters)},
            spec_, facts_, services, spawner, arena, *this) {}

PythonInstance::~PythonInstance() = default;

void PythonInstance::Start(ExecutionListener& listener, std::function<void(Status)> on_started,
                           std::function<void()> on_idle) {
  listener_ = &listener;
  on_idle_ = std::move(on_idle);
  host_.Start(std::move(on_started));
}

bool PythonInstance::returned() const {
  MutexLock lock(mutex_);
  return ExecutionsInFlight::returned();
}

bool PythonInstance::answered() const {
  MutexLock lock(mutex_);
  return ExecutionsInFlight::answered();
}

void PythonInstance::CheckReadiness(std::function<void(Readiness)> done) {
  if (auto reason = NotReadyReason()) {
    done({false, *std::move(reason)});
  } else {
    readiness_hook_.Ask(std::move(done), SteadyNowNs());
  }
}

InstanceReport PythonInstance::report() const {
  InstanceReport report;
  report.name = spec_.name;
  if (const auto reason = NotReadyReason()) {
    report.ready = false;
    report.reason = *reason;
  }
  report.executions = executions_.load(std::memory_order_relaxed);
  host_.Describe(report);
  return report;
}

// --- Requests in
// -----------------------------------------------------------------------------------------------------

void PythonInstance::Execute(std::unique_ptr<Execution> execution) {
  if (!Hand(known_as_, std::move(execution))) host_.Wake();
}

Status PythonInstance::Send(const Running& running, const Execution& execution) {
  ChannelHeader& header = link_.channel->header();
  WorkerMemory::Loan loan(*link_.memory);
  outgoing_.execution_id = running.id;
  outgoing_.requests.resize(execution.requests.size());
  boost::container::small_vector<std::string, 4> parameter_texts(execution.requests.size());
  std::vector<std::string> trace_contexts;
  for (size_t i = 0; i < execution.requests.size(); ++i) {
    const InferenceRequest& request = *execution.requests[i];
    RequestMessage& message = outgoing_.requests[i];
    const uint32_t slot = running.slots[i];
    message.id = NameOf(slot);
    message.request_id = request.id;
    if (const auto* number = std::get_if<uint64_t>(&request.correlation_id)) {
      message.correlation_id = *number;
    } else {
      message.correlation_id = std::string_view(std::get<std::string>(request.correlation_id));
    }
    message.flags = (request.sequence_start ? 1u : 0u) | (request.sequence_end ? 2u : 0u);
    message.renders_chat = request.renders_chat;
    message.timeout_us = request.timeout_us;
    if (!request.parameters.empty()) parameter_texts[i] = ParametersToJson(request.parameters);
    message.parameters_json = parameter_texts[i];
    message.trace_context = {};
    if (request.trace != nullptr) {
      trace_contexts.resize(execution.requests.size());
      message.trace_context = trace_contexts[i] = request.trace->context();
    }
    message.cancel_slot = kNoCancelSlot;
    if (request.cancellation && slot < ChannelHeader::kCancelSlots) {
      message.cancel_slot = slot;
      std::atomic<uint8_t>* flag = &header.cancelled[slot];
      flag->store(0, std::memory_order_relaxed);
      request.cancellation->SetListener([flag] { flag->store(1, std::memory_order_release); });
    }
    message.requested_outputs.assign(request.requested_outputs.begin(), request.requested_outputs.end());
    message.device_outputs.assign(request.device_outputs.begin(), request.device_outputs.end());
    message.inputs.resize(request.inputs.size());
    // Checked before the first loan, which takes another reference.
    boost::container::small_vector<bool, 16> sole(request.inputs.size(), true);
    for (size_t k = 0; k < sole.size(); ++k) {
      const Buffer& data = request.inputs[k].data;
      if (data.size() > kInlineTensorBytes || data.on_device()) sole[k] = IsSoleHolder(request.inputs, k);
    }
    for (size_t k = 0; k < request.inputs.size(); ++k) {
      const Tensor& input = request.inputs[k];
      TensorMessage& tensor = message.inputs[k];
      tensor.name = input.name;
      tensor.type = input.type;
      tensor.shape = input.shape;
      BRAID_RETURN_IF_ERROR(loan.Lend(input.data, sole[k], tensor));
    }
  }
  Encode(encoded_, outgoing_);
  BRAID_RETURN_IF_ERROR(link_.channel->Send(encoded_));
  loan.Keep();
  return OkStatus();
}

// --- Responses out
// ---------------------------------------------------------------------------------------------------

Status PythonInstance::MakeResponse(const ResponseMessage& message, WorkerMemory::Returned& returned,
                                    InferenceResponse& response) {
  if (message.code != StatusCode::kOk) response.status = Status(message.code, std::string(message.error));
  if (!message.parameters_json.empty()) response.parameters = ParametersFromJson(message.parameters_json);
  response.outputs.reserve(message.outputs.size());
  for (const TensorMessage& output : message.outputs) {
    Tensor& tensor = response.outputs.emplace_back();
    tensor.name = output.name;
    tensor.type = output.type;
    tensor.shape = output.shape;
    BRAID_ASSIGN_OR_RETURN(tensor.data, link_.memory->Take(output, returned, true));
    if (output.type == DataType::kInvalid)
      return InvalidArgumentError("the worker sent a tensor without a type");
    const auto bytes = ByteSize(output.type, output.shape);
    if (output.type != DataType::kBytes && (!bytes || *bytes != tensor.data.size())) {
      return InvalidArgumentError("the worker sent a tensor whose size does not match its shape");
    }
  }
  return OkStatus();
}

Status PythonInstance::HandleResponse(const ResponseMessage& message, WorkerMemory::Returned& returned) {
  std::optional<InferenceResponse> response;
  if (message.has_response) {
    BRAID_RETURN_IF_ERROR(MakeResponse(message, returned, response.emplace()));
  }
  const auto index = static_cast<uint32_t>(message.request_id);
  std::unique_ptr<InferenceRequest> ended;
  InferenceRequest* request = nullptr;
  ExecutionTimes times;
  {
    MutexLock lock(mutex_);
    Slot* const slot = Find(message.request_id);
    if (slot == nullptr) return InvalidArgumentError("the worker answered an unknown request");
    if (slot->given_up) {
      if (message.final) FreeSlot(index);
      return OkStatus();
    }
    request = slot->request.get();
    if (response && !Placed(*request, response->outputs))
      return InvalidArgumentError("the worker left an output on a GPU, which the request does not allow");
    times = slot->times;
    host_.NoteServed();
    if (execute_timeout_ns_ > 0) {
      slot->progress_ns = SteadyNowNs();
      if (!running_.empty() && running_.front().id == slot->execution_id) front_since_ns_ = slot->progress_ns;
    }
    if (message.final) {
      ended = std::move(slot->request);
      FreeSlot(index);
    }
  }
  if (times.output_end_ns == 0) {
    // The response arrived before its execution returned, so some times are not known yet.
    const int64_t now = SteadyNowNs();
    times = {request->queue_start_ns, request->queue_start_ns, now, now};
  }
  if (ended && ended->cancellation) ended->cancellation->ClearListener();
  listener().OnResponse(known_as_, *request, std::move(response), message.final, times);
  return OkStatus();
}

Status PythonInstance::HandleExecuted(const ExecutedMessage& message) {
  ExecutionTimes times;
  Running running;
  {
    MutexLock lock(mutex_);
    BRAID_ASSIGN_OR_RETURN(
        running, TakeReturned(message.execution_id, message.input_end_ns, message.infer_end_ns, times));
  }
  host_.NoteServed();
  executions_.fetch_add(1, std::memory_order_relaxed);
  listener().OnExecuted(known_as_, running.rows, running.slots.size(), times);
  WorkerMemory::Returned returned;
  for (const ResponseMessage& response : message.responses)
    BRAID_RETURN_IF_ERROR(HandleResponse(response, returned));
  for (uint64_t id : message.rescheduled) {
    BRAID_ASSIGN_OR_RETURN(auto request, TakeBack(id));
    if (request != nullptr) listener().OnRescheduled(known_as_, std::move(request));
  }
  listener().OnDelivered(known_as_);
  delivering_.store(false, std::memory_order_release);
  return OkStatus();
}

Result<std::unique_ptr<InferenceRequest>> PythonInstance::TakeBack(uint64_t id) {
  std::unique_ptr<InferenceRequest> request;
  {
    MutexLock lock(mutex_);
    Slot* const slot = Find(id);
    if (slot == nullptr) return InvalidArgumentError("the worker rescheduled an unknown request");
    request = std::move(slot->request);
    FreeSlot(static_cast<uint32_t>(id));
  }
  if (request != nullptr && request->cancellation) request->cancellation->ClearListener();
  return request;
}

// --- The limit of executions
// ---------------------------------------------------------------------------------------------------

std::string PythonInstance::OverdueText() const {
  return fmt::format(
      "execute() of model '{}' has not answered for {} ms in instance '{}' (--execute-timeout-ms, "
      "EXECUTE_TIMEOUT_MS)",
      facts_.model_name, execute_timeout_ns_ / 1'000'000, spec_.name);
}

int64_t PythonInstance::TakeOverdue(int64_t now_ns, std::vector<std::unique_ptr<InferenceRequest>>& overdue) {
  // Requests that begin from now on are overdue after this.
  int64_t next_ns = now_ns + execute_timeout_ns_;
  const auto give_up = [&](Slot& slot) {
    if (!slot.request) return;
    overdue.push_back(std::move(slot.request));
    slot.given_up = true;
  };
  if (!running_.empty()) {
    const Running& front = running_.front();
    const int64_t deadline_ns = front_since_ns_ + execute_timeout_ns_;
    if (deadline_ns > now_ns) {
      next_ns = std::min(next_ns, deadline_ns);
    } else {
      overdue_execution_ = front.id;
      // Requests that user code has not begun can run elsewhere.
      if (front.id <= link_.channel->header().begun_execution.load(std::memory_order_acquire)) {
        for (const uint32_t index : front.slots) {
          if (slots_[index].execution_id == front.id) give_up(slots_[index]);
        }
      }
    }
  }
  for (Slot& slot : slots_) {
    if (!slot.request || slot.times.output_end_ns == 0) continue;
    const int64_t deadline_ns = slot.progress_ns + execute_timeout_ns_;
    if (deadline_ns > now_ns) {
      next_ns = std::min(next_ns, deadline_ns);
    } else {
      give_up(slot);
    }
  }
  return next_ns;
}

bool PythonInstance::Stuck() {
  if (!running_.empty() && running_.front().id == overdue_execution_) return true;
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.given_up; });
}

int64_t PythonInstance::WatchExecutions(int64_t now_ns) {
  if (link_.channel == nullptr) return INT64_MAX;
  if (now_ns < next_watch_ns_) return next_watch_ns_;
  std::vector<std::unique_ptr<InferenceRequest>> overdue;
  bool stuck = false;
  {
    MutexLock lock(mutex_);
    next_watch_ns_ = TakeOverdue(now_ns, overdue);
    stuck = Stuck();
  }
  next_watch_ns_ = host_.WatchStuck(now_ns, next_watch_ns_, stuck, [this] { return OverdueText(); });
  for (const auto& request : overdue) {
    if (request->cancellation) request->cancellation->ClearListener();
    InferenceResponse response;
    response.status = UnavailableError(OverdueText());
    const ExecutionTimes times{request->queue_start_ns, request->queue_start_ns, now_ns, now_ns};
    listener().OnResponse(known_as_, *request, std::move(response), true, times);
  }
  return next_watch_ns_;
}

// --- What user code asks for
// -----------------------------------------------------------------------------------------

std::shared_ptr<const CallChain> PythonInstance::Chain(uint64_t blocked_execution) {
  if (blocked_execution == kBlocksEverything) {
    return BlockingChain([](const Slot&) { return true; });
  }
  auto running = std::find_if(running_.begin(), running_.end(),
                              [&](const Running& each) { return each.id == blocked_execution; });
  if (running == running_.end()) {
    if (!loose_chain_) {
      loose_chain_ = std::make_shared<CallChain>(
          CallChain{.model = facts_.model_name, .instance = spec_.name, .parents = {}});
    }
    return loose_chain_;
  }
  if (!running->chain) {
    running->chain = BlockingChain([&](const Slot& slot) { return slot.execution_id == running->id; });
  }
  return running->chain;
}

template <class Blocked>
std::shared_ptr<const CallChain> PythonInstance::BlockingChain(const Blocked& blocked) {
  auto chain = std::make_shared<CallChain>();
  chain->model = facts_.model_name;
  chain->instance = spec_.name;
  chain->blocked_instance = &known_as_;
  for (const Slot& slot : slots_) {
    if (!slot.request || !slot.request->call_chain || !blocked(slot)) continue;
    const auto& parent = slot.request->call_chain;
    if (std::find(chain->parents.begin(), chain->parents.end(), parent) == chain->parents.end())
      chain->parents.push_back(parent);
  }
  return chain;
}

WorkerConversation::Origin PythonInstance::OriginOf(const CallMessage& call) {
  makes_calls_.store(true, std::memory_order_relaxed);
  WorkerConversation::Origin origin;
  MutexLock lock(mutex_);
  origin.chain = Chain(call.blocked_execution);
  const auto running = std::find_if(running_.begin(), running_.end(),
                                    [&](const Running& each) { return each.id == call.blocked_execution; });
  if (running != running_.end()) origin.begun_ns = running->compute_start_ns;
  const Slot* const traced = Find(call.traced_request);
  if (traced != nullptr && traced->request) origin.trace = traced->request->trace;
  return origin;
}

std::shared_ptr<const CallChain> PythonInstance::ForkedChain() {
  makes_calls_.store(true, std::memory_order_relaxed);
  MutexLock lock(mutex_);
  return Chain(0);
}

Status PythonInstance::OnMessage(const std::vector<std::byte>& message) {
  // A worker that has not loaded its model has no executions to answer.
  if (link_.channel == nullptr) return WorkerConversation::Malformed();
  switch (TypeOf(message)) {
    case MessageType::kExecuted: {
      // A large message has its own memory: a worker must not make the server keep it.
      ExecutedMessage large;
      ExecutedMessage& executed = message.size() > kMostReusedBytes ? large : executed_;
      return Decode(message, executed) ? HandleExecuted(executed) : WorkerConversation::Malformed();
    }
    case MessageType::kResponse: {
      ResponseMessage response;
      WorkerMemory::Returned returned;
      return Decode(message, response) ? HandleResponse(response, returned) : WorkerConversation::Malformed();
    }
    case MessageType::kReadiness: {
      ReadinessMessage readiness;
      if (!Decode(message, readiness)) return WorkerConversation::Malformed();
      readiness_hook_.OnAnswer(readiness);
      return OkStatus();
    }
    default:
      return WorkerConversation::Malformed();
  }
}

// --- The worker's life
// -----------------------------------------------------------------------------------------------

void PythonInstance::TellAvailable(bool available) {
  if (owner_) {
    owner_->on_availability(available);
  } else {
    listener().OnAvailability(known_as_, available);
  }
}

Status PythonInstance::OnUp(const WorkerLink& link, const WorkerProcess::Answer& loaded) {
  if (loaded.has_readiness_hook) readiness_hook_.Open(link.channel);
  saves_sequences_.store(loaded.saves_sequences, std::memory_order_relaxed);
  next_watch_ns_ = 0;
  overdue_execution_ = 0;
  return ExecutionsInFlight::OnUp(link, loaded);
}

int64_t PythonInstance::OnRound(int64_t now_ns) {
  TellRefused();
  const int64_t watch_ns = execute_timeout_ns_ > 0 ? WatchExecutions(now_ns) : INT64_MAX;
  return std::min(watch_ns, readiness_hook_.Expire(now_ns));
}

void PythonInstance::OnGone(const std::string& reason) {
  readiness_hook_.Close(reason);
  ExecutionsInFlight::OnGone(reason);
}

}  // namespace braid
