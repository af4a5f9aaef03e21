// InstancePool: the instances of one loaded model, and the requests that wait for them. It tracks the state
// of each instance and its executions. When an instance dies, it takes back executions that had not begun. It
// handles outages, cancellations, deadlines and shutdown.
//
// A policy decides which execution runs next, and where. It is a class derived from this one:
//   BatchedModel    one queue, with or without dynamic batching
//   SequenceModel   `sequence_batching` of Triton
//   StatefulModel   stateful models of OpenVINO Model Server, in front of such a queue
//
// Locking. One mutex guards the state of the pool and of its policy. It is held for decisions, and never
// during a call to an instance, the backend, a sink or a Cancellation. Decisions are collected in a Work and
// carried out without the lock. All sections that change the state are a Change:
//
//   Change change(*this);
//   queue_.Push(request, change.now_ns);
//   change.Finish();             // schedules, releases the lock, hands over and answers
//
// Threads. A request goes to an idle instance on the thread that brought it. Otherwise it waits, and the
// thread that reports the end of an execution takes it from the queue. The pool has no thread: only timeouts,
// queue delays and the ends of cancelled requests run on the timers' thread.
#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/guard.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "scheduling/backend.h"
#include "scheduling/batcher.h"
#include "scheduling/call_graph.h"
#include "scheduling/ending.h"
#include "scheduling/held_requests.h"
#include "scheduling/rate_limiter.h"
#include "scheduling/response_cache.h"
#include "scheduling/response_delivery.h"
#include "scheduling/timer_service.h"
#include "serving/servable.h"

