#include "scheduling/instance_pool.h"

#include <algorithm>

#include "base/guard.h"
#include "model_config.pb.h"
#include "scheduling/request_intake.h"
#include "scheduling/trace_points.h"
#include "scheduling/warmup.h"

namespace braid {
namespace {

// The most executions that a thread runs itself before it leaves the rest to the instance's own threads: a
// network thread has other clients to serve.
constexpr int kMostOnCallersThread = 8;

FailureReason ReasonOf(EndReason why) {
  switch (why) {
    case EndReason::kRefused:
    case EndReason::kTimeout:
    case EndReason::kIdle:
    case EndReason::kDropped:
      return FailureReason::kRejected;
    case EndReason::kCancelled:
      return FailureReason::kCanceled;
    case EndReason::kRescheduled:
      return FailureReason::kBackend;
    case EndReason::kLost:
    case EndReason::kOutage:
    case EndReason::kReturned:
    case EndReason::kStopping:
      return FailureReason::kOther;
  }
  return FailureReason::kOther;
}

}  // namespace

InstancePool::InstancePool(ServableInfo info, std::unique_ptr<BackendModel> backend, Timers& timers,
                           Logger& log, const Options& options)
    : Servable(std::move(info)),
      timers_(timers),
      log_(log),
      options_(options),
      held_(timers),
      delivery_(statistics_, timers, log),
      call_graph_(options.call_graph),
      call_instances_(std::make_shared<CallGraph::Instances>(info_.name)),
      outage_since_ns_(timers.NowNs()),
      backend_(std::move(backend)) {
  for (Instance* instance : backend_->instances()) {
    if (instance->passive()) continue;
    slots_.emplace_back(instance, slots_.size());
    call_instances_->Add(instance, instance->name());
  }
  available_ = slots_.size();
  // A backend may run fewer instances than the configuration lists, as for a model that is debugged.
  info_.instance_count = static_cast<int>(slots_.size());
}

InstancePool::~InstancePool() { BRAID_CHECK(!started_); }

InstancePool::Slot* InstancePool::SlotOf(const Instance& instance) {
  const auto slot =
      std::find_if(slots_.begin(), slots_.end(), [&](const Slot& s) { return s.instance == &instance; });
  return slot == slots_.end() ? nullptr : &*slot;
}

std::vector<std::string> InstancePool::InstanceNames() const {
  MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const Slot& slot : slots_) names.push_back(slot.instance->name());
  return names;
}

std::vector<InstanceReport> InstancePool::instances() const {
  std::vector<InstanceReport> reports;
  for (const Instance* instance : backend_->instances()) reports.push_back(instance->report());
  return reports;
}

int64_t InstancePool::pending_requests() const {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(QueuedLocked() + HeldLocked());
}

// --- Start and stop ------------------------------------------------------------------------------

Status InstancePool::Start(const std::function<void(const std::string&)>& progress) {
  if (options_.limiter != nullptr) BRAID_RETURN_IF_ERROR(LimitRate(*options_.limiter));
  BRAID_RETURN_IF_ERROR(backend_->Start(*this, progress));
  started_ = true;
  OnStarted(*backend_);
  Status warm = Guarded([&] { return WarmUp(progress); });
  if (!warm.ok()) StopIfStarted();
  return warm;
}

Status InstancePool::LimitRate(RateLimiter& limiter) {
  // One per instance, in the order of the backend's instances.
  std::vector<std::pair<const inference::ModelInstanceGroup*, int>> placed;
  for (const auto& group : info_.config->instance_group()) {
    for (const int device : DevicesOfInstances(group)) placed.emplace_back(&group, device);
  }
  const std::vector<Instance*> instances = backend_->instances();
  MutexLock lock(mutex_);
  for (size_t i = 0; i < std::min(instances.size(), placed.size()); ++i) {
    Slot* slot = SlotOf(*instances[i]);
    const auto& [group, device] = placed[i];
    const auto& rate_limiter = group->rate_limiter();
    if (slot == nullptr || rate_limiter.resources().empty()) continue;
    std::vector<ResourceNeed> needs;
    for (const auto& resource : rate_limiter.resources()) {
      needs.push_back({resource.name(), resource.global(), resource.count()});
    }
    BRAID_ASSIGN_OR_RETURN(slot->ticket, limiter.Register(needs, device, rate_limiter.priority(),
                                                          [weak = weak_from_this(), slot] {
                                                            if (auto self = weak.lock())
                                                              self->OnChance(*slot);
                                                          }));
  }
  return OkStatus();
}

