#include "backends/python/python_instance.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <chrono>

#include "backends/python/parameters_json.h"
#include "backends/python/worker_asks.h"
#include "base/clock.h"
#include "base/thread.h"

namespace braid {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kFirstPauseNs = kSecond;
constexpr int64_t kLongestPauseNs = 30 * kSecond;
// A worker that has lived so long has not failed "in a row" with the one before it.
constexpr int64_t kStableNs = 60 * kSecond;
// The thread looks around so often when nothing happens.
constexpr int64_t kIdleNs = kSecond;
constexpr int64_t kProgressSeconds = 10;
uint64_t RequestName(uint32_t slot, uint32_t generation) { return uint64_t{generation} << 32 | slot; }

}  // namespace

int64_t RestartPauseNs(int failures) {
  const int doublings = std::clamp(failures - 1, 0, 10);
  return std::min(kFirstPauseNs << doublings, kLongestPauseNs);
}

PythonInstance::PythonInstance(PythonInstanceSpec spec, const PythonModelFacts& facts,
                               const WorkerServices& services, WorkerSpawner& spawner, ChildReaper& reaper,
                               Arena& arena, Logger& log, int64_t sign_in_timeout_ns)
    : spec_(std::move(spec)),
      facts_(facts),
      services_(services),
      spawner_(spawner),
      reaper_(reaper),
      arena_(arena),
      log_(log),
      sign_in_timeout_ns_(sign_in_timeout_ns),
      readiness_hook_(spec_.name) {}

PythonInstance::~PythonInstance() { BRAID_CHECK(!thread_.joinable()); }

void PythonInstance::Start(ExecutionListener& listener, std::function<void(Status)> on_started,
                           std::function<void()> on_idle) {
  listener_ = &listener;
  on_started_ = std::move(on_started);
  on_idle_ = std::move(on_idle);
  SetState(false, "instance '" + spec_.name + "' is starting");
  thread_ = StartThread("brd-py", [this] { Run(); });
}

void PythonInstance::BeginStop(int64_t deadline_ns) {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    stop_deadline_ns_ = deadline_ns;
  }
  Wake();
}

void PythonInstance::Join() {
  if (thread_.joinable()) thread_.join();
}

void PythonInstance::Wake() {
  std::lock_guard lock(mutex_);
  if (worker_) worker_->channel()->Interrupt();
  stop_changed_.notify_all();
}

std::optional<std::string> PythonInstance::NotReadyReason() const {
  std::lock_guard lock(mutex_);
  if (accepting_) return std::nullopt;
  return reason_;
}

void PythonInstance::CheckReadiness(std::function<void(Readiness)> done) {
  if (auto reason = NotReadyReason()) {
    done({false, *std::move(reason)});
  } else {
    readiness_hook_.Ask(std::move(done), SteadyNowNs());
  }
}

std::string PythonInstance::Progress() const {
  std::lock_guard lock(mutex_);
  return progress_;
}

void PythonInstance::SetState(bool ready, std::string reason) {
  std::lock_guard lock(mutex_);
  accepting_ = ready;
  reason_ = std::move(reason);
}

void PythonInstance::RetireSegment(uint32_t segment) {
  std::shared_ptr<WorkerMemory> memory;
  {
    std::lock_guard lock(mutex_);
    memory = memory_;
  }
  if (memory) memory->RetireOwn(segment);
}

// --- Requests in
// -----------------------------------------------------------------------------------------------------