namespace braid {

class ImageDecoder;
class StateStore;

class InstancePool : public Servable,
                     private ExecutionListener,
                     public std::enable_shared_from_this<InstancePool> {
 public:
  struct Options {
    // How many requests may wait for this model, besides the queue policies of its configuration. The default
    // is more than a sensible client sends at once, and less than would exhaust the memory.
    size_t max_queue_size = 65536;
    // How long requests wait while no instance is available. A restart takes a fraction of a second. To a
    // client, a longer one is an outage, and waiting requests would only pile up. After this time waiting and
    // new requests fail at once, until an instance is available again.
    int64_t outage_wait_ns = 5'000'000'000;
    // Detects requests of other models that would wait for ever. Null: they wait. Outlives the model.
    CallGraph* call_graph = nullptr;
    // Decodes the images of requests; null if requests have none. Outlives the model.
    ImageDecoder* images = nullptr;
    // The store through which replicas share sequences; null: they stay in this server. Outlives the model.
    StateStore* state_store = nullptr;
    // Null: responses are not cached, even if the configuration enables it. Outlives the model.
    ResponseCache* cache = nullptr;
    // Null: instances ignore their resource needs. Outlives the model.
    RateLimiter* limiter = nullptr;
  };

  // Starts the instances, waits for them and warms them up. The first call, made once. Errors: the error of
  // an instance that did not start, or of a warm-up sample; all instances have ended then.
  Status Start(const std::function<void(const std::string&)>& progress) BRAID_EXCLUDES(mutex_);

  BufferAllocator& input_allocator() override { return backend_->input_allocator(); }
  Readiness readiness() const override { return backend_->readiness(); }
  void CheckReadiness(std::function<void(Readiness)> done) override {
    backend_->CheckReadiness(std::move(done));
  }
  std::vector<InstanceReport> instances() const override;
  std::optional<InstanceReport> instance_template() const override { return backend_->instance_template(); }
  int64_t pending_requests() const override BRAID_EXCLUDES(mutex_);
  void Stop(int64_t deadline_ns) override BRAID_EXCLUDES(mutex_);

 protected:
  // An instance that can be given executions, and its state. Guarded by mutex_, except constants.
  struct Slot {
    Slot(Instance* instance, size_t index) : instance(instance), index(index) {}

    Instance* const instance;
    const size_t index;
    // Its share of limited resources; null if it is not limited. Constant once the model has started.
    std::unique_ptr<RateLimiter::Ticket> ticket;

    bool available = true;
    int inside = 0;        // executions that were handed over, or are about to be, and have not returned
    int64_t since_ns = 0;  // when the current execution began, as far as is known
    uint32_t life = 0;     // counts the changes of `available`
    int warmups = 0;       // warm-up executions that have not returned
    // Execute() takes one call at a time and is called without mutex_. One thread, the sender, makes the calls;
    // other threads put their executions in the outbox. This keeps the order of the decisions. As with
    // SerialDelivery, but a sender with an empty outbox ends without mutex_; it began with it held.
    enum class Sender : unsigned char {
      kNone,
      kOne,
      kMore,  // takes mutex_ after its call: the outbox is not empty, or the model stops
    };
    std::atomic<Sender> sender{Sender::kNone};
    std::deque<std::unique_ptr<Execution>> outbox;
    // The executions handed over in this life, and those that ended. `ahead` has the call graph's tickets of
    // requests that were handed over ahead and have not begun, each with the value of `handed` at that time.
    uint64_t handed = 0;
    uint64_t ended = 0;
    std::deque<std::pair<uint64_t, CallGraph::Ticket>> ahead;
    bool waits_for_resources = false;
  };

  // The decisions made under mutex_ that are carried out without it.
  struct Work {
    struct Dispatch {
      Slot* slot;
      std::unique_ptr<Execution> execution;
    };
    boost::container::small_vector<Dispatch, 2> dispatches;
    Endings endings;
    bool empty() const { return dispatches.empty() && endings.empty(); }
  };

  // A section that changes the state: holds mutex_ and retries failed allocations (base/guard.h).
  class BRAID_THREAD_ATTRIBUTE(scoped_lockable) Change {
   public:
    explicit Change(InstancePool& pool) BRAID_ACQUIRE(pool.mutex_)
        : now_ns(pool.timers_.NowNs()), pool_(pool) {
      pool_.mutex_.Lock();
    }
    ~Change() BRAID_RELEASE() {
      if (retrying_) pool_.mutex_.Unlock();
    }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

    // Schedules, releases the lock and carries out the decisions. `here`: this thread may run executions
    // itself. The pool lives until this returns.
    void Finish(bool here = false) BRAID_RELEASE();
    // The same without scheduling.
    void Perform(bool here = false) BRAID_RELEASE();

    const int64_t now_ns;
    Work work;

   private:
    InstancePool& pool_;
    std::optional<RetryingAllocation> retrying_{std::in_place};  // set while the lock is held
  };

  // The outcome of a request.
  enum class Outcome : unsigned char {
    kGood,
    kFailed,
    kCancelled,  // the client cancelled before the request ran
  };
  // The work that follows once a request has ended and its client was notified.
  struct NextInSequence {
    // Null: none. Shared, because the request that ends may hold the last reference to the model.
    std::shared_ptr<InstancePool> pool;
    uint64_t sequence = 0;
    std::vector<std::unique_ptr<InferenceRequest>> refused;
  };

  // `timers`, `log` and the objects in the options outlive the pool.
  InstancePool(ServableInfo info, std::unique_ptr<BackendModel> backend, Timers& timers, Logger& log,
               const Options& options);
  // REQUIRES: stopped, or never started. Each policy's destructor calls StopIfStarted() first, while its
  // overrides still exist.
  ~InstancePool() override;
  void StopIfStarted() BRAID_EXCLUDES(mutex_) {
    if (started_) Stop(timers_.NowNs());
  }

  // --- Decisions of a policy -----------------------------------------------------------------------

  // Hands over executions that can run now by HandOverLocked(), and ends requests that must not wait longer.
  // Returns when to decide again if there is no event before.
  virtual int64_t RunLocked(int64_t now_ns, Work& work) BRAID_REQUIRES(mutex_) = 0;
  // The number of requests that wait for an instance, and of those that wait for another reason.
  virtual size_t QueuedLocked() const BRAID_REQUIRES(mutex_) = 0;
  virtual size_t HeldLocked() const BRAID_REQUIRES(mutex_) { return 0; }
  // Ends the requests that wait for an instance (kOutage), or all that wait (kStopping).
  virtual void EndWaitingLocked(EndReason why, int64_t now_ns, Endings& endings) BRAID_REQUIRES(mutex_) = 0;
  // The client of a waiting request has cancelled. Ends the request, and those that cannot run without it.
  virtual void CancelLocked(InferenceRequest& request, int64_t now_ns, Endings& endings)
      BRAID_REQUIRES(mutex_) = 0;
  // Takes back executions that have not begun, in the order in which they were handed over.
  virtual void TakeBackLocked(std::deque<std::unique_ptr<Execution>> executions, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_) = 0;
  // The instances have started, and no request has come yet. Called without the lock.
  virtual void OnStarted(const BackendModel& /*backend*/) {}
  // The instance has returned from its oldest execution.
  virtual void OnReturnedLocked(Slot& /*slot*/, int64_t /*now_ns*/, Work& /*work*/) BRAID_REQUIRES(mutex_) {}
  // The instance has died or is back; the executions that it had belong to its previous life. `changed` is
  // false if a death is reported twice.
  virtual void OnNewLifeLocked(Slot& /*slot*/, bool /*changed*/, int64_t /*now_ns*/, Work& /*work*/)
      BRAID_REQUIRES(mutex_) {}
  // The model will stop once its last requests have ended. Ends the held requests now.
  virtual void BeginStopLocked(Work& work) BRAID_REQUIRES(mutex_);
  // The state that the model's previous run left is known. Takes in the requests that were held until then.
  virtual void ReleaseLocked(int64_t /*now_ns*/, Work& /*work*/) BRAID_REQUIRES(mutex_) {}

  // The following are called without the lock.
  //
  // Adds to a request of the warm-up the inputs that do not come from clients.
  virtual void PrepareWarmup(InferenceRequest& /*request*/) const {}
  // Prepares an execution just before an instance gets it.
  virtual void Prepare(Execution& /*execution*/) {}
  // Processes a response before it is counted and delivered. May change it, also into an error. Returns false
  // if the response is not delivered because there is no client.
  virtual bool TakeResponse(Instance& /*instance*/, InferenceRequest& /*request*/,
                            std::optional<InferenceResponse>& /*response*/, bool /*final*/) {
    return true;
  }
  // User code has released a request before its end. Fails it, unless the model can schedule it again.
  virtual void Reschedule(Instance& instance, std::unique_ptr<InferenceRequest> request);
  // The request is about to end; its client does not see that yet. Follow() is called afterwards if the
  // result has a pool.
  virtual NextInSequence OnEnd(InferenceRequest& /*request*/, Outcome /*outcome*/) { return {}; }
  virtual void Follow(NextInSequence /*followers*/, Work& /*work*/) {}
  // Returns the error of an ending whose status is not set.
  virtual Status StatusOf(const Ending& ending) const;
  // The metadata that requests are checked by: info(), and outputs that are not in the metadata for clients.
  virtual const ServableInfo& full_info() const { return info_; }

  // --- Services for policies -----------------------------------------------------------------------

  // Ends the request at once when its client cancels while it waits (scheduling.queued). A request that was
  // cancelled earlier must be checked when it is about to wait. Called before the lock is taken.
  void Listen(InferenceRequest& request);
  // Allows requests to be held from now on. ReleaseLocked() is called at `deadline_ns`, unless they were
  // released before.
  void Hold(int64_t deadline_ns) BRAID_EXCLUDES(mutex_);
  // The names of the instances, by slot.
  std::vector<std::string> InstanceNames() const BRAID_EXCLUDES(mutex_);
  // Returns null for a passive instance, which is never scheduled.
  Slot* SlotOf(const Instance& instance) BRAID_REQUIRES(mutex_);
  // Calls RunLocked(), ends requests after an outage, and arms the timer for the next decision.
  void ScheduleLocked(int64_t now_ns, Work& work) BRAID_REQUIRES(mutex_);
  void HandOverLocked(Slot& slot, std::unique_ptr<Execution> execution, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_);
  // Carries out decisions, for a change that could not do so at its end.
  void Perform(Work work, bool here) BRAID_EXCLUDES(mutex_);
  // Returns whether a waiting request must be registered in the call graph.
  bool Awaited(const InferenceRequest& request) const {
    return call_graph_ != nullptr && CallGraph::Concerns(request.call_chain.get());
  }
  // Registers a request in the call graph while the ticket exists. `only`: it waits for this instance.
  // Errors: it would wait for ever. REQUIRES: Awaited().
  Result<CallGraph::Ticket> WaitInCallGraph(const InferenceRequest& request, const Instance* only = nullptr) {
    return call_graph_->Wait(call_instances_, request.call_chain, only);
  }

  // A request whose instances die this often may be the cause, or the model dies on any request. It is not
  // retried for ever.
  static constexpr int kMostReturns = 3;

  // Constant.
  Timers& timers_;
  Logger& log_;
  const Options options_;

  // Lock order: after a request's Cancellation; before the locks of the timers, the call graph, the rate
  // limiter and the policies' parts.
  mutable Mutex mutex_;
  std::deque<Slot> slots_ BRAID_GUARDED_BY(mutex_);  // the number of slots is constant
  int64_t execute_ns_ BRAID_GUARDED_BY(mutex_) = 0;  // UpdateExecuteTime()
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  HeldRequests held_ BRAID_GUARDED_BY(mutex_);

 private:
  void OnExecuted(Instance& instance, int64_t rows, size_t request_count,
                  const ExecutionTimes& times) override;
  void OnResponse(Instance& instance, InferenceRequest& request, std::optional<InferenceResponse> response,
                  bool final, const ExecutionTimes& times) override;
  void OnRescheduled(Instance& instance, std::unique_ptr<InferenceRequest> request) override;
  void OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) override;
  void OnAvailability(Instance& instance, bool available) override;
  void OnCancelled(InferenceRequest& request);
  void OnTimer();
  // The rate limiter has set resources for this slot aside.
  void OnChance(Slot& slot);

