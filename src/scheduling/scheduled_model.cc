#include "scheduling/scheduled_model.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "base/guard.h"
#include "model_config.pb.h"
#include "scheduling/batcher.h"
#include "scheduling/batching_policy.h"
#include "scheduling/cache_link.h"
#include "scheduling/request_intake.h"
#include "scheduling/request_queue.h"
#include "scheduling/response_delivery.h"
#include "scheduling/response_order.h"
#include "scheduling/trace_points.h"
#include "scheduling/warmup_listener.h"

namespace braid {
namespace {

// A request that has been handed to dying instances this often may be what kills them, or the model dies
// whatever it is given. It does not go round for ever.
constexpr int kMostReturns = 3;

// Why a request ends without having run.
enum class Why : unsigned char { kRefused, kTimeout, kCancelled, kOutage, kReturned, kStopping };

FailureReason ReasonOf(Why why) {
  switch (why) {
    case Why::kRefused:
    case Why::kTimeout:
      return FailureReason::kRejected;
    case Why::kCancelled:
      return FailureReason::kCanceled;
    case Why::kOutage:
    case Why::kReturned:
    case Why::kStopping:
      return FailureReason::kOther;
  }
  return FailureReason::kOther;
}

class Model final : public ScheduledModel,
                    private ExecutionListener,
                    public std::enable_shared_from_this<Model> {
 public:
  Model(ServableInfo info, std::unique_ptr<BackendModel> backend, BatchingPolicy policy, Timers& timers,
        Logger& log, const Options& options)
      : ScheduledModel(std::move(info)),
        policy_(std::move(policy)),
        timers_(timers),
        log_(log),
        counted_(options.statistics != nullptr ? *options.statistics : statistics_),
        delivery_(info_, counted_, timers, options.front),
        cache_(CacheLink::Make(options.cache, info_, counted_, timers)),
        order_(policy_.preserve_ordering ? std::make_shared<ResponseOrder>() : nullptr),
        call_graph_(*options.call_graph),
        place_(std::make_shared<CallGraph::Place>(info_.name)),
        outage_wait_ns_(options.outage_wait_ns),
        queue_(policy_, options.max_queue_size, info_.name),
        outage_since_ns_(timers.NowNs()),
        backend_(std::move(backend)) {
    for (Instance* instance : backend_->instances()) {
      if (instance->passive()) continue;
      slots_.emplace_back(instance);
      place_->Add(instance, instance->name());
    }
    available_ = slots_.size();
  }

  ~Model() override {
    if (started_) Stop(timers_.NowNs());
  }

  // Gives every slot whose group needs resources a ticket for them.
  Status LimitRate(RateLimiter& limiter);

  Status StartInstances(const std::function<void(const std::string&)>& progress) {
    BRAID_RETURN_IF_ERROR(backend_->Start(warmup_, progress));
    started_ = true;
    // What the samples hold is not needed again.
    const std::vector<WarmupSample> samples = std::exchange(info_.warmup, {});
    return warmup_.Run(info_, backend_->instances(), samples, nullptr, progress);
  }

  BufferAllocator& input_allocator() override { return backend_->input_allocator(); }
  void Infer(std::unique_ptr<InferenceRequest> request) override;
  void Schedule(std::unique_ptr<InferenceRequest> request, bool here) override;
  Readiness readiness() const override { return backend_->readiness(); }
  void CheckReadiness(std::function<void(Readiness)> done) override {
    backend_->CheckReadiness(std::move(done));
  }
  int64_t pending_requests() const override {
    std::lock_guard lock(mutex_);
    return static_cast<int64_t>(queue_.size());
  }
  void Stop(int64_t deadline_ns) override;

 private:
  // An instance and what the scheduler knows of it.
  struct Slot {
    explicit Slot(Instance* instance) : instance(instance) {}

    Instance* const instance;
    // Guarded by mutex_.
    bool available = true;
    int inside = 0;        // executions which are handed over, or are about to be, and have not ended
    int64_t since_ns = 0;  // when the execution that runs now began, as far as can be told
    uint32_t life = 0;     // counts the changes of `available`
    // Execute() takes one call at a time and is called without mutex_. The thread that has set `sending`
    // makes the calls; others leave their executions in the outbox for it. So the order is that in which the
    // queue was left.
    bool sending = false;
    std::deque<std::unique_ptr<Execution>> outbox;
    // Executions handed over in this life, and ended. For those which were handed over ahead and hold
    // requests that others wait for: what tells the call graph that they have not begun.
    uint64_t handed = 0;
    uint64_t ended = 0;
    std::deque<std::pair<uint64_t, CallGraph::Ticket>> ahead;
    // What it runs with; null when that is not limited.
    std::unique_ptr<RateLimiter::Ticket> ticket;
    bool waits_for_resources = false;
  };

  struct Dispatch {
    Slot* slot;
    std::unique_ptr<Execution> execution;
  };
  struct Ending {
    std::unique_ptr<InferenceRequest> request;
    Why why;
    Status status = {};  // set for kRefused
  };
  // What was decided under mutex_ and is done without it.
  struct Work {
    boost::container::small_vector<Dispatch, 2> dispatches;
    std::vector<Ending> endings;
  };

  void OnExecuted(Instance& instance, int64_t rows, size_t request_count,
                  const ExecutionTimes& times) override;
  void OnResponse(Instance& instance, InferenceRequest& request, std::optional<InferenceResponse> response,
                  bool final, const ExecutionTimes& times) override;
  void OnRescheduled(Instance& instance, std::unique_ptr<InferenceRequest> request) override;
  void OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) override;
  void OnAvailability(Instance& instance, bool available) override;
  void OnTimer();

