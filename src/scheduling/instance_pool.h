// InstancePool: the instances of one loaded model, and the requests that wait for them. It knows what each
// instance is doing, what has been handed to it, which instances live and which are being restarted; it takes
// back what a dying instance has not begun, waits while none lives, watches clients and deadlines, and stops.
//
// What runs next, and where, is decided by a policy, which is a class derived from this one:
//   BatchedModel    one queue, with or without dynamic batching
//   SequenceModel   `sequence_batching` of Triton
//   StatefulModel   stateful models of OpenVINO Model Server, in front of such a queue
//
// Locking. One mutex guards the books of the pool and of its policy. It is held while something is decided,
// and not across a call to an instance, the backend, a sink or a Cancellation: what was decided is noted in a
// Work and done afterwards. All sections that change the books are a Change:
//
//   Change change(*this);
//   queue_.Push(request, change.now_ns);
//   change.Finish();             // decides what runs, gives the lock back, hands over and answers
//
// Threads. A request goes to an idle instance on the thread that brought it, or waits until the thread that
// hears of an ended execution takes it out. The pool has no thread of its own; only time-outs, queue delays
// and the ends of cancelled requests come from the timers' thread.
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
    // Requests that may wait for this model, beside what the queue policies of its configuration say. The
    // default is more than a sensible client ever sends at once, and less than what would exhaust the memory.
    size_t max_queue_size = 65536;
    // How long requests wait while no instance lives. A restart takes a fraction of a second; one that takes
    // longer than this is, to a client, an outage, and more requests would only pile up: from then on they
    // fail, and so does what comes later, at once, until an instance lives again.
    int64_t outage_wait_ns = 5'000'000'000;
    // Finds requests of other models that would wait for ever; null: they wait. Outlives the model.
    CallGraph* call_graph = nullptr;
    // Decodes the images of requests; null where none can come. Outlives the model.
    ImageDecoder* images = nullptr;
    // Where replicas share sequences; null: they live here alone. Outlives the model.
    StateStore* state_store = nullptr;
    // Null: none, whatever the configuration says. Outlives the model.
    ResponseCache* cache = nullptr;
    // Null: instances run whatever resources they ask for. Outlives the model.
    RateLimiter* limiter = nullptr;
  };

  // Starts the instances, waits for them and warms them up. Called once, before anything else. Errors: what
  // kept an instance from starting, or a sample from running; nothing is left running then.
  Status Start(const std::function<void(const std::string&)>& progress) BRAID_EXCLUDES(mutex_);

  BufferAllocator& input_allocator() override { return backend_->input_allocator(); }
  Readiness readiness() const override { return backend_->readiness(); }
  void CheckReadiness(std::function<void(Readiness)> done) override {
    backend_->CheckReadiness(std::move(done));
  }
  std::vector<InstanceReport> instances() const override;
  int64_t pending_requests() const override BRAID_EXCLUDES(mutex_);
  void Stop(int64_t deadline_ns) override BRAID_EXCLUDES(mutex_);

 protected:
  // An instance that can be given executions, and what the pool knows of it. Guarded by mutex_ but for what
  // is constant.
  struct Slot {
    Slot(Instance* instance, size_t index) : instance(instance), index(index) {}

    Instance* const instance;
    const size_t index;
    // What it runs with; null when that is not limited. Constant once the model has started.
    std::unique_ptr<RateLimiter::Ticket> ticket;

    bool available = true;
    int inside = 0;        // executions which are handed over, or are about to be, and have not returned
    int64_t since_ns = 0;  // when the execution that runs now began, as far as can be told
    uint32_t life = 0;     // counts the changes of `available`
    int warmups = 0;       // executions of the warm-up that have not returned
    // Execute() takes one call at a time and is called without mutex_. The slot's sender, a thread, makes the
    // calls; others leave their executions in the outbox for it. So the order is that in which executions were
    // decided. A thread becomes the sender with mutex_ held; with kOne it ends without.
    enum class Sender : unsigned char {
      kNone,
      kOne,
      kMore,  // it takes mutex_ after its call, for the outbox or as the model stops
    };
    std::atomic<Sender> sender{Sender::kNone};
    std::deque<std::unique_ptr<Execution>> outbox;
    // Executions handed over in this life, and ended. For those which were handed over ahead and hold
    // requests that others wait for: what tells the call graph that they have not begun.
    uint64_t handed = 0;
    uint64_t ended = 0;
    std::deque<std::pair<uint64_t, CallGraph::Ticket>> ahead;
    bool waits_for_resources = false;
  };

  // What was decided under mutex_ and is done without it.
  struct Work {
    struct Dispatch {
      Slot* slot;
      std::unique_ptr<Execution> execution;
    };
    boost::container::small_vector<Dispatch, 2> dispatches;
    Endings endings;
    bool empty() const { return dispatches.empty() && endings.empty(); }
  };

  // A section that changes the books: holds mutex_, and waits for memory where there is none (base/guard.h).
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

    // Decides what can run now, gives the lock back and performs. `here`: this thread may run executions
    // itself. The pool lives until this returns.
    void Finish(bool here = false) BRAID_RELEASE();
    // The same without a new decision.
    void Perform(bool here = false) BRAID_RELEASE();

    const int64_t now_ns;
    Work work;

   private:
    InstancePool& pool_;
    std::optional<RetryingAllocation> retrying_{std::in_place};  // set as long as the lock is held
  };

  // How a request has ended.
  enum class Outcome : unsigned char {
    kGood,
    kFailed,
    kCancelled,  // the client has gone before the request ran
  };
  // What is left to do when a request has ended and its client has heard of it.
  struct NextInSequence {
    // Null: nothing. Shared, as the request that ends may be the last that kept the model.
    std::shared_ptr<InstancePool> pool;
    uint64_t sequence = 0;
    std::vector<std::unique_ptr<InferenceRequest>> refused;
  };

  // `timers`, `log` and what the options name outlive the pool.
  InstancePool(ServableInfo info, std::unique_ptr<BackendModel> backend, Timers& timers, Logger& log,
               const Options& options);
  // REQUIRES: stopped, or never started. Each policy's destructor calls StopIfStarted() first, while there is
  // a policy.
  ~InstancePool() override;
  void StopIfStarted() BRAID_EXCLUDES(mutex_) {
    if (started_) Stop(timers_.NowNs());
  }

  // --- What a policy decides -----------------------------------------------------------------------

  // Hands over what can run by HandOverLocked(), and ends what must not wait any longer. Returns when to look
  // again if nothing happens before.
  virtual int64_t RunLocked(int64_t now_ns, Work& work) BRAID_REQUIRES(mutex_) = 0;
  // How many requests wait for an instance; and how many for something else.
  virtual size_t QueuedLocked() const BRAID_REQUIRES(mutex_) = 0;
  virtual size_t HeldLocked() const BRAID_REQUIRES(mutex_) { return 0; }
  // Ends what waits for an instance (kOutage), or all that waits (kStopping).
  virtual void EndWaitingLocked(EndReason why, int64_t now_ns, Endings& endings) BRAID_REQUIRES(mutex_) = 0;
  // The client of a request that waits has gone: it ends, with those which cannot go on without it.
  virtual void CancelLocked(InferenceRequest& request, int64_t now_ns, Endings& endings)
      BRAID_REQUIRES(mutex_) = 0;
  // Executions that have not begun come back, in the order in which they were handed over.
  virtual void TakeBackLocked(std::deque<std::unique_ptr<Execution>> executions, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_) = 0;
  // The instances are up, and no request has come yet. Without the lock.
  virtual void OnStarted(const BackendModel& /*backend*/) {}
  // The instance has returned from its oldest execution.
  virtual void OnReturnedLocked(Slot& /*slot*/, int64_t /*now_ns*/, Work& /*work*/) BRAID_REQUIRES(mutex_) {}
  // The instance has died or is back: what it had inside belongs to an earlier life. `changed`:
  // slot.available was the opposite before; a death that is told twice is one.
  virtual void OnNewLifeLocked(Slot& /*slot*/, bool /*changed*/, int64_t /*now_ns*/, Work& /*work*/)
      BRAID_REQUIRES(mutex_) {}
  // The model is about to stop, once its last requests have ended: those that are held end now.
  virtual void BeginStopLocked(Work& work) BRAID_REQUIRES(mutex_);
  // What an earlier life of the model has left is known: takes in the requests that were held until then.
  virtual void ReleaseLocked(int64_t /*now_ns*/, Work& /*work*/) BRAID_REQUIRES(mutex_) {}

  // Without the lock:
  // What a request of the warm-up needs beside the client's inputs.
  virtual void PrepareWarmup(InferenceRequest& /*request*/) const {}
  // The last look at an execution before an instance gets it.
  virtual void Prepare(Execution& /*execution*/) {}
  // A response before it is counted and delivered, which may be changed, into an error too. False when there
  // is no client.
  virtual bool TakeResponse(Instance& /*instance*/, InferenceRequest& /*request*/,
                            std::optional<InferenceResponse>& /*response*/, bool /*final*/) {
    return true;
  }
  // User code has let go of a request without its end. It fails, unless the model can go on with it.
  virtual void Reschedule(Instance& instance, std::unique_ptr<InferenceRequest> request);
  // The request is about to end, as its client cannot see yet; Follow() is called afterwards, unless that is
  // nothing.
  virtual NextInSequence OnEnd(InferenceRequest& /*request*/, Outcome /*outcome*/) { return {}; }
  virtual void Follow(NextInSequence /*followers*/, Work& /*work*/) {}
  // The text of an ending that has none.
  virtual Status StatusOf(const Ending& ending) const;
  // What a request may ask for: info(), and outputs that are in no metadata.
  virtual const ServableInfo& full_info() const { return info_; }

  // --- What a policy decides by --------------------------------------------------------------------

  // From here on a request that waits (scheduling.queued) leaves at once when its client goes. One whose
  // client goes before it waits is to be looked at when it is about to. Before the lock is taken.
  void Listen(InferenceRequest& request);
  // Requests may be held from now on; ReleaseLocked() is called at `deadline_ns`, if they were not released
  // before.
  void Hold(int64_t deadline_ns) BRAID_EXCLUDES(mutex_);
  // The names of the instances, by slot.
  std::vector<std::string> InstanceNames() const BRAID_EXCLUDES(mutex_);
  // Null for a passive instance, which is never given anything.
  Slot* SlotOf(const Instance& instance) BRAID_REQUIRES(mutex_);
  // RunLocked(), with what has to be done while no instance lives, and the timer for the next look.
  void ScheduleLocked(int64_t now_ns, Work& work) BRAID_REQUIRES(mutex_);
  void HandOverLocked(Slot& slot, std::unique_ptr<Execution> execution, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_);
  // Does what was decided, for a change that could not end with it.
  void Perform(Work work, bool here) BRAID_EXCLUDES(mutex_);
  // Whether the call graph has to know of a request that waits.
  bool Awaited(const InferenceRequest& request) const {
    return call_graph_ != nullptr && CallGraph::Concerns(request.call_chain.get());
  }
  // Lets it know of a request, while the ticket exists; `only`: it waits for this instance. REQUIRES:
  // Awaited(). Errors: it would wait for ever.
  Result<CallGraph::Ticket> WaitInCallGraph(const InferenceRequest& request, const Instance* only = nullptr) {
    return call_graph_->Wait(call_instances_, request.call_chain, only);
  }

  // A request that dies with its instances this often may be what kills them, or the model dies whatever it
  // is given. It does not go round for ever.
  static constexpr int kMostReturns = 3;

  // Constant.
  Timers& timers_;
  Logger& log_;
  const Options options_;

  // Taken after a request's Cancellation and before the locks of the timers, the call graph, the rate limiter
  // and the policies' parts.
  mutable Mutex mutex_;
  std::deque<Slot> slots_ BRAID_GUARDED_BY(mutex_);  // as many as there are from the first
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
  // Resources for one slot have become free.
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
  // Ends a request; what follows from that is added to `next`.
  void End(Ending ending, Work& next) BRAID_EXCLUDES(mutex_);

  const ResponseDelivery delivery_;
  CallGraph* const call_graph_;
  const std::shared_ptr<CallGraph::Instances> call_instances_;  // shared with those that wait for them

  CondVar sent_;                                      // notified when a slot's last sender ends
  size_t available_ BRAID_GUARDED_BY(mutex_) = 0;     // how many slots are
  int64_t outage_since_ns_ BRAID_GUARDED_BY(mutex_);  // means something while available_ is 0
  // Requests that have left the queue since their clients have gone; the timers' thread ends them.
  Endings cancelled_ BRAID_GUARDED_BY(mutex_);
  TimerId timer_ BRAID_GUARDED_BY(mutex_);
  int64_t timer_deadline_ns_ BRAID_GUARDED_BY(mutex_) = kNeverNs;

  // Set while the instances are warmed up: there are no requests yet, and what comes back belongs to that.
  std::atomic<bool> warming_{false};
  bool started_ = false;  // by Start() and Stop() alone
  const std::unique_ptr<BackendModel> backend_;
};

}  // namespace braid
