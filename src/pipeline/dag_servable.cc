#include "pipeline/dag_servable.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/guard.h"
#include "pipeline/session_client.h"
#include "scheduling/request_intake.h"
#include "serving/compensation.h"
#include "serving/sequence_inputs.h"

namespace braid {
namespace {

// Runs before all other checks. Afterwards the sequence of a request to a stateful servable has a number.
// Errors: those of TakeSequenceInputs().
Status ReadSequence(const ServableInfo& info, InferenceRequest& request) {
  if (!info.stateful) return OkStatus();
  BRAID_RETURN_IF_ERROR(TakeSequenceInputs(request));
  // Each response has it, whether requested or not.
  std::erase(request.requested_outputs, kSequenceIdInput);
  if (request.correlation_id == CorrelationId(uint64_t{0})) request.correlation_id = RandomSequenceId();
  return OkStatus();
}

// Returns the compensation for a request to these steps; null if no step has sequences.
std::shared_ptr<Compensation> NewCompensation(const InferenceRequest& request,
                                              std::vector<EnteredStep>& steps) {
  std::shared_ptr<Compensation> compensation;  // shared by the session and its client
  for (EnteredStep& step : steps) {
    if (step.servable == nullptr || !step.servable->get().has_sequences()) continue;
    if (compensation == nullptr) {
      compensation = std::make_shared<Compensation>(request.correlation_id, request.sequence_start,
                                                    request.sequence_end);
    }
    step.part = compensation->Add(step.servable->share());
  }
  return compensation;
}

// Collects the readiness of several servables. Reports the first that is not ready, once all have answered.
class Inquiry {
 public:
  Inquiry(size_t open, std::function<void(Readiness)> done) : done_(std::move(done)), open_(open) {}

  void Close(Readiness result) {
    {
      MutexLock lock(mutex_);
      if (result_.ready) result_ = std::move(result);
      if (--open_ > 0) return;
      result = std::move(result_);
    }
    done_(std::move(result));
  }

 private:
  const std::function<void(Readiness)> done_;
  Mutex mutex_;
  size_t open_ BRAID_GUARDED_BY(mutex_);
  Readiness result_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace

class DagServable::Memory final : public BufferAllocator {
 public:
  explicit Memory(const DagStep* step) : step_(step) {}

  Result<Buffer> Allocate(size_t size) override {
    if (step_ == nullptr) return heap_.Allocate(size);
    if (step_->code != nullptr) return step_->code->input_allocator()->Allocate(size);
    if (auto servable = step_->servable->Get(); servable.ok())
      return (*servable)->input_allocator().Allocate(size);
    return heap_.Allocate(size);
  }