Status InstancePool::WarmUp(const std::function<void(const std::string&)>& progress) {
  // The samples are not needed again, so their memory is freed.
  const std::vector<WarmupSample> samples = std::exchange(info_.warmup, {});
  warming_ = true;
  Status status = RunWarmup(
      full_info(), backend_->instances(), samples,
      [this](InferenceRequest& request) { PrepareWarmup(request); },
      [this](Instance& instance, std::unique_ptr<Execution> execution) {
        {
          MutexLock lock(mutex_);
          if (Slot* slot = SlotOf(instance)) ++slot->warmups;
        }
        instance.Execute(std::move(execution));
      },
      progress);
  warming_ = false;
  return status;
}

void InstancePool::Hold(int64_t deadline_ns) {
  MutexLock lock(mutex_);
  if (stopping_) return;
  held_.Hold(deadline_ns, [this, weak = weak_from_this()] {
    const std::shared_ptr<InstancePool> self = weak.lock();
    if (self == nullptr) return;
    Change change(*this);
    if (!stopping_) ReleaseLocked(change.now_ns, change.work);
    change.Perform();
  });
}

// Held requests of a stopping model are not restored.
void InstancePool::BeginStopLocked(Work& work) {
  for (auto& request : held_.Release()) work.endings.push_back({std::move(request), EndReason::kStopping});
}

void InstancePool::Stop(int64_t deadline_ns) {
  {
    Change change(*this);
    BeginStopLocked(change.work);
    change.Perform();
  }
  gate().WaitUntilEmpty(deadline_ns);
  size_t left = 0;
  {
    Change change(*this);
    Endings& endings = change.work.endings;
    std::move(cancelled_.begin(), cancelled_.end(), std::back_inserter(endings));
    cancelled_.clear();
    for (Slot& slot : slots_) {
      TakeBackLocked(std::exchange(slot.outbox, {}), change.now_ns, change.work);
    }
    stopping_ = true;
    EndWaitingLocked(EndReason::kStopping, change.now_ns, endings);
    timers_.Withdraw(timer_);
    // From here on no thread calls Execute().
    while (SendingLocked()) sent_.Wait(mutex_);
    left = endings.size();
    change.Perform();
  }
  if (left > 0) {
    BRAID_LOG_WARNING(log_, "model '{}' version {} stopped with {} requests that did not run", info_.name,
                      info_.version, left);
  }
  backend_->Stop(deadline_ns);
  started_ = false;
}

bool InstancePool::SendingLocked() {
  bool any = false;
  for (Slot& slot : slots_) {
    auto before = Slot::Sender::kOne;
    slot.sender.compare_exchange_strong(before, Slot::Sender::kMore);
    any |= before != Slot::Sender::kNone;
  }
  return any;
}

// --- Decisions under the lock --------------------------------------------------------------------

void InstancePool::ScheduleLocked(int64_t now_ns, Work& work) {
  if (stopping_) return;
  int64_t look_again_ns = RunLocked(now_ns, work);
  if (available_ == 0 && QueuedLocked() > 0) {
    const int64_t outage_end_ns = outage_since_ns_ + options_.outage_wait_ns;
    if (outage_end_ns <= now_ns) {
      EndWaitingLocked(EndReason::kOutage, now_ns, work.endings);
    } else {
      look_again_ns = std::min(look_again_ns, outage_end_ns);
    }
  }
  ArmLocked(look_again_ns);
}

