#include "sequences/store_link.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/guard.h"
#include "scheduling/request_intake.h"
#include "serving/compensation.h"

namespace braid {
namespace {

constexpr int64_t kRetryNs = 200'000'000;

bool IsNone(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  return number != nullptr && *number == 0;
}

std::string TextOf(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  return number != nullptr ? std::to_string(*number) : std::get<std::string>(id);
}

uint64_t FirstLife() {
  std::random_device random;
  return ((uint64_t{random()} << 32) | random()) >> 2 | 1;
}

std::optional<uint64_t> StepOf(const InferenceRequest& request) {
  for (const auto& [name, value] : request.parameters) {
    if (name != kSequenceStepParameter) continue;
    if (const auto* number = std::get_if<uint64_t>(&value)) return *number;
    if (const auto* number = std::get_if<int64_t>(&value)) {
      return *number < 0 ? 0 : static_cast<uint64_t>(*number);
    }
    return 0;  // no step has this number
  }
  return std::nullopt;
}

// Returns whether the request was made on behalf of a request that the model itself is running.
bool LeadsBackTo(const std::string& model, const CallChain* chain) {
  return chain != nullptr &&
         (chain->model == model ||
          std::any_of(chain->parents.begin(), chain->parents.end(),
                      [&](const auto& parent) { return LeadsBackTo(model, parent.get()); }));
}

}  // namespace

// Stands between the model and the request's sink once the request goes to the model. Owns itself while the
// model has the request.
class StoreLink::Step final : public ResponseSink {
 public:
  Step(StoreLink& link, const InferenceRequest& request, std::optional<Held> before,
       const OwnershipLease& begin, bool waits)
      : link(link),
        id(request.correlation_id),
        start(request.sequence_start),
        end(request.sequence_end),
        before(std::move(before)),
        begin(begin),
        waits(waits),
        sink(request.sink),
        handle(request.servable->Another()) {}

  void Respond(std::optional<InferenceResponse> response, bool final) override {
    if (response) {
      good = good && response->status.ok();
      cancelled = response->status.code() == StatusCode::kCancelled;
    }
    if (!final && !waits) return sink->Respond(std::move(response), false);
    if (response) responses.push_back(std::move(*response));
    if (!final) return;
    link.OnAnswered(std::unique_ptr<Step>(this));
  }

  StoreLink& link;
  const CorrelationId id;
  const bool start;
  const bool end;
  const std::optional<Held> before;  // nothing if this server did not have the sequence
  const OwnershipLease begin;        // the lease of a start
  const bool waits;                  // no response leaves before the store has the states
  ResponseSink* const sink;
  // Held until the client has its answer, even if the request leaves the model before.
  std::unique_ptr<ServableHandle> handle;