  // Null for a passive instance, which is never given anything.
  Slot* SlotOf(Instance& instance) {
    auto slot =
        std::find_if(slots_.begin(), slots_.end(), [&](const Slot& s) { return s.instance == &instance; });
    return slot == slots_.end() ? nullptr : &*slot;
  }

  bool AnswerFromCache(InferenceRequest& request);
  // From here on the request leaves the queue at once when its client goes.
  void Listen(InferenceRequest& request);
  void OnCancelled(InferenceRequest& request);

  // Hands out what can run, and ends what must not wait any longer.
  void ScheduleLocked(int64_t now_ns, Work& work);
  Slot* PickSlotLocked(int64_t now_ns);
  BatchDecision DecideLocked(int64_t now_ns);
  // Resources for one slot have become free.
  void OnChance(Slot& slot);
  void HandOverLocked(Slot& slot, size_t count, int64_t now_ns, Work& work);
  // Lets the call graph know of a request that has to wait. Errors: it would wait for ever.
  Status EnterCallGraph(InferenceRequest& request);
  // The same for the first `count` requests, which are about to stand behind what the slot runs; false when
  // one of them would never run there.
  bool EnterCallGraphAheadLocked(Slot& slot, size_t count);
  void SetAvailableLocked(Slot& slot, bool available, int64_t now_ns);
  // Puts the requests of executions back in front of the queue, the first execution first.
  void TakeBackLocked(std::deque<std::unique_ptr<Execution>> executions, Work& work);
  void EndAllQueuedLocked(Why why, Work& work);
  void ArmLocked(int64_t deadline_ns);

  // `here`: this thread may run executions itself.
  void Perform(Work& work, bool here = false);
  void Send(Slot& slot, std::unique_ptr<Execution> execution, bool here);
  void End(Ending& ending);
  Status StatusOf(Why why) const;

  // Constant.
  const BatchingPolicy policy_;
  Timers& timers_;
  Logger& log_;
  ModelStatistics& counted_;
  const ResponseDelivery delivery_;
  const std::unique_ptr<const CacheLink> cache_;  // null when the model's responses are not kept
  const std::shared_ptr<ResponseOrder>
      order_;  // null unless preserve_ordering; shared with the responses on their way
  CallGraph& call_graph_;
  const std::shared_ptr<CallGraph::Place> place_;  // shared with the waiting requests in the call graph
  const int64_t outage_wait_ns_;