void InstancePool::HandOverLocked(Slot& slot, std::unique_ptr<Execution> execution, int64_t now_ns,
                                  Work& work) {
  execution->compute_start_ns = now_ns;
  execution->life = slot.life;
  ++slot.handed;
  if (slot.inside++ == 0) slot.since_ns = now_ns;
  if (slot.sender.exchange(Slot::Sender::kMore) == Slot::Sender::kNone) {
    slot.sender = Slot::Sender::kOne;
    work.dispatches.push_back({&slot, std::move(execution)});
  } else {
    slot.outbox.push_back(std::move(execution));
  }
}

void InstancePool::SetAvailableLocked(Slot& slot, bool available, int64_t now_ns, Work& work) {
  const bool changed = slot.available != available;
  if (changed) {
    slot.available = available;
    available_ += available ? 1 : -1;
    if (available_ == 0) outage_since_ns_ = now_ns;
  }
  // The executions inside belong to the previous life.
  ++slot.life;
  slot.inside = slot.warmups = 0;
  slot.handed = slot.ended = 0;
  slot.ahead.clear();
  call_instances_->SetAvailable(slot.instance, available);
  slot.waits_for_resources = false;
  if (slot.ticket != nullptr) slot.ticket->Release();
  OnNewLifeLocked(slot, changed, now_ns, work);
  if (!available) TakeBackLocked(std::exchange(slot.outbox, {}), now_ns, work);
}

void InstancePool::ArmLocked(int64_t deadline_ns) {
  // A timer that fires too early only decides again, so the current one stays unless it would fire too late.
  if (deadline_ns >= timer_deadline_ns_ || stopping_) return;
  timers_.Withdraw(timer_);
  timer_deadline_ns_ = deadline_ns;
  timer_ = timers_.At(deadline_ns, [weak = weak_from_this()] {
    if (const std::shared_ptr<InstancePool> self = weak.lock()) self->OnTimer();
  });
}

// --- Actions without the lock --------------------------------------------------------------------

void InstancePool::Change::Finish(bool here) {
  pool_.ScheduleLocked(now_ns, work);
  Perform(here);
}

void InstancePool::Change::Perform(bool here) {
  pool_.mutex_.Unlock();
  retrying_.reset();
  pool_.Perform(std::move(work), here);
}

void InstancePool::Perform(Work work, bool here) {
  // Consequences of ended requests are handled in a loop, so that the stack does not grow with a series of
  // requests that each end at once.
  while (!work.empty()) {
    Work next;
    // Dispatches go first: an idle instance costs more than a slightly later error.
    for (auto& dispatch : work.dispatches) Send(*dispatch.slot, std::move(dispatch.execution), here);
    for (Ending& ending : work.endings) End(std::move(ending), next);
    work = std::move(next);
    here = false;
  }
}

void InstancePool::Send(Slot& slot, std::unique_ptr<Execution> execution, bool here) {
  for (int sent = 0;; ++sent) {
    const Status prepared = Guarded([&] {
      for (const auto& request : execution->requests) {
        if (request->cancellation != nullptr) request->cancellation->ClearListener();
        TraceDispatched(*request, execution->compute_start_ns);
      }
      Prepare(*execution);
    });
    // The instance may answer before this returns; executions that the answer leads to go into the outbox.
    if (prepared.ok()) {
      execution->on_callers_thread = here && sent < kMostOnCallersThread;
      slot.instance->Execute(std::move(execution));
    } else {
      FailUnsent(*slot.instance, *execution, prepared);
    }
    auto sender = Slot::Sender::kOne;
    if (slot.sender.compare_exchange_strong(sender, Slot::Sender::kNone)) return;
    MutexLock lock(mutex_);
    if (slot.outbox.empty()) {
      slot.sender = Slot::Sender::kNone;
      if (stopping_) sent_.NotifyAll();
      return;
    }
    execution = std::move(slot.outbox.front());
    slot.outbox.pop_front();
    if (slot.outbox.empty() && !stopping_) slot.sender = Slot::Sender::kOne;
  }
}