uint32_t PythonInstance::TakeSlotLocked() {
  if (free_slots_.empty()) {
    slots_.emplace_back();
    return static_cast<uint32_t>(slots_.size() - 1);
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void PythonInstance::FreeSlotLocked(uint32_t slot) {
  slots_[slot].request = nullptr;
  ++slots_[slot].generation;
  free_slots_.push_back(slot);
}

Status PythonInstance::SendLocked(const Execution& execution, uint64_t execution_id,
                                  const std::vector<uint32_t>& slots) {
  ChannelHeader& header = worker_->channel()->header();
  outgoing_.execution_id = execution_id;
  outgoing_.requests.resize(execution.requests.size());
  std::vector<std::string> parameter_texts(execution.requests.size());
  std::vector<std::string> trace_contexts;
  for (size_t i = 0; i < execution.requests.size(); ++i) {
    const InferenceRequest& request = *execution.requests[i];
    RequestMessage& message = outgoing_.requests[i];
    const uint32_t slot = slots[i];
    message.id = RequestName(slot, slots_[slot].generation);
    message.request_id = request.id;
    if (const auto* number = std::get_if<uint64_t>(&request.correlation_id)) {
      message.correlation_id = *number;
    } else {
      message.correlation_id = std::string_view(std::get<std::string>(request.correlation_id));
    }
    message.flags = (request.sequence_start ? 1u : 0u) | (request.sequence_end ? 2u : 0u);
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
    message.inputs.resize(request.inputs.size());
    // Found out before the first is lent, which takes a further share in its owner.
    boost::container::small_vector<bool, 16> sole(request.inputs.size(), true);
    for (size_t k = 0; k < sole.size(); ++k) {
      if (request.inputs[k].data.size() > kInlineTensorBytes) sole[k] = IsSoleHolder(request.inputs, k);
    }
    for (size_t k = 0; k < request.inputs.size(); ++k) {
      const Tensor& input = request.inputs[k];
      TensorMessage& tensor = message.inputs[k];
      tensor.name = input.name;
      tensor.type = input.type;
      tensor.shape = input.shape;
      BRAID_RETURN_IF_ERROR(memory_->Lend(input.data, sole[k], tensor));
    }
  }
  Encode(encoded_, outgoing_);
  return worker_->channel()->Send(encoded_);
}

void PythonInstance::Execute(std::unique_ptr<Execution> execution) {
  {
    std::lock_guard lock(mutex_);
    if (accepting_) {
      Running running;
      running.id = next_execution_id_;
      running.rows = execution->rows;
      running.requests = execution->requests.size();
      running.compute_start_ns = execution->compute_start_ns;
      running.slots.reserve(execution->requests.size());
      for (size_t i = 0; i < execution->requests.size(); ++i) running.slots.push_back(TakeSlotLocked());
      Status sent = SendLocked(*execution, running.id, running.slots);
      if (sent.ok()) {
        ++next_execution_id_;
        for (size_t i = 0; i < execution->requests.size(); ++i) {
          Slot& slot = slots_[running.slots[i]];
          slot.request = std::move(execution->requests[i]);
          slot.execution_id = running.id;
          slot.times = ExecutionTimes{};
        }
        running_.push_back(std::move(running));
        return;
      }
      for (uint32_t slot : running.slots) FreeSlotLocked(slot);
      for (const auto& request : execution->requests) {
        if (request->cancellation) request->cancellation->ClearListener();
      }
      refused_.push_back({std::move(execution), std::move(sent)});
    } else {
      refused_.push_back({std::move(execution), OkStatus()});
    }
  }
  Wake();
}

void PythonInstance::ReturnRefused() {
  std::vector<Refused> refused;
  {
    std::lock_guard lock(mutex_);
    refused.swap(refused_);
  }
  for (Refused& one : refused) {
    if (one.status.ok()) {
      std::vector<std::unique_ptr<Execution>> unstarted;
      unstarted.push_back(std::move(one.execution));
      listener_->OnUnstarted(*this, std::move(unstarted));
      continue;
    }
    const int64_t now = SteadyNowNs();
    const ExecutionTimes times{one.execution->compute_start_ns, now, now, now};
    listener_->OnExecuted(*this, one.execution->rows, one.execution->requests.size(), times);
    for (auto& request : one.execution->requests) {
      InferenceResponse response;
      response.status = one.status;
      listener_->OnResponse(*this, *request, std::move(response), true, times);
    }
    listener_->OnDelivered(*this);
  }
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
    BRAID_ASSIGN_OR_RETURN(tensor.data, memory_->Take(output, returned));
    if (output.type == DataType::kInvalid)
      return InvalidArgumentError("the worker sent a tensor without a type");
    const auto bytes = ByteSize(output.type, output.shape);
    if (output.type != DataType::kBytes && (!bytes || *bytes != tensor.data.size())) {
      return InvalidArgumentError("the worker sent a tensor whose size is not that of its shape");
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
  const auto generation = static_cast<uint32_t>(message.request_id >> 32);
  std::unique_ptr<InferenceRequest> ended;
  InferenceRequest* request = nullptr;
  ExecutionTimes times;
  {
    std::lock_guard lock(mutex_);
    if (index >= slots_.size() || slots_[index].request == nullptr ||
        slots_[index].generation != generation) {
      return InvalidArgumentError("the worker answers a request that it does not have");
    }
    Slot& slot = slots_[index];
    request = slot.request.get();
    times = slot.times;
    if (message.final) {
      ended = std::move(slot.request);
      FreeSlotLocked(index);
    }
  }
  if (times.output_end_ns == 0) {
    // Answered before its execution has returned: what is known now is as good as it gets.
    const int64_t now = SteadyNowNs();
    times = {request->queue_start_ns, request->queue_start_ns, now, now};
  }
  if (ended && ended->cancellation) ended->cancellation->ClearListener();
  listener_->OnResponse(*this, *request, std::move(response), message.final, times);
  return OkStatus();
}

Status PythonInstance::HandleExecuted(const ExecutedMessage& message) {
  const int64_t now = SteadyNowNs();
  ExecutionTimes times;
  Running running;
  {
    std::lock_guard lock(mutex_);
    if (running_.empty() || running_.front().id != message.execution_id) {
      return InvalidArgumentError("the worker returns from an execution that it does not run");
    }
    running = std::move(running_.front());
    running_.pop_front();
    times.compute_start_ns = running.compute_start_ns;
    times.input_end_ns = std::clamp(message.input_end_ns, times.compute_start_ns, now);
    times.infer_end_ns = std::clamp(message.infer_end_ns, times.input_end_ns, now);
    times.output_end_ns = now;
    for (uint32_t index : running.slots) {
      Slot& slot = slots_[index];
      if (slot.request && slot.execution_id == running.id) slot.times = times;
    }
  }
  listener_->OnExecuted(*this, running.rows, running.requests, times);
  WorkerMemory::Returned returned;
  for (const ResponseMessage& response : message.responses)
    BRAID_RETURN_IF_ERROR(HandleResponse(response, returned));
  for (uint64_t id : message.rescheduled) {
    BRAID_ASSIGN_OR_RETURN(auto request, TakeBack(id));
    listener_->OnRescheduled(*this, std::move(request));
  }
  listener_->OnDelivered(*this);
  return OkStatus();
}

Result<std::unique_ptr<InferenceRequest>> PythonInstance::TakeBack(uint64_t id) {
  const auto index = static_cast<uint32_t>(id);
  const auto generation = static_cast<uint32_t>(id >> 32);
  std::unique_ptr<InferenceRequest> request;
  {
    std::lock_guard lock(mutex_);
    if (index >= slots_.size() || slots_[index].request == nullptr ||
        slots_[index].generation != generation) {
      return InvalidArgumentError("the worker reschedules a request that it does not have");
    }
    request = std::move(slots_[index].request);
    FreeSlotLocked(index);
  }
  if (request->cancellation) request->cancellation->ClearListener();
  return request;
}

// --- What user code asks for
// -----------------------------------------------------------------------------------------

std::shared_ptr<const CallChain> PythonInstance::ChainLocked(uint64_t blocked_execution) {
  if (blocked_execution == kBlocksEverything) {
    return BlockingChainLocked([](const Slot&) { return true; });
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
    running->chain = BlockingChainLocked([&](const Slot& slot) { return slot.execution_id == running->id; });
  }
  return running->chain;
}

template <class Blocked>
std::shared_ptr<const CallChain> PythonInstance::BlockingChainLocked(const Blocked& blocked) {
  auto chain = std::make_shared<CallChain>();
  chain->model = facts_.model_name;
  chain->instance = spec_.name;
  chain->blocked_instance = static_cast<const Instance*>(this);
  for (const Slot& slot : slots_) {
    if (!slot.request || !slot.request->call_chain || !blocked(slot)) continue;
    const auto& parent = slot.request->call_chain;
    if (std::find(chain->parents.begin(), chain->parents.end(), parent) == chain->parents.end())
      chain->parents.push_back(parent);
  }
  return chain;
}

Status PythonInstance::HandleCall(const CallMessage& message) {
  makes_calls_.store(true, std::memory_order_relaxed);
  std::shared_ptr<const CallChain> chain;
  std::shared_ptr<RequestTrace> trace;
  {
    std::lock_guard lock(mutex_);
    chain = ChainLocked(message.blocked_execution);
    const auto index = static_cast<uint32_t>(message.traced_request);
    if (message.traced_request != 0 && index < slots_.size() && slots_[index].request &&
        slots_[index].generation == static_cast<uint32_t>(message.traced_request >> 32)) {
      trace = slots_[index].request->trace;
    }
  }
  return calls_->Begin(message, std::move(chain), trace.get());
}

Status PythonInstance::HandleKnock() {
  makes_calls_.store(true, std::memory_order_relaxed);
  // Their sockets come among the worker's segments.
  BRAID_RETURN_IF_ERROR(memory_->ReceiveSegments());
  for (UniqueFd& knocker : worker_->channel()->TakeKnockers()) {
    if (!forks_) {
      std::shared_ptr<const CallChain> chain;
      {
        std::lock_guard lock(mutex_);
        chain = ChainLocked(0);
      }
      forks_ = std::make_unique<ForkedChildren>(services_, arena_, log_, std::move(chain));
    }
    forks_->Admit(std::move(knocker));
  }
  return OkStatus();
}

Status PythonInstance::Handle(const std::vector<std::byte>& message) {
  const auto malformed = [] { return InvalidArgumentError("the worker sent a message that cannot be read"); };
  switch (TypeOf(message)) {
    case MessageType::kExecuted: {
      ExecutedMessage executed;
      return Decode(message, executed) ? HandleExecuted(executed) : malformed();
    }
    case MessageType::kResponse: {
      ResponseMessage response;
      WorkerMemory::Returned returned;
      return Decode(message, response) ? HandleResponse(response, returned) : malformed();
    }
    case MessageType::kRelease: {
      ReleaseMessage release;
      return Decode(message, release) ? memory_->OnRelease(release) : malformed();
    }
    case MessageType::kRetireSegment: {
      uint32_t segment = 0;
      if (!DecodeRetireSegment(message, segment)) return malformed();
      memory_->OnRetire(segment);
      return OkStatus();
    }
    case MessageType::kCall: {
      CallMessage call;
      return Decode(message, call) ? HandleCall(call) : malformed();
    }
    case MessageType::kCancelCall: {
      CancelCallMessage cancel;
      if (!Decode(message, cancel)) return malformed();
      calls_->Cancel(cancel);
      return OkStatus();
    }
    case MessageType::kReadiness: {
      ReadinessMessage readiness;
      if (!Decode(message, readiness)) return malformed();
      readiness_hook_.OnAnswer(readiness);
      return OkStatus();
    }
    case MessageType::kLog: {
      LogMessage log;
      if (!Decode(message, log)) return malformed();
      WriteWorkerLog(log_, log);
      return OkStatus();
    }
    case MessageType::kAsk: {
      AskMessage ask;
      if (!Decode(message, ask)) return malformed();
      HandleAsk(services_, ask, worker_->channel(), metrics_.get());
      return OkStatus();
    }
    case MessageType::kFinalized:
      finalized_ = true;
      return OkStatus();
    default:
      return malformed();
  }
}

// --- The worker's life
// -----------------------------------------------------------------------------------------------

Status PythonInstance::StartWorker() {
  finalized_ = false;
  BRAID_ASSIGN_OR_RETURN(auto worker, WorkerProcess::Start(spec_.name, spawner_, reaper_, log_));
  {
    std::lock_guard lock(mutex_);
    memory_ = std::make_shared<WorkerMemory>(worker->channel(), arena_);
    calls_ = std::make_shared<WorkerCalls>(worker->channel(), memory_, *services_.catalog);
    worker_ = std::move(worker);
    next_execution_id_ = 1;
  }
  if (services_.custom_metrics != nullptr) {
    metrics_ = services_.custom_metrics->Open();
  }
  const auto other = [this](const std::vector<std::byte>& message) { return Handle(message); };
  int64_t next_report = kProgressSeconds;
  const auto still_loading = [&](int64_t seconds) {
    if (seconds >= next_report) {
      next_report += kProgressSeconds;
      std::string text = fmt::format("instance '{}' has been initialising for {} s", spec_.name, seconds);
      BRAID_LOG_INFO(log_, "{}", text);
      std::lock_guard lock(mutex_);
      progress_ = std::move(text);
    }
    if (worker_->channel()->TakeKnock()) BRAID_RETURN_IF_ERROR(HandleKnock());
    std::lock_guard lock(mutex_);
    if (!stopping_ || SteadyNowNs() < stop_deadline_ns_) return OkStatus();
    return UnavailableError("the server stopped while instance '" + spec_.name + "' was initialising");
  };
  Status status = worker_->AwaitSignIn(sign_in_timeout_ns_, other);
  if (status.ok()) {
    auto loaded = worker_->Load(LoadMode::kInstance, facts_, spec_, other, still_loading);
    status = loaded.status();
    if (loaded.ok() && loaded->has_readiness_hook) readiness_hook_.Open(worker_->channel());
  }
  if (!status.ok()) {
    worker_->EnsureDead();
    BuryWorker(status.message());
  }
  return status;
}

std::string PythonInstance::Serve() {
  std::vector<std::byte> message;
  bool asked_to_finalize = false;
  bool killed = false;
  int64_t next_idle = 0;
  while (true) {
    ReturnRefused();
    bool stopping = false;
    int64_t deadline = 0;
    {
      std::lock_guard lock(mutex_);
      stopping = stopping_;
      deadline = stop_deadline_ns_;
      if (stopping) accepting_ = false;
    }
    const int64_t now = SteadyNowNs();
    int64_t timeout = kIdleNs;
    if (stopping) {
      if (!asked_to_finalize) {
        asked_to_finalize = true;
        std::vector<std::byte> finalize;
        EncodeBare(finalize, MessageType::kFinalize);
        // A worker that cannot be told is killed at the deadline.
        (void)worker_->channel()->Send(finalize);
      }
      if (now >= deadline && !killed) {
        killed = true;
        if (!finalized_)
          BRAID_LOG_WARNING(log_, "instance '{}' did not end in time and is killed", spec_.name);
        worker_->Kill();
      }
      timeout = std::clamp(deadline - now, int64_t{1'000'000}, kIdleNs);
    }
    if (now >= next_idle) {
      next_idle = now + kIdleNs;
      on_idle_();
    }
    const int64_t check_deadline = readiness_hook_.next_deadline_ns();
    if (check_deadline <= now) {
      readiness_hook_.Expire(now);
    } else {
      timeout = std::min(timeout, check_deadline - now);
    }
    if (worker_->channel()->TakeKnock()) {
      if (Status handled = HandleKnock(); !handled.ok()) return handled.message();
    }
    if (calls_->stuck()) return "it does not read the responses to its calls";
    const bool dead = worker_->dead();
    switch (worker_->channel()->Receive(message, dead ? 0 : timeout)) {
      case Channel::Outcome::kMessage:
        if (Status handled = Handle(message); !handled.ok()) return handled.message();
        break;
      case Channel::Outcome::kCorrupted:
        return "it wrote nonsense into its channel";
      case Channel::Outcome::kTimeout:
        if (dead) return "";
        break;
    }
  }
}

void PythonInstance::BuryWorker(const std::string& reason) {
  const uint64_t begun = worker_->channel()->header().begun_execution.load(std::memory_order_acquire);
  std::vector<Slot> failed;
  std::vector<std::unique_ptr<Execution>> unstarted;
  {
    std::lock_guard lock(mutex_);
    accepting_ = false;
    for (Running& running : running_) {
      if (running.id <= begun) continue;
      auto execution = std::make_unique<Execution>();
      execution->rows = running.rows;
      execution->compute_start_ns = running.compute_start_ns;
      for (uint32_t slot : running.slots) {
        execution->requests.push_back(std::move(slots_[slot].request));
        FreeSlotLocked(slot);
      }
      unstarted.push_back(std::move(execution));
    }
    running_.clear();
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].request == nullptr) continue;
      failed.push_back(std::move(slots_[i]));
      slots_[i].generation = failed.back().generation;
      FreeSlotLocked(i);
    }
  }
  // The flags that cancellations write to go with the channel.
  const auto forget = [](InferenceRequest& request) {
    if (request.cancellation) request.cancellation->ClearListener();
  };
  for (Slot& slot : failed) forget(*slot.request);
  for (auto& execution : unstarted) {
    for (auto& request : execution->requests) forget(*request);
  }
  metrics_.reset();
  // Calls first: what their responses would lend has no taker any more.
  forks_.reset();
  calls_->Abandon();
  memory_->Abandon();
  readiness_hook_.Close(reason);
  {
    std::unique_ptr<WorkerProcess> gone;
    std::lock_guard lock(mutex_);
    gone = std::move(worker_);
    memory_.reset();
    calls_.reset();
  }
  const int64_t now = SteadyNowNs();
  for (Slot& slot : failed) {
    InferenceResponse response;
    response.status = InternalError(reason);
    const ExecutionTimes times{slot.request->queue_start_ns, now, now, now};
    listener_->OnResponse(*this, *slot.request, std::move(response), true, times);
  }
  if (!unstarted.empty()) listener_->OnUnstarted(*this, std::move(unstarted));
}