  Status LimitRate(RateLimiter& limiter);
  Status WarmUp(const std::function<void(const std::string&)>& progress);
  void SetAvailableLocked(Slot& slot, bool available, int64_t now_ns, Work& work) BRAID_REQUIRES(mutex_);
  void ArmLocked(int64_t deadline_ns) BRAID_REQUIRES(mutex_);
  // Whether a slot has a sender, which notifies sent_ when it ends.
  bool SendingLocked() BRAID_REQUIRES(mutex_);

  void Send(Slot& slot, std::unique_ptr<Execution> execution, bool here) BRAID_EXCLUDES(mutex_);
  // Fails the requests of an execution that could not be prepared for its instance.
  void FailUnsent(Instance& instance, Execution& execution, const Status& status) BRAID_EXCLUDES(mutex_);
  // Ends a request; consequences are added to `next`.
  void End(Ending ending, Work& next) BRAID_EXCLUDES(mutex_);

  const ResponseDelivery delivery_;
  CallGraph* const call_graph_;
  const std::shared_ptr<CallGraph::Instances> call_instances_;  // shared with the requests that wait for them

  CondVar sent_;                                      // notified when a slot's last sender ends
  size_t available_ BRAID_GUARDED_BY(mutex_) = 0;     // the number of available slots
  int64_t outage_since_ns_ BRAID_GUARDED_BY(mutex_);  // valid while available_ is 0
  // Requests that left the queue because they were cancelled; the timers' thread ends them.
  Endings cancelled_ BRAID_GUARDED_BY(mutex_);
  TimerId timer_ BRAID_GUARDED_BY(mutex_);
  int64_t timer_deadline_ns_ BRAID_GUARDED_BY(mutex_) = kNeverNs;

  // Set during the warm-up: there are no requests yet, and all results belong to the warm-up.
  std::atomic<bool> warming_{false};
  bool started_ = false;  // used only by Start() and Stop()
  const std::unique_ptr<BackendModel> backend_;
};

}  // namespace braid