// Account for it as executed and failed.
void InstancePool::FailUnsent(Instance& instance, Execution& execution, const Status& status) {
  const int64_t now_ns = timers_.NowNs();
  const ExecutionTimes times{execution.compute_start_ns, now_ns, now_ns, now_ns};
  GuardedOrReport(info_.name,
                  [&] { OnExecuted(instance, execution.rows, execution.requests.size(), times); });
  for (auto& request : execution.requests) {
    GuardedOrReport(info_.name, [&] {
      const auto failed = std::move(request);
      if (failed->cancellation != nullptr) failed->cancellation->ClearListener();
      InferenceResponse response;
      response.status = status;
      OnResponse(instance, *failed, std::move(response), true, times);
    });
  }
  GuardedOrReport(info_.name, [&] { OnDelivered(instance); });
}

void InstancePool::End(Ending ending, Work& next) {
  const RetryingAllocation retrying;
  InferenceRequest& request = *ending.request;
  if (request.cancellation != nullptr) request.cancellation->ClearListener();
  const FailureReason reason = ReasonOf(ending.why);
  Status status = ending.status.ok() ? StatusOf(ending) : std::move(ending.status);
  statistics_.RecordFailure(reason, request.start_ns, timers_.NowNs());
  NextInSequence followers =
      OnEnd(request, reason == FailureReason::kCanceled ? Outcome::kCancelled : Outcome::kFailed);
  if (ending.why == EndReason::kRefused || ending.why == EndReason::kDropped) {
    request.Refuse(std::move(status));
  } else {
    request.Fail(std::move(status));
  }
  if (followers.pool != nullptr) Follow(std::move(followers), next);
}

Status InstancePool::StatusOf(const Ending& ending) const {
  switch (ending.why) {
    case EndReason::kTimeout:
      return UnavailableError("Request timeout expired");
    case EndReason::kCancelled:
      return CancelledWhileWaiting(info_.name);
    case EndReason::kOutage:
      return NoInstanceLives(info_.name, options_.outage_wait_ns, backend_->readiness().reason);
    case EndReason::kReturned:
      return UnavailableError("instances of model '" + info_.name + "' ended " +
                              std::to_string(kMostReturns) + " times before they began with the request");
    case EndReason::kRescheduled:
      return InternalError(
          "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not "
          "configured to handle such a flag.");
    case EndReason::kStopping:
      return StoppedWhileWaiting(info_.name);
    case EndReason::kRefused:
    case EndReason::kIdle:
    case EndReason::kDropped:
    case EndReason::kLost:
      break;
  }
  return InternalError("request to model '" + info_.name + "' was refused");
}

// --- Cancellations, timers, resources ------------------------------------------------------------

void InstancePool::Listen(InferenceRequest& request) {
  if (request.cancellation == nullptr) return;
  // The listener is cleared before the request leaves the pool, so both pointers are valid whenever it is
  // called.
  request.cancellation->SetListener([this, entered = &request] { OnCancelled(*entered); });
}

void InstancePool::OnCancelled(InferenceRequest& request) {
  RetryingLock lock(mutex_);
  // A request that does not wait yet is checked when it is about to; one that has left the queue runs.
  if (!request.scheduling.queued) return;
  const int64_t now_ns = timers_.NowNs();
  CancelLocked(request, now_ns, cancelled_);
  // This is called from within the Cancellation, so the request cannot end here.
  ArmLocked(now_ns);
}

void InstancePool::OnTimer() {
  Change change(*this);
  timer_ = {};
  timer_deadline_ns_ = kNeverNs;
  std::move(cancelled_.begin(), cancelled_.end(), std::back_inserter(change.work.endings));
  cancelled_.clear();
  change.Finish();
}

void InstancePool::OnChance(Slot& slot) {
  Change change(*this);
  slot.waits_for_resources = false;
  ScheduleLocked(change.now_ns, change.work);
  // The requests that the slot waited for may have ended.
  if (slot.inside == 0 && !slot.waits_for_resources) slot.ticket->Release();
  change.Perform();
}

// --- Events from instances -----------------------------------------------------------------------