  // Taken after a request's Cancellation and before the locks of the timers and of order_; not held across a
  // call to an instance, the backend, a sink or a Cancellation.
  mutable std::mutex mutex_;
  std::condition_variable sent_;  // told when a slot stops sending, once stopping_ is set
  // All guarded by mutex_.
  RequestQueue queue_;
  std::deque<Slot> slots_;                                    // never changes; a slot's members do
  size_t available_ = 0;                                      // how many slots are
  int64_t outage_since_ns_;                                   // means something while available_ is 0
  int64_t execute_ns_ = 0;                                    // UpdateExecuteTime()
  std::vector<std::unique_ptr<InferenceRequest>> cancelled_;  // left the queue; the timers' thread ends them
  std::vector<WaitingRequest> waiting_;                       // scratch of DecideLocked()
  TimerId timer_;
  int64_t timer_deadline_ns_ = kNeverNs;
  bool stopping_ = false;

  WarmupListener warmup_{*this};
  bool started_ = false;  // by Start() and Stop() alone
  // The last member: its instances call back until it has stopped.
  std::unique_ptr<BackendModel> backend_;
};

void Model::Infer(std::unique_ptr<InferenceRequest> request) {
  if (!ReadyToSchedule(info_, request)) return;
  request->queue_start_ns = timers_.NowNs();
  request->scheduling = {};
  TraceQueued(*request);
  if (cache_ != nullptr && AnswerFromCache(*request)) return;
  const bool here = request->here;
  Schedule(std::move(request), here);
}

void Model::Schedule(std::unique_ptr<InferenceRequest> request, bool here) {
  // The request may have ended, and the model with it, before the last lines of this function.
  const std::shared_ptr<Model> self = shared_from_this();
  const int64_t now_ns = timers_.NowNs();
  Listen(*request);

  Work work;
  {
    const PatientAllocation patience;
    std::lock_guard lock(mutex_);
    InferenceRequest& entered = *request;
    if (stopping_) {
      work.endings.push_back({std::move(request), Why::kStopping});
    } else if (request->cancelled()) {
      work.endings.push_back({std::move(request), Why::kCancelled});
    } else if (Status status = queue_.Push(request, now_ns); !status.ok()) {
      work.endings.push_back({std::move(request), Why::kRefused, std::move(status)});
    } else {
      if (order_ != nullptr) order_->Enter(entered);
      ScheduleLocked(now_ns, work);
      if (entered.scheduling.queued) {
        if (Status status = EnterCallGraph(entered); !status.ok()) {
          work.endings.push_back({queue_.Remove(entered), Why::kRefused, std::move(status)});
        }
      }
    }
  }
  Perform(work, here);
}

Status Model::EnterCallGraph(InferenceRequest& request) {
  if (!CallGraph::Concerns(request.call_chain.get())) return OkStatus();
  BRAID_ASSIGN_OR_RETURN(request.scheduling.waiting_call, call_graph_.Wait(place_, request.call_chain));
  return OkStatus();
}

bool Model::EnterCallGraphAheadLocked(Slot& slot, size_t count) {
  const InferenceRequest* request = queue_.front();
  for (size_t i = 0; i < count; ++i, request = queue_.After(*request)) {
    if (!CallGraph::Concerns(request->call_chain.get())) continue;
    auto ticket = call_graph_.Wait(place_, request->call_chain, slot.instance);
    if (!ticket.ok()) {
      while (!slot.ahead.empty() && slot.ahead.back().first == slot.handed) slot.ahead.pop_back();
      return false;
    }
    slot.ahead.emplace_back(slot.handed, std::move(ticket).value());
  }
  return true;
}

bool Model::AnswerFromCache(InferenceRequest& request) {
  std::optional<InferenceResponse> response = cache_->Find(request);
  if (!response) return false;
  response->model_name = info_.name;
  response->model_version = info_.version;
  delivery_.Prune(request, response->outputs);
  if (order_ != nullptr) order_->Enter(request);
  request.Respond(std::move(response), true);
  return true;
}

void Model::Listen(InferenceRequest& request) {
  if (request.cancellation == nullptr) return;
  // The listener is cleared before the request leaves the scheduler, so both pointers hold while it can be
  // called.
  request.cancellation->SetListener([this, entered = &request] { OnCancelled(*entered); });
}

void Model::OnCancelled(InferenceRequest& request) {
  const PatientAllocation patience;
  std::lock_guard lock(mutex_);
  // One that is not queued yet sees its cancellation when it is about to be; one that is no longer queued
  // runs.
  if (!request.scheduling.queued) return;
  cancelled_.push_back(queue_.Remove(request));
  // This is called from within the Cancellation, so the request cannot end here.
  ArmLocked(timers_.NowNs());
}

void Model::ScheduleLocked(int64_t now_ns, Work& work) {
  if (queue_.next_deadline_ns() <= now_ns) {
    std::vector<std::unique_ptr<InferenceRequest>> rejected;
    queue_.Expire(now_ns, rejected);
    for (auto& request : rejected) work.endings.push_back({std::move(request), Why::kTimeout});
  }
  int64_t look_again_ns = kNeverNs;
  while (!queue_.empty()) {
    Slot* slot = PickSlotLocked(now_ns);
    if (slot == nullptr) break;
    const BatchDecision decision = DecideLocked(now_ns);
    if (decision.count == 0) {
      look_again_ns = decision.wait_until_ns;
      break;
    }
    if (slot->inside > 0 && !EnterCallGraphAheadLocked(*slot, decision.count)) break;
    if (slot->ticket != nullptr && !slot->ticket->TryAcquire()) {
      slot->waits_for_resources = true;
      continue;
    }
    HandOverLocked(*slot, decision.count, now_ns, work);
  }
  if (queue_.empty()) return;
  if (available_ == 0) {
    look_again_ns = outage_since_ns_ + outage_wait_ns_;
    if (look_again_ns <= now_ns) {
      EndAllQueuedLocked(Why::kOutage, work);
      return;
    }
  }
  ArmLocked(std::min(look_again_ns, queue_.next_deadline_ns()));
}

Model::Slot* Model::PickSlotLocked(int64_t now_ns) {
  Slot* least = nullptr;
  for (Slot& slot : slots_) {
    if (!slot.available || slot.waits_for_resources) continue;
    if (slot.inside == 0) return &slot;
    if (!policy_.hands_ahead || slot.instance->makes_calls()) continue;
    // Resources are held for one execution at a time.
    if (slot.ticket != nullptr) continue;
    if (least == nullptr || slot.inside < least->inside) least = &slot;
  }
  if (least == nullptr) return nullptr;
  const int depth = PipelineDepth(execute_ns_, now_ns - least->since_ns, !policy_.one_request_each());
  return least->inside < depth ? least : nullptr;
}

void Model::OnChance(Slot& slot) {
  Work work;
  {
    const PatientAllocation patience;
    const int64_t now_ns = timers_.NowNs();
    std::lock_guard lock(mutex_);
    slot.waits_for_resources = false;
    if (!stopping_) ScheduleLocked(now_ns, work);
    // The requests that it waited for may be gone.
    if (slot.inside == 0 && !slot.waits_for_resources) slot.ticket->Release();
  }
  Perform(work);
}

Status Model::LimitRate(RateLimiter& limiter) {
  std::vector<const inference::ModelInstanceGroup*> groups;  // one an instance, as the backend has them
  for (const auto& group : info_.config->instance_group()) groups.insert(groups.end(), group.count(), &group);
  const std::vector<Instance*> instances = backend_->instances();
  for (size_t i = 0; i < std::min(instances.size(), groups.size()); ++i) {
    Slot* slot = SlotOf(*instances[i]);
    const auto& rate_limiter = groups[i]->rate_limiter();
    if (slot == nullptr || rate_limiter.resources().empty()) continue;
    std::vector<ResourceNeed> needs;
    for (const auto& resource : rate_limiter.resources()) {
      needs.push_back({resource.name(), resource.global(), resource.count()});
    }
    const int device = groups[i]->gpus_size() > 0 ? groups[i]->gpus(0) : 0;
    BRAID_ASSIGN_OR_RETURN(slot->ticket, limiter.Register(needs, device, rate_limiter.priority(),
                                                          [weak = weak_from_this(), slot] {
                                                            if (auto self = weak.lock())
                                                              self->OnChance(*slot);
                                                          }));
  }
  return OkStatus();
}

BatchDecision Model::DecideLocked(int64_t now_ns) {
  if (policy_.one_request_each()) return {.count = 1};
  waiting_.clear();
  int64_t rows = 0;
  const InferenceRequest* first = queue_.front();
  for (const InferenceRequest* request = first; request != nullptr; request = queue_.After(*request)) {
    const bool joins = request == first || CanShareBatch(info_, *first, *request);
    waiting_.push_back({std::max<int64_t>(request->batch_size, 1), request->queue_start_ns, joins});
    rows += waiting_.back().rows;
    if (LastOfInterest(policy_, waiting_.back(), rows)) break;
  }
  return DecideBatch(policy_, waiting_, now_ns);
}

void Model::HandOverLocked(Slot& slot, size_t count, int64_t now_ns, Work& work) {
  auto execution = std::make_unique<Execution>();
  execution->requests.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    execution->requests.push_back(queue_.PopFront());
    execution->rows += execution->requests.back()->batch_size;
  }
  execution->compute_start_ns = now_ns;
  execution->life = slot.life;
  ++slot.handed;
  if (slot.inside++ == 0) slot.since_ns = now_ns;
  if (slot.sending) {
    slot.outbox.push_back(std::move(execution));
  } else {
    slot.sending = true;
    work.dispatches.push_back({&slot, std::move(execution)});
  }
}