 private:
  const DagStep* const step_;
  HeapAllocator heap_;
};

std::shared_ptr<Servable> DagServable::Create(ServableInfo info, std::shared_ptr<const DagPlan> plan,
                                              const DagDeps& deps) {
  std::shared_ptr<SequenceQueue> queue;  // shared with the predecessor, if there is one
  if (info.stateful) {
    const auto named = deps.catalog.Find(info.name, info.version);
    const auto* before = named.ok() ? dynamic_cast<const DagServable*>(named->get()) : nullptr;
    if (before != nullptr) queue = before->queue_;
    if (queue == nullptr) queue = std::make_shared<SequenceQueue>(deps.timers, deps.call_graph);
  }
  return std::make_shared<DagServable>(std::move(info), std::move(plan), std::move(queue), deps);
}

DagServable::DagServable(ServableInfo info, std::shared_ptr<const DagPlan> plan,
                         std::shared_ptr<SequenceQueue> queue, const DagDeps& deps)
    : Servable(std::move(info)),
      plan_(std::move(plan)),
      queue_(std::move(queue)),
      memory_(std::make_unique<Memory>(FirstStep())),
      images_(deps.images),
      cache_(CacheLink::Make(deps.cache, info_, statistics_, deps.timers)) {
  BRAID_CHECK(queue_ != nullptr || !info_.stateful);
}

DagServable::~DagServable() = default;

BufferAllocator& DagServable::input_allocator() { return *memory_; }

// ---- requests ----

void DagServable::Infer(std::unique_ptr<InferenceRequest> request) {
  Status status = ReadSequence(info_, *request);
  const bool decodes = status.ok() && NeedsDecoding(info_, *request);
  if (status.ok() && !decodes) status = FinishIntake(info_, *request);
  SequenceQueue::Entry* entry = nullptr;
  if (status.ok() && info_.stateful) {
    auto entered = queue_->Enter(*this, *request);
    if (entered.ok()) entry = *entered;
    status = entered.status();
  }
  if (!status.ok()) {
    request->Refuse(std::move(status));
    return;
  }
  if (!decodes) {
    Run(std::move(request), entry);
    return;
  }
  // The request's place in the servable's gate keeps the servable alive.
  images_->DecodeThen(std::move(request), [this, entry](auto decoded, Status status) {
    if (status.ok()) status = FinishIntake(info_, *decoded);
    if (status.ok()) {
      Run(std::move(decoded), entry);
      return;
    }
    if (entry != nullptr) queue_->GiveUp(*entry, *decoded, status);
    decoded->Refuse(std::move(status));
  });
}

void DagServable::Run(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry* entry) {
  if (entry != nullptr) {
    queue_->Ready(*entry, std::move(request));
    return;
  }
  request->queue_start_ns = SteadyNowNs();
  // The response to a request of a sequence depends on the requests before it.
  if (cache_ != nullptr && request->correlation_id == CorrelationId(uint64_t{0})) {
    if (auto response = cache_->Find(*request)) {
      request->Respond(std::move(response), true);
      return;
    }
  }
  Begin(std::move(request), nullptr);
}

void DagServable::BeginRun(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry& entry) {
  {
    const RetryingAllocation retrying;
    request->call_chain = SequenceQueue::ChainOf(entry, *request);
  }
  Begin(std::move(request), &entry);
}

void DagServable::Begin(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry* entry) {
  // Retries allocations: until the session exists, a failure would block the later requests of the sequence.
  std::optional<RetryingAllocation> patience(std::in_place);
  auto steps = EnterSteps();
  if (!steps.ok()) {
    const std::shared_ptr<SequenceQueue> queue = queue_;
    statistics_.RecordFailure(FailureReason::kOther, request->start_ns, SteadyNowNs());
    request->Fail(steps.status());
    if (entry != nullptr) queue->Leave(*entry);
    return;
  }
  std::shared_ptr<Compensation> compensation = NewCompensation(*request, *steps);
  // The request, and the servable with it, may have ended before the last lines of this function.
  InferenceRequest& entered = *request;
  const std::shared_ptr<Cancellation> cancellation = entered.cancellation;
  auto session = std::make_shared<Session>(plan_, std::move(*steps), compensation, Wanted(entered));
  {
    MutexLock lock(mutex_);
    sessions_.emplace(&entered, session);
  }
  // The listener is cleared before the session ends, so the pointer is valid whenever it is called.
  if (cancellation) cancellation->SetListener([session = session.get()] { session->Cancel(); });
  std::vector<Tensor> inputs = std::move(entered.inputs);
  auto client = std::make_unique<SessionClient>(*this, plan_, queue_, std::move(request), entry,
                                                std::move(compensation));
  patience.reset();
  session->Start(std::move(inputs), std::move(client));
}

Result<std::vector<EnteredStep>> DagServable::EnterSteps() const {
  std::vector<EnteredStep> entered;
  entered.reserve(plan_->steps.size());
  for (const DagStep& step : plan_->steps) {
    EnteredStep& next = entered.emplace_back();
    if (step.servable == nullptr) continue;
    auto handle = step.servable->Enter();
    if (!handle.ok()) return plan_->unavailable(plan_->NoVersion(step.servable->name()));
    next.servable = std::move(*handle);
  }
  return entered;
}

void DagServable::Remove(const InferenceRequest* request) {
  MutexLock lock(mutex_);
  sessions_.erase(request);
}

void DagServable::Keep(InferenceRequest& request, const InferenceResponse& response) const {
  if (cache_ != nullptr) cache_->Keep(request, response);
}

std::vector<uint32_t> DagServable::Wanted(const InferenceRequest& request) const {
  std::vector<uint32_t> wanted;
  const auto& names = request.requested_outputs;
  for (uint32_t i = 0; i < info_.outputs.size(); ++i) {
    if (names.empty() || std::find(names.begin(), names.end(), info_.outputs[i].name) != names.end()) {
      wanted.push_back(i);
    }
  }
  return wanted;
}

// ---- the servables behind it ----

const DagStep* DagServable::FirstStep() const {
  const auto& inputs = plan_->dag->inputs();
  for (size_t i = 0; i < plan_->steps.size(); ++i) {
    const DagStep& step = plan_->steps[i];
    if (step.servable == nullptr && step.code->input_allocator() == nullptr) continue;
    for (const Dag::Port& port : plan_->dag->nodes()[i].inputs) {
      if (std::find(inputs.begin(), inputs.end(), port.tensor) != inputs.end()) {
        return &step;
      }
    }
  }
  return nullptr;
}

std::vector<ServableUse> DagServable::uses() const {
  std::vector<ServableUse> uses;
  for (const DagStep& step : plan_->steps) {
    if (step.servable != nullptr) uses.push_back({step.servable->name(), step.servable->version()});
  }
  return uses;
}

Readiness DagServable::readiness() const {
  for (const DagStep& step : plan_->steps) {
    if (step.servable == nullptr) continue;
    const std::string& model = step.servable->name();
    auto servable = step.servable->Get();
    if (!servable.ok()) return {false, plan_->NoVersion(model)};
    Readiness ready = (*servable)->readiness();
    if (!ready.ready) return {false, plan_->NotReady(model, ready.reason)};
  }
  return {};
}

void DagServable::CheckReadiness(std::function<void(Readiness)> done) {
  auto inquiry = std::make_shared<Inquiry>(plan_->steps.size() + 1, std::move(done));  // number of answers
  inquiry->Close(readiness());
  for (const DagStep& step : plan_->steps) {
    if (step.servable == nullptr) {
      inquiry->Close({});
      continue;
    }
    const std::string& model = step.servable->name();
    auto servable = step.servable->Get();
    if (!servable.ok()) {
      inquiry->Close({false, plan_->NoVersion(model)});
      continue;
    }
    (*servable)->CheckReadiness([inquiry, plan = plan_, model, keep = *servable](Readiness ready) {
      inquiry->Close(ready.ready ? Readiness() : Readiness{false, plan->NotReady(model, ready.reason)});
    });
  }
}

void DagServable::DropSequence(const CorrelationId& id) {
  for (const DagStep& step : plan_->steps) {
    if (step.servable == nullptr) continue;
    if (const auto servable = step.servable->Get(); servable.ok()) (*servable)->DropSequence(id);
  }
}

void DagServable::MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks) {
  for (const DagStep& step : plan_->steps) {
    if (step.servable == nullptr) continue;
    if (const auto servable = step.servable->Get(); servable.ok()) (*servable)->MarkSequence(id, marks);
  }
}

int64_t DagServable::pending_requests() const {
  return queue_ == nullptr ? 0 : static_cast<int64_t>(queue_->waiting(*this));
}

std::vector<InstanceReport> DagServable::instances() const {
  std::vector<InstanceReport> reports;
  for (const DagStep& step : plan_->steps) {
    if (step.code == nullptr) continue;
    if (auto report = step.code->report()) reports.push_back(*std::move(report));
  }
  return reports;
}

void DagServable::Stop(int64_t deadline_ns) {
  EndSessions(deadline_ns);
  // References to an old catalog may keep this servable, and with it the code, alive for longer.
  for (const DagStep& step : plan_->steps) {
    if (step.code != nullptr) step.code->Stop(deadline_ns);
  }
}

void DagServable::EndSessions(int64_t deadline_ns) {
  if (gate().WaitUntilEmpty(deadline_ns)) return;
  if (queue_ != nullptr) queue_->Stop(*this);
  std::vector<std::shared_ptr<Session>> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, session] : sessions_) {
      if (auto alive = session.lock()) all.push_back(std::move(alive));
    }
  }
  for (const auto& session : all) {
    session->Abort(UnavailableError("Server exiting or model '" + info_.name +
                                    "' being unloaded: the request did not end in time"));
  }
}

}  // namespace braid