  bool good = true;
  bool cancelled = false;
  std::vector<InferenceResponse> responses;
  uint64_t number = 0;   // of the step, once it is known
  uint64_t version = 0;  // of the states that it waits for
};

StoreLink::StoreLink(LinkedSequences& model, const ServableInfo& info, StateStore& store, Timers& timers,
                     Logger& log, size_t max_waiting)
    : model_(model),
      info_(info),
      store_(store),
      policy_(store.policy()),
      timers_(timers),
      log_(log),
      max_waiting_(max_waiting),
      next_life_(FirstLife()) {}

std::unique_ptr<StoreLink> StoreLink::Make(LinkedSequences& model, const ServableInfo& info,
                                           StateStore* store, Timers& timers, Logger& log,
                                           size_t max_waiting) {
  if (store == nullptr || !model.savable() || model.identity().empty()) return nullptr;
  return std::make_unique<StoreLink>(model, info, *store, timers, log, max_waiting);
}

StoreLink::~StoreLink() {
  MutexLock lock(mutex_);
  timers_.Withdraw(release_timer_);
  timers_.Withdraw(retry_timer_);
  BRAID_CHECK(held_.empty() && waiting_ == 0);
}

std::string StoreLink::Who(const CorrelationId& id) const {
  return "sequence " + TextOf(id) + " of model '" + info_.name + "'";
}

// --- Incoming requests ---------------------------------------------------------------------------

void StoreLink::Take(Request request) {
  const RetryingAllocation retrying;
  // A counter, as a model alone uses, would give an id that another replica has given too.
  if (IsNone(request->correlation_id) && request->sequence_start) {
    request->correlation_id = RandomSequenceId();
  }
  Status refused;
  {
    MutexLock lock(mutex_);
    if (holding_ && held_.size() < max_waiting_) {
      held_.push_back(std::move(request));
      return;
    }
    Active& active = active_[request->correlation_id];
    if (!holding_ && !active.busy) {
      active.busy = true;
    } else if (waiting_ >= max_waiting_ || holding_) {
      refused = TooManyWaitForSequences(*request, max_waiting_, info_.name);
      EraseIfIdleLocked(request->correlation_id);
    } else if (LeadsBackTo(info_.name, request->call_chain.get())) {
      refused = InternalError("the call to model '" + info_.name + "' would wait for itself: " +
                              Who(request->correlation_id) + " has a request that may have made it");
    } else {
      active.waiting.push_back(std::move(request));
      ++waiting_;
      return;
    }
  }
  if (!refused.ok()) {
    request->Refuse(std::move(refused));
    return;
  }
  Begin(std::move(request));
}

void StoreLink::Begin(Request request) {
  Trampoline<Request>::Items items;
  items.push_back(std::move(request));
  Trampoline<Request>::Run(this, std::move(items), [this](Request one) { BeginOne(std::move(one)); });
}

void StoreLink::BeginOne(Request request) {
  const RetryingAllocation retrying;
  const CorrelationId id = request->correlation_id;
  if (request->sequence_start) {
    const Status right = CheckStep(*request, {});
    if (!right.ok()) return Refuse(std::move(request), right);
    if (policy_.mode == StoreMode::kDrain) return Run(std::move(request), std::nullopt, {.life = NextLife()});
    const std::shared_ptr<Servable> model = request->servable->share();
    const auto starter = std::make_shared<Request>(std::move(request));
    return store_.Take(NameOf(id), "", [this, model, starter](const Result<StateStore::Taken>& taken) {
      OnStart(std::move(*starter), taken);
    });
  }
  if (std::optional<Held> here = model_.Look(id, true)) {
    const Status right = CheckStep(*request, here->lease);
    if (right.ok()) return Run(std::move(request), std::move(here));
    // A client that is ahead knows of steps that other replicas have executed.
    const bool ahead = right.code() == StatusCode::kFailedPrecondition && policy_.mode != StoreMode::kDrain;
    if (!ahead) return Refuse(std::move(request), right);
  }
  // If this server has newer states than the store, they are written first.
  std::optional<Writing> writing;
  {
    MutexLock lock(mutex_);
    Active& active = active_[id];
    if (active.pending && !stopping_) writing = PrepareLocked(id, active);
  }
  Send(std::move(writing));
  const std::shared_ptr<Servable> model = request->servable->share();
  const auto taker = std::make_shared<Request>(std::move(request));
  store_.Take(NameOf(id), identity(), [this, model, taker](Result<StateStore::Taken> taken) {
    OnTaken(std::move(*taker), std::move(taken));
  });
}

// The sequence becomes this server's before the request runs. Otherwise a late first write could do damage:
// the client was told that the start had failed, and may have begun the sequence elsewhere since.
void StoreLink::OnStart(Request request, const Result<StateStore::Taken>& taken) {
  const RetryingAllocation retrying;
  OwnershipLease begin{.life = NextLife()};
  if (!taken.ok()) {
    failed_.fetch_add(1, std::memory_order_relaxed);
    if (policy_.mode == StoreMode::kDurable && policy_.away == StoreAway::kRefuse) {
      Status why = AwayError(request->correlation_id, 1, taken.status());
      return Refuse(std::move(request), std::move(why));
    }
  } else {
    begin.epoch = taken->epoch;
    // The model may refuse the start, and then the existing sequence of that name continues here.
    RenewLease(request->correlation_id, taken->before, taken->epoch);
  }
  Run(std::move(request), std::nullopt, begin);
}

void StoreLink::RenewLease(const CorrelationId& id, uint64_t before, uint64_t epoch) {
  MutexLock lock(mutex_);
  std::optional<Held> here = model_.Look(id, false);
  // With another epoch it no longer belongs to this server.
  if (!here || here->lease.epoch != before) return;
  here->lease.epoch = epoch;
  model_.SetLease(id, here->lease);
  const auto found = active_.find(id);
  if (found == active_.end() || !found->second.pending) return;
  OwnershipLease& pending = found->second.pending->held.lease;
  if (pending.life == here->lease.life) pending.epoch = epoch;
}

void StoreLink::OnTaken(Request request, Result<StateStore::Taken> taken) {
  const RetryingAllocation retrying;
  const CorrelationId id = request->correlation_id;
  request->here = false;
  if (!taken.ok()) {
    const Status why = taken.status();
    const std::string text = "the sequence store cannot return " + Who(id) + ": " + why.message();
    if (why.code() == StatusCode::kUnavailable) failed_.fetch_add(1, std::memory_order_relaxed);
    return Refuse(std::move(request), why.WithMessage(text));
  }
  if (taken->finding == StateStore::Finding::kMissing) {
    const std::optional<Held> here = model_.Look(id, true);
    const Status right = here ? CheckStep(*request, here->lease) : OkStatus();
    return right.ok() ? Run(std::move(request), here) : Refuse(std::move(request), right);
  }
  if (taken->finding == StateStore::Finding::kOtherModel) {
    return Refuse(std::move(request),
                  FailedPreconditionError(Who(id) + " belongs to a different model of that name and version "
                                                    "(its files or states differ); restart it"));
  }
  taken_over_.fetch_add(1, std::memory_order_relaxed);
  SavedSequence saved{id, std::move(taken->states)};
  saved.lease = {.life = NextLife(),
                 .epoch = taken->epoch,
                 .steps = taken->steps,
                 .confirmed_ns = timers_.NowNs(),
                 .stored = policy_.mode != StoreMode::kDrain};
  // The states here belong to an earlier epoch.
  if (model_.Look(id, false)) model_.Drop(id);
  std::vector<SavedSequence> all;
  all.push_back(std::move(saved));
  const size_t restored = model_.Restore(std::move(all));
  std::optional<Held> here = restored == 0 ? std::nullopt : model_.Look(id, true);
  if (!here) {
    return Refuse(
        std::move(request),
        UnavailableError(
            Who(id) +
            " cannot be taken over: there are too many sequences, or its states do not match the model"));
  }
  const Status right = CheckStep(*request, here->lease);
  return right.ok() ? Run(std::move(request), std::move(here)) : Refuse(std::move(request), right);
}

Status StoreLink::CheckStep(const InferenceRequest& request, const OwnershipLease& lease) const {
  const std::optional<uint64_t> step = StepOf(request);
  const uint64_t next = lease.steps + 1;
  if (!step || *step == next) return OkStatus();
  const std::string text = "this is step " + std::to_string(*step) + " of " + Who(request.correlation_id) +
                           ", whose next step is " + std::to_string(next);
  return *step != 0 && *step < next ? AlreadyExistsError(text + ": it is already done")
                                    : FailedPreconditionError(text);
}

void StoreLink::Run(Request request, std::optional<Held> before, const OwnershipLease& begin) {
  const bool waits = policy_.mode == StoreMode::kDurable ||
                     (policy_.mode == StoreMode::kBehind && before && Late(before->lease));
  auto step = std::make_unique<Step>(*this, *request, std::move(before), begin, waits);
  request->sink = step.release();
  model_.Run(std::move(request));
}

void StoreLink::Refuse(Request request, Status status) {
  const std::shared_ptr<Servable> model = request->servable->share();
  const CorrelationId id = request->correlation_id;
  request->servable->get().statistics().RecordFailure(FailureReason::kRejected, request->start_ns,
                                                      timers_.NowNs());
  request->Fail(std::move(status));
  Leave(id);
}

bool StoreLink::Late(const OwnershipLease& lease) const {
  return timers_.NowNs() - lease.confirmed_ns > policy_.lag_ns;
}

void StoreLink::Leave(const CorrelationId& id) {
  Request next;
  {
    MutexLock lock(mutex_);
    Active& active = active_[id];
    active.lost_life = 0;
    if (active.waiting.empty()) {
      active.busy = false;
      EraseIfIdleLocked(id);
    } else {
      next = std::move(active.waiting.front());
      active.waiting.pop_front();
      --waiting_;
    }
  }
  if (next == nullptr) return;
  next->here = false;
  Begin(std::move(next));
}

void StoreLink::EraseIfIdleLocked(const CorrelationId& id) {
  const auto found = active_.find(id);
  if (found == active_.end()) return;
  const Active& active = found->second;
  if (!active.busy && !active.pending && !active.writing) active_.erase(found);
}

int64_t StoreLink::waiting() const {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(waiting_ + held_.size());
}

// --- Answers -------------------------------------------------------------------------------------

void StoreLink::OnAnswered(std::unique_ptr<Step> step) {
  const RetryingAllocation retrying;
  Status lost;
  {
    MutexLock lock(mutex_);
    Active& active = active_[step->id];
    if (step->before && step->before->lease.life == active.lost_life) lost = active.lost;
  }
  if (!lost.ok()) return Fail(std::move(step), std::move(lost));
  std::optional<Held> after = model_.Look(step->id, false);
  if (step->end && !after && (step->good || step->cancelled) && (step->start || step->before)) {
    return EndInStore(std::move(step));
  }
  // A refused start leaves the existing sequence of that name.
  const bool moved =
      after && (step->start ? after->lease.life == 0
                            : step->good || !step->before || after->states != step->before->states);
  if (moved) return Write(std::move(step), std::move(*after));
  Answer(std::move(step));
}

void StoreLink::Write(std::unique_ptr<Step> step, Held after) {
  const int64_t now_ns = timers_.NowNs();
  const bool drain = policy_.mode == StoreMode::kDrain;
  // An earlier sequence of that name would be taken for this one.
  if (drain && step->start) store_.End(NameOf(step->id), {}, [](const Result<StateStore::Written>&) {});
  bool waits = step->waits;
  std::optional<Writing> writing;
  {
    MutexLock lock(mutex_);
    // The store's replies may have changed the lease meanwhile.
    if (const auto here = model_.Look(step->id, false)) after.lease = here->lease;
    if (step->start) {
      after.lease = step->begin;
      after.lease.confirmed_ns = now_ns;
    }
    if (step->good) ++after.lease.steps;
    after.lease.stored = false;
    step->number = after.lease.steps;
    model_.SetLease(step->id, after.lease);
    if (!drain) {
      waits = waits || (policy_.mode == StoreMode::kBehind && Late(after.lease));
      const CorrelationId& id = step->id;
      Active& active = active_[id];
      const bool same = active.pending && active.pending->held.lease.life == after.lease.life;
      active.pending = Pending{after, false, same ? active.pending->since_ns : now_ns};
      step->version = ++active.version;
      if (!active.writing) writing = PrepareLocked(id, active);
      if (waits) active.answer = std::move(step);
    }
  }
  Send(std::move(writing));
  if (step != nullptr) Answer(std::move(step));
}

void StoreLink::EndInStore(std::unique_ptr<Step> step) {
  OwnershipLease lease = step->before ? step->before->lease : step->begin;
  step->number = lease.steps + 1;
  {
    MutexLock lock(mutex_);
    Active& active = active_[step->id];
    // States that were not written yet need not be.
    if (active.pending && active.pending->held.lease.life == lease.life) {
      lease = active.pending->held.lease;
      active.pending.reset();
    }
  }
  // Only in kDrain are earlier sequences left in the store.
  if (policy_.mode == StoreMode::kDrain) lease = {};
  // The store does not have it: it has existed only in this server, or the take-over has removed it.
  if (policy_.mode == StoreMode::kDrain && step->before) return Answer(std::move(step));
  const bool waits = policy_.mode == StoreMode::kDurable ||
                     (policy_.mode == StoreMode::kBehind && (step->waits || Late(lease)) && step->before);
  const StateStore::Name name = NameOf(step->id);
  auto late = std::make_shared<std::unique_ptr<Step>>();
  if (waits) *late = std::move(step);
  store_.End(name, lease, [this, weak = model_.Weak(), late](const Result<StateStore::Written>& ended) {
    const std::shared_ptr<Servable> model = weak.lock();
    if (model != nullptr) OnEnded(std::move(*late), ended);
  });
  if (!waits) Answer(std::move(step));
}

void StoreLink::OnEnded(std::unique_ptr<Step> step, const Result<StateStore::Written>& ended) {
  const RetryingAllocation retrying;
  (ended.ok() ? written_ : failed_).fetch_add(1, std::memory_order_relaxed);
  const bool lost = ended.ok() && ended->verdict != StateStore::Verdict::kAccepted;
  if (lost) fenced_.fetch_add(1, std::memory_order_relaxed);
  if (step == nullptr) return;
  if (lost) {
    Status why = LostError(step->id, ended->verdict);
    return Fail(std::move(step), std::move(why));
  }
  if (ended.ok() || policy_.away == StoreAway::kContinue) return Answer(std::move(step));
  Status why = AwayError(step->id, step->number, ended.status());
  Fail(std::move(step), std::move(why));
}

void StoreLink::Answer(std::unique_ptr<Step> step) {
  const std::shared_ptr<Servable> model = step->handle->share();
  if (step->good && step->number != 0 && !step->responses.empty()) {
    step->responses.back().parameters.emplace_back(kSequenceStepParameter, step->number);
  }
  // Released before the client can see the end: if the client then unloads the model, the unload need not
  // wait.
  step->handle.reset();
  const size_t count = step->responses.size();
  for (size_t i = 0; i < count; ++i) step->sink->Respond(std::move(step->responses[i]), i + 1 == count);
  if (count == 0) step->sink->Respond(std::nullopt, true);
  Leave(step->id);
}

void StoreLink::Fail(std::unique_ptr<Step> step, Status status) {
  InferenceResponse response;
  response.status = std::move(status);
  response.model_name = info_.name;
  response.model_version = info_.version;
  step->good = false;
  step->responses.clear();
  step->responses.push_back(std::move(response));
  Answer(std::move(step));
}

Status StoreLink::LostError(const CorrelationId& id, StateStore::Verdict verdict) const {
  return {StatusCode::kAborted,
          verdict == StateStore::Verdict::kFenced
              ? Who(id) + " continued or restarted at another replica: this step was not done"
              : Who(id) +
                    " is no longer in the sequence store (it ended, expired or was lost): this step was not "
                    "done; restart it"};
}

Status StoreLink::AwayError(const CorrelationId& id, uint64_t step, const Status& why) const {
  return UnavailableError("step " + std::to_string(step) + " of " + Who(id) +
                          " may or may not be stored: the sequence store: " + why.message());
}

// --- Writes --------------------------------------------------------------------------------------

std::optional<StoreLink::Writing> StoreLink::PrepareLocked(const CorrelationId& id, Active& active) {
  if (!active.pending) return std::nullopt;
  active.writing = true;
  const Pending& pending = *active.pending;
  return Writing{id, active.version, {pending.takes_back, pending.held.lease, pending.held.states}};
}

void StoreLink::Send(std::optional<Writing> writing) {
  if (!writing) return;
  const int64_t sent_ns = timers_.NowNs();
  const StateStore::Step step = writing->step;
  writing->step.states = nullptr;
  store_.Write(
      NameOf(writing->id), identity(), step,
      [this, weak = model_.Weak(), writing = *writing, sent_ns](const Result<StateStore::Written>& written) {
        const std::shared_ptr<Servable> model = weak.lock();
        if (model != nullptr) OnWritten(writing, sent_ns, written);
      });
}

void StoreLink::OnWritten(const Writing& writing, int64_t sent_ns,
                          const Result<StateStore::Written>& written) {
  const RetryingAllocation retrying;
  if (!written.ok()) {
    failed_.fetch_add(1, std::memory_order_relaxed);
    return OnAway(writing, written.status());
  }
  if (written->verdict == StateStore::Verdict::kAccepted) {
    written_.fetch_add(1, std::memory_order_relaxed);
    return OnAccepted(writing, sent_ns, written->epoch);
  }
  fenced_.fetch_add(1, std::memory_order_relaxed);
  OnLost(writing, LostError(writing.id, written->verdict));
}

void StoreLink::OnAccepted(const Writing& writing, int64_t sent_ns, uint64_t epoch) {
  std::optional<Writing> next;
  std::unique_ptr<Step> answer;
  const uint64_t life = writing.step.lease.life;
  {
    MutexLock lock(mutex_);
    const auto found = active_.find(writing.id);
    if (found == active_.end()) return;
    Active& active = found->second;
    active.writing = false;
    const bool newest = active.version == writing.version;
    const auto confirm = [&](OwnershipLease& lease) {
      lease.epoch = std::max(lease.epoch, epoch);  // a start may have renewed it meanwhile
      lease.confirmed_ns = sent_ns;
      lease.stored = newest;
    };
    if (newest) {
      active.pending.reset();
    } else if (active.pending) {
      if (active.pending->held.lease.life == life) {
        confirm(active.pending->held.lease);
        active.pending->since_ns = timers_.NowNs();
      }
      if (!stopping_ || active.answer != nullptr) next = PrepareLocked(writing.id, active);
    }
    if (auto here = model_.Look(writing.id, false); here && here->lease.life == life) {
      confirm(here->lease);
      model_.SetLease(writing.id, here->lease);
    }
    if (active.answer != nullptr && active.answer->version <= writing.version) {
      answer = std::move(active.answer);
    }
    if (answer == nullptr) EraseIfIdleLocked(writing.id);
  }
  Send(std::move(next));
  if (answer != nullptr) Answer(std::move(answer));
}

void StoreLink::Forget(const CorrelationId& id, uint64_t life) {
  if (const auto here = model_.Look(id, false); here && here->lease.life == life) model_.Drop(id);
}

void StoreLink::OnLost(const Writing& writing, Status why) {
  const uint64_t life = writing.step.lease.life;
  std::optional<Writing> next;
  std::unique_ptr<Step> answer;
  {
    MutexLock lock(mutex_);
    const auto found = active_.find(writing.id);
    if (found == active_.end()) return;
    Active& active = found->second;
    active.writing = false;
    if (active.pending && active.pending->held.lease.life == life) {
      active.pending.reset();
      answer = std::move(active.answer);
      if (answer == nullptr && active.busy) {
        active.lost_life = life;
        active.lost = why;
      }
    } else if (active.pending && (!stopping_ || active.answer != nullptr)) {
      next = PrepareLocked(writing.id, active);
    }
    if (answer == nullptr) EraseIfIdleLocked(writing.id);
  }
  Forget(writing.id, life);
  Send(std::move(next));
  if (answer != nullptr) return Fail(std::move(answer), std::move(why));
  BRAID_LOG_WARNING(log_, "steps that were already answered are lost: {}", why.message());
}

void StoreLink::OnAway(const Writing& writing, const Status& why) {
  const uint64_t life = writing.step.lease.life;
  const bool goes_on = policy_.away == StoreAway::kContinue;
  std::unique_ptr<Step> answer;
  bool forget = false;
  {
    MutexLock lock(mutex_);
    const auto found = active_.find(writing.id);
    if (found == active_.end()) return;
    Active& active = found->second;
    active.writing = false;
    answer = std::move(active.answer);
    auto here = model_.Look(writing.id, false);
    if (here && here->lease.life != life) here.reset();
    if (answer != nullptr && !goes_on) {
      active.pending.reset();
      ++active.version;
      forget = policy_.mode != StoreMode::kBehind || !answer->before;
      if (here && !forget) {
        here->states = answer->before->states;
        here->lease.steps = answer->before->lease.steps;
        here->lease.stored = answer->before->lease.stored;
        model_.PutBack(writing.id, *here);
        // The store may have executed the step after all.
        active.pending = Pending{*here, true, timers_.NowNs()};
      }
    }
    if (active.pending && !stopping_) RetryLaterLocked();
    if (answer == nullptr) EraseIfIdleLocked(writing.id);
  }
  if (forget) Forget(writing.id, life);
  if (answer == nullptr) return;
  if (goes_on) return Answer(std::move(answer));
  Status status = AwayError(writing.id, answer->number, why);
  Fail(std::move(answer), std::move(status));
}

void StoreLink::RetryLaterLocked() {
  if (retry_timer_) return;
  retry_timer_ = timers_.At(timers_.NowNs() + kRetryNs, [this, weak = model_.Weak()] {
    if (const std::shared_ptr<Servable> model = weak.lock()) Retry();
  });
}

void StoreLink::Retry() {
  const RetryingAllocation retrying;
  std::vector<Writing> all;
  {
    MutexLock lock(mutex_);
    retry_timer_ = {};
    if (stopping_) return;
    for (auto& [id, active] : active_) {
      if (active.writing || !active.pending) continue;
      all.push_back(*PrepareLocked(id, active));
    }
  }
  for (Writing& writing : all) Send(std::move(writing));
}

// --- The keeper ----------------------------------------------------------------------------------

std::optional<SequenceStoreCounts> StoreLink::store_counts() const {
  SequenceStoreCounts counts;
  counts.written = written_.load(std::memory_order_relaxed);
  counts.failed = failed_.load(std::memory_order_relaxed);
  counts.taken_over = taken_over_.load(std::memory_order_relaxed);
  counts.fenced = fenced_.load(std::memory_order_relaxed);
  const int64_t now_ns = timers_.NowNs();
  int64_t oldest_ns = now_ns;
  MutexLock lock(mutex_);
  for (const auto& [id, active] : active_) {
    if (!active.pending) continue;
    ++counts.unconfirmed;
    oldest_ns = std::min(oldest_ns, active.pending->since_ns);
  }
  counts.lag_ms = static_cast<uint64_t>((now_ns - oldest_ns) / 1'000'000);
  return counts;
}

void StoreLink::Drop(const CorrelationId& id) {
  const std::optional<Held> here = model_.Look(id, false);
  model_.Drop(id);
  if (!here || here->lease.life == 0) return;
  {
    MutexLock lock(mutex_);
    const auto found = active_.find(id);
    if (found != active_.end() && found->second.pending &&
        found->second.pending->held.lease.life == here->lease.life && found->second.answer == nullptr) {
      found->second.pending.reset();
      EraseIfIdleLocked(id);
    }
  }
  if (policy_.mode == StoreMode::kDrain) return;
  store_.End(NameOf(id), here->lease, [](const Result<StateStore::Written>&) {});
}

TakeBackSteps StoreLink::Mark(const CorrelationId& id) {
  TakeBackSteps take_back = model_.Mark(id);
  if (take_back == nullptr || policy_.mode == StoreMode::kDrain) return take_back;
  return [this, weak = model_.Weak(), id, take_back = std::move(take_back)](uint64_t steps) {
    const std::shared_ptr<Servable> model = weak.lock();
    if (model == nullptr) return;
    const std::optional<Held> before = model_.Look(id, false);
    take_back(steps);
    std::optional<Held> here;
    {
      MutexLock lock(mutex_);
      here = model_.Look(id, false);
      if (!before || !here || before->states == here->states) return;
      here->lease.steps -= std::min(steps, here->lease.steps);
      here->lease.stored = false;
      model_.SetLease(id, here->lease);
    }
    SetPending(id, std::move(*here), true);
  };
}

void StoreLink::SetPending(const CorrelationId& id, Held held, bool takes_back) {
  const RetryingAllocation retrying;
  std::optional<Writing> writing;
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    Active& active = active_[id];
    active.pending = Pending{std::move(held), takes_back, timers_.NowNs()};
    ++active.version;
    if (!active.writing) writing = PrepareLocked(id, active);
  }
  Send(std::move(writing));
}