void Model::SetAvailableLocked(Slot& slot, bool available, int64_t now_ns) {
  if (slot.available != available) {
    slot.available = available;
    available_ += available ? 1 : -1;
    if (available_ == 0) outage_since_ns_ = now_ns;
  }
  // What it had inside belongs to the life before.
  ++slot.life;
  slot.inside = 0;
  slot.handed = slot.ended = 0;
  slot.ahead.clear();
  place_->SetAvailable(slot.instance, available);
  slot.waits_for_resources = false;
  if (slot.ticket != nullptr) slot.ticket->Release();
}

void Model::TakeBackLocked(std::deque<std::unique_ptr<Execution>> executions, Work& work) {
  for (auto execution = executions.rbegin(); execution != executions.rend(); ++execution) {
    auto& requests = (*execution)->requests;
    for (auto request = requests.rbegin(); request != requests.rend(); ++request) {
      if ((*request)->cancelled()) {
        work.endings.push_back({std::move(*request), Why::kCancelled});
      } else if ((*request)->scheduling.returns >= kMostReturns) {
        work.endings.push_back({std::move(*request), Why::kReturned});
      } else if (stopping_) {
        work.endings.push_back({std::move(*request), Why::kStopping});
      } else if (Status status = EnterCallGraph(**request); !status.ok()) {
        work.endings.push_back({std::move(*request), Why::kRefused, std::move(status)});
      } else {
        queue_.PushFront(std::move(*request));
      }
    }
  }
}