void PythonInstance::Run() {
  const auto stopping = [this] {
    std::lock_guard lock(mutex_);
    return stopping_;
  };
  Status started = StartWorker();
  SetState(started.ok(), started.message());
  // Before the model is announced as started: its first request may come at once.
  if (started.ok()) listener_->OnAvailability(*this, true);
  on_started_(started);
  if (!started.ok()) return;
  int failures = 0;
  while (true) {
    const int64_t ready_since = SteadyNowNs();
    const std::string broken_rule = Serve();
    const bool in_order = stopping() && broken_rule.empty();
    worker_->EnsureDead();
    const std::string death = worker_->DescribeDeath(broken_rule);
    SetState(false, death);
    listener_->OnAvailability(*this, false);
    BuryWorker(death);
    if (stopping()) {
      if (!in_order || !finalized_)
        BRAID_LOG_WARNING(log_, "instance '{}' ended without finalize: {}", spec_.name, death);
      break;
    }
    BRAID_LOG_ERROR(log_, "{}", death);
    if (SteadyNowNs() - ready_since > kStableNs) failures = 0;
    std::string cause = death;
    while (true) {
      ++failures;
      const int64_t until = SteadyNowNs() + RestartPauseNs(failures);
      SetState(false, failures == 1
                          ? cause + " The instance is being restarted."
                          : fmt::format("{} The instance has failed {} times in a row; next try in {} s.",
                                        cause, failures, RestartPauseNs(failures) / kSecond));
      {
        std::unique_lock lock(mutex_);
        while (!stopping_ && SteadyNowNs() < until) {
          if (!refused_.empty()) {
            lock.unlock();
            ReturnRefused();
            lock.lock();
            continue;
          }
          stop_changed_.wait_for(lock, std::chrono::nanoseconds(until - SteadyNowNs()));
        }
      }
      if (stopping()) break;
      Status restarted = StartWorker();
      if (restarted.ok()) break;
      cause = restarted.message();
      BRAID_LOG_ERROR(log_, "instance '{}' could not be restarted: {}", spec_.name, cause);
    }
    if (stopping()) {
      if (worker_) {
        worker_->EnsureDead();
        BuryWorker(death);
      }
      break;
    }
    SetState(true, "");
    listener_->OnAvailability(*this, true);
    BRAID_LOG_INFO(log_, "instance '{}' is back", spec_.name);
  }
  ReturnRefused();
}

}  // namespace braid