void InstancePool::OnExecuted(Instance& instance, int64_t rows, size_t, const ExecutionTimes& times) {
  {
    Change change(*this);
    Slot* slot = SlotOf(instance);
    if (slot == nullptr) return;
    if (slot->warmups > 0) {
      --slot->warmups;
      return;
    }
    slot->inside = std::max(slot->inside - 1, 0);
    slot->since_ns = change.now_ns;
    ++slot->ended;
    while (!slot->ahead.empty() && slot->ahead.front().first <= slot->ended) slot->ahead.pop_front();
    if (slot->ticket != nullptr) slot->ticket->Release(QueuedLocked() > 0);
    execute_ns_ = UpdateExecuteTime(execute_ns_, times.infer_end_ns - times.input_end_ns);
    OnReturnedLocked(*slot, change.now_ns, change.work);
    // First, the instance gets its next execution.
    change.Finish();
  }
  statistics_.RecordExecution(rows, times);
}

void InstancePool::OnResponse(Instance& instance, InferenceRequest& request,
                              std::optional<InferenceResponse> response, bool final,
                              const ExecutionTimes& times) {
  if (warming_) {
    request.Respond(std::move(response), final);
    return;
  }
  if (!TakeResponse(instance, request, response, final)) return;
  // The request ends even if its response cannot be prepared: others may wait for its turn.
  const Status prepared = Guarded([&] { delivery_.Prepare(full_info(), request, response, final, times); });
  if (!prepared.ok()) {
    response.emplace().status = prepared;
    request.scheduling.failed = true;
  }
  NextInSequence followers;
  if (final) followers = OnEnd(request, request.scheduling.failed ? Outcome::kFailed : Outcome::kGood);
  // The requests that wait for its turn continue, even if the answer fails.
  GuardedOrReport(info_.name, [&] { request.Respond(std::move(response), final); });
  if (followers.pool == nullptr) return;
  const std::shared_ptr<InstancePool> self = followers.pool;
  Work work;
  Follow(std::move(followers), work);
  Perform(std::move(work), false);
}

void InstancePool::OnRescheduled(Instance& instance, std::unique_ptr<InferenceRequest> request) {
  if (warming_) {
    request->Respond(std::nullopt, true);
  } else {
    Reschedule(instance, std::move(request));
  }
}

void InstancePool::Reschedule(Instance& instance, std::unique_ptr<InferenceRequest> request) {
  Ending ending{std::move(request), EndReason::kRescheduled};
  const LogAbout about(info_.name);
  BRAID_LOG_ERROR(log_, "instance '{}': {}", instance.name(), StatusOf(ending).message());
  Work work;
  work.endings.push_back(std::move(ending));
  Perform(std::move(work), false);
}

void InstancePool::OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) {
  for (const auto& execution : executions) {
    for (const auto& request : execution->requests) {
      if (warming_) {
        request->Fail(UnavailableError("instance '" + instance.name() + "' ended before it ran the sample"));
      } else {
        ++request->scheduling.returns;
        Listen(*request);
      }
    }
  }
  if (warming_) return;
  std::deque<std::unique_ptr<Execution>> back(std::make_move_iterator(executions.begin()),
                                              std::make_move_iterator(executions.end()));
  Change change(*this);
  Slot* slot = SlotOf(instance);
  // An instance that has not reported its death yet gets no more executions until it reports its state.
  const bool unannounced =
      slot != nullptr && slot->available &&
      std::any_of(back.begin(), back.end(), [slot](const auto& e) { return e->life == slot->life; });
  if (unannounced) SetAvailableLocked(*slot, false, change.now_ns, change.work);
  TakeBackLocked(std::move(back), change.now_ns, change.work);
  change.Finish();
}

void InstancePool::OnAvailability(Instance& instance, bool available) {
  {
    Change change(*this);
    Slot* slot = SlotOf(instance);
    if (slot == nullptr || (slot->available && available)) return;
    SetAvailableLocked(*slot, available, change.now_ns, change.work);
    change.Finish();
  }
  BRAID_LOG_VERBOSE(log_, "instance '{}' is {}", instance.name(), available ? "available" : "not available");
}

}  // namespace braid