void Model::EndAllQueuedLocked(Why why, Work& work) {
  while (!queue_.empty()) work.endings.push_back({queue_.PopFront(), why});
}

void Model::ArmLocked(int64_t deadline_ns) {
  // A timer that fires too early only looks again, so the present one stays unless it would be too late.
  if (deadline_ns >= timer_deadline_ns_ || stopping_) return;
  timers_.Withdraw(timer_);
  timer_deadline_ns_ = deadline_ns;
  timer_ = timers_.At(deadline_ns, [weak = weak_from_this()] {
    if (std::shared_ptr<Model> self = weak.lock()) self->OnTimer();
  });
}

void Model::OnTimer() {
  const int64_t now_ns = timers_.NowNs();
  Work work;
  {
    const PatientAllocation patience;
    std::lock_guard lock(mutex_);
    timer_ = {};
    timer_deadline_ns_ = kNeverNs;
    for (auto& request : cancelled_) work.endings.push_back({std::move(request), Why::kCancelled});
    cancelled_.clear();
    ScheduleLocked(now_ns, work);
  }
  Perform(work);
}

void Model::Perform(Work& work, bool here) {
  // An instance that stands still costs more than a client that hears of an error a little later.
  for (Dispatch& dispatch : work.dispatches) Send(*dispatch.slot, std::move(dispatch.execution), here);
  for (Ending& ending : work.endings) End(ending);
}