void StoreLink::HoldUntilRestored(int64_t deadline_ns) {
  MutexLock lock(mutex_);
  if (stopping_) return;
  holding_ = true;
  release_timer_ = timers_.At(deadline_ns, [this, weak = model_.Weak()] {
    if (const std::shared_ptr<Servable> model = weak.lock()) Release();
  });
}

size_t StoreLink::Restore(std::vector<SavedSequence> saved) {
  std::vector<std::pair<CorrelationId, uint64_t>> unwritten;
  for (const SavedSequence& one : saved) {
    if (!one.lease.stored && policy_.mode != StoreMode::kDrain) {
      unwritten.emplace_back(one.id, one.lease.life);
    }
  }
  const size_t taken = model_.Restore(std::move(saved));
  for (const auto& [id, life] : unwritten) {
    std::optional<Held> here = model_.Look(id, false);
    if (here && here->lease.life == life) SetPending(id, std::move(*here), false);
  }
  Release();
  return taken;
}

void StoreLink::Release() {
  const RetryingAllocation retrying;
  std::deque<Request> held;
  {
    MutexLock lock(mutex_);
    holding_ = false;
    timers_.Withdraw(std::exchange(release_timer_, {}));
    held.swap(held_);
  }
  for (Request& request : held) Take(std::move(request));
}

void StoreLink::BeginStop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    timers_.Withdraw(std::exchange(retry_timer_, {}));
  }
  Release();
}

}  // namespace braid