void Model::Send(Slot& slot, std::unique_ptr<Execution> execution, bool here) {
  for (int sent = 0;; ++sent) {
    for (const auto& request : execution->requests) {
      if (request->cancellation != nullptr) request->cancellation->ClearListener();
      TraceDispatched(*request, execution->compute_start_ns);
    }
    execution->on_callers_thread = here && sent < kMostOnCallersThread;
    // The instance may answer before this returns; what that hands to it goes into the outbox.
    slot.instance->Execute(std::move(execution));
    std::lock_guard lock(mutex_);
    if (slot.outbox.empty()) {
      slot.sending = false;
      if (stopping_) sent_.notify_all();
      return;
    }
    execution = std::move(slot.outbox.front());
    slot.outbox.pop_front();
  }
}

void Model::End(Ending& ending) {
  InferenceRequest& request = *ending.request;
  if (request.cancellation != nullptr) request.cancellation->ClearListener();
  if (ending.why == Why::kRefused) {
    delivery_.Refuse(request, ReasonOf(ending.why), std::move(ending.status));
  } else {
    delivery_.Fail(request, ReasonOf(ending.why), StatusOf(ending.why));
  }
}

Status Model::StatusOf(Why why) const {
  switch (why) {
    case Why::kTimeout:
      return UnavailableError("Request timeout expired");
    case Why::kCancelled:
      return CancelledWhileWaiting(info_.name);
    case Why::kOutage:
      return NoInstanceLives(info_.name, outage_wait_ns_, backend_->readiness().reason);
    case Why::kReturned:
      return UnavailableError("instances of model '" + info_.name + "' ended " +
                              std::to_string(kMostReturns) + " times before they began with the request");
    case Why::kStopping:
      return StoppedWhileWaiting(info_.name);
    case Why::kRefused:
      break;
  }
  return InternalError("request to model '" + info_.name + "' was refused");
}

void Model::OnExecuted(Instance& instance, int64_t rows, size_t, const ExecutionTimes& times) {
  Work work;
  {
    const PatientAllocation patience;
    const int64_t now_ns = timers_.NowNs();
    std::lock_guard lock(mutex_);
    if (Slot* slot = SlotOf(instance)) {
      slot->inside = std::max(slot->inside - 1, 0);
      slot->since_ns = now_ns;
      ++slot->ended;
      while (!slot->ahead.empty() && slot->ahead.front().first <= slot->ended) slot->ahead.pop_front();
      if (slot->ticket != nullptr) slot->ticket->Release(!queue_.empty());
      execute_ns_ = UpdateExecuteTime(execute_ns_, times.infer_end_ns - times.input_end_ns);
      ScheduleLocked(now_ns, work);
    }
  }
  // First of all the instance gets its next execution.
  Perform(work);
  counted_.RecordExecution(rows, times);
}

void Model::OnResponse(Instance&, InferenceRequest& request, std::optional<InferenceResponse> response,
                       bool final, const ExecutionTimes& times) {
  if (cache_ != nullptr && response) cache_->Keep(request, *response);
  delivery_.Respond(request, std::move(response), final, times);
}

void Model::OnRescheduled(Instance& instance, std::unique_ptr<InferenceRequest> request) {
  static constexpr char kText[] =
      "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not "
      "configured to handle such a flag.";
  BRAID_LOG_ERROR(log_, "instance '{}': {}", instance.name(), kText);
  delivery_.Fail(*request, FailureReason::kBackend, InternalError(kText));
}

void Model::OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) {
  std::deque<std::unique_ptr<Execution>> back(std::make_move_iterator(executions.begin()),
                                              std::make_move_iterator(executions.end()));
  for (const auto& execution : back) {
    for (const auto& request : execution->requests) {
      ++request->scheduling.returns;
      Listen(*request);
    }
  }
  Work work;
  {
    const PatientAllocation patience;
    const int64_t now_ns = timers_.NowNs();
    std::lock_guard lock(mutex_);
    Slot* slot = SlotOf(instance);
    // When it has not said yet that it is gone, it gets nothing more until it says how things are.
    const bool unannounced =
        slot != nullptr && slot->available &&
        std::any_of(back.begin(), back.end(), [slot](const auto& e) { return e->life == slot->life; });
    if (unannounced) {
      SetAvailableLocked(*slot, false, now_ns);
      TakeBackLocked(std::exchange(slot->outbox, {}), work);
    }
    TakeBackLocked(std::move(back), work);
    ScheduleLocked(now_ns, work);
  }
  Perform(work);
}

void Model::OnAvailability(Instance& instance, bool available) {
  Work work;
  {
    const PatientAllocation patience;
    const int64_t now_ns = timers_.NowNs();
    std::lock_guard lock(mutex_);
    Slot* slot = SlotOf(instance);
    if (slot == nullptr) return;
    const bool before = slot->available;
    if (before && available) return;
    SetAvailableLocked(*slot, available, now_ns);
    if (!available) TakeBackLocked(std::exchange(slot->outbox, {}), work);
    ScheduleLocked(now_ns, work);
  }
  BRAID_LOG_VERBOSE(log_, "instance '{}' is {}", instance.name(), available ? "available" : "not available");
  Perform(work);
}

void Model::Stop(int64_t deadline_ns) {
  gate().WaitUntilEmpty(deadline_ns);
  Work work;
  {
    const PatientAllocation patience;
    std::unique_lock lock(mutex_);
    stopping_ = true;
    EndAllQueuedLocked(Why::kStopping, work);
    for (auto& request : cancelled_) work.endings.push_back({std::move(request), Why::kCancelled});
    cancelled_.clear();
    for (Slot& slot : slots_) TakeBackLocked(std::exchange(slot.outbox, {}), work);
    timers_.Withdraw(timer_);
    // From here on nobody calls Execute().
    sent_.wait(lock, [this] {
      return std::none_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.sending; });
    });
  }
  if (!work.endings.empty()) {
    BRAID_LOG_WARNING(log_, "model '{}' version {} stops with {} requests that did not run", info_.name,
                      info_.version, work.endings.size());
  }
  Perform(work);
  backend_->Stop(deadline_ns);
  started_ = false;
}

}  // namespace

ScheduledModel::~ScheduledModel() = default;

Result<std::shared_ptr<ScheduledModel>> ScheduledModel::Start(
    ServableInfo info, std::unique_ptr<BackendModel> backend, Timers& timers, Logger& log,
    const std::function<void(const std::string&)>& progress, const Options& options) {
  BRAID_CHECK(info.config != nullptr);
  if (info.config->response_cache().enable() && options.cache == nullptr) {
    BRAID_LOG_WARNING(log,
                      "model '{}' asks for the response cache, which is off: start the server with "
                      "--cache-config=local,size=BYTES to have it",
                      info.name);
  }
  BRAID_ASSIGN_OR_RETURN(BatchingPolicy policy, BatchingPolicyFromConfig(*info.config));
  auto model =
      std::make_shared<Model>(std::move(info), std::move(backend), std::move(policy), timers, log, options);
  if (options.limiter != nullptr) BRAID_RETURN_IF_ERROR(model->LimitRate(*options.limiter));
  BRAID_RETURN_IF_ERROR(model->StartInstances(progress));
  return std::shared_ptr<ScheduledModel>(std::move(model));
}

}  // namespace braid
