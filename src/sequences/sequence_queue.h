// SequenceQueue: a per-key queue whose keys are sequences. The requests of a sequence run one after the
// other, in the order in which they have come, where several servables stand behind each other and one
// request could overtake another between them: in pipelines and ensembles over stateful models. Requests of
// different sequences run beside each other.
//
//   const auto entry = queue->Enter(runner, *request);    // when it comes
//   queue->Ready(**entry, std::move(request));            // when its images are decoded
//   // runner.BeginRun(request, entry), now or on the thread where the request before it has ended
//   queue->Leave(entry);                                  // when the client has its answer
//
// A request that waits ends at once when its client goes; an end keeps its entry then, and when its turn has
// come, ends the sequence. One that could never have its turn, since what runs before it waits for it, is
// refused (see CallGraph).
//
// A servable and the one that replaces it share one queue, so their requests keep their order, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/trampoline.h"
#include "scheduling/call_graph.h"
#include "scheduling/timer_service.h"
#include "sequences/per_key_queue.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// Any thread; nobody is called with its lock held.
class SequenceQueue : public std::enable_shared_from_this<SequenceQueue> {
 public:
  class Entry;

  // What runs requests. Lives as long as one of its requests.
  class Runner {
   public:
    virtual ~Runner() = default;
    // The request may run; Leave() follows, perhaps before this returns.
    virtual void BeginRun(std::unique_ptr<InferenceRequest> request, Entry& entry) = 0;

   private:
    friend class SequenceQueue;
    bool stopped_ = false;  // guarded by the queue's lock
  };

  class Entry final : public PerKeyEntry {
   private:
    friend class SequenceQueue;
    Runner* runner_ = nullptr;
    // The sequence as something that calls wait for; null where no user code can call.
    std::shared_ptr<CallGraph::Instances> calls_;  // shared with the calls, and other entries of the sequence
    // Where an end whose client has gone is to end the sequence.
    std::unique_ptr<ServableHandle> servable_;
  };

  // `timers` and `call_graph` outlive the queue; at most `max_waiting` requests wait in it.
  SequenceQueue(Timers& timers, CallGraph& call_graph, size_t max_waiting = 65536)
      : timers_(timers), call_graph_(call_graph), max_waiting_(max_waiting) {}

  // A request of `runner` has come, whose sequence has a number. Errors: UNAVAILABLE when too many wait.
  Result<Entry*> Enter(Runner& runner, const InferenceRequest& request);
  // It can run as soon as it is its turn.
  void Ready(Entry& entry, std::unique_ptr<InferenceRequest> request);
  // It cannot, and is to be refused by the caller, for this reason.
  void GiveUp(Entry& entry, const InferenceRequest& request, const Status& why);
  // The run is over, and its client has heard of it.
  void Leave(Entry& entry);

  // The chain that the calls of the request's run have; as it came when no user code can call.
  static std::shared_ptr<const CallChain> ChainOf(const Entry& entry, const InferenceRequest& request);

  // Refuses what waits for `runner`, now and from now on.
  void Stop(Runner& runner);
  // How many requests wait for it.
  size_t waiting(const Runner& runner) const;

 private:
  struct Ending {
    std::unique_ptr<InferenceRequest> request;
    FailureReason reason;
    Status status;
    bool refused = false;
  };
  using Runnable = PerKeyQueue::Runnable;
  // What was decided under mutex_ and is done without it.
  struct Work {
    Trampoline<Runnable>::Items runnable;
    std::vector<Ending> endings;
  };

  // Takes a request that waits out of the queue. Nothing becomes runnable when one behind others leaves.
  std::unique_ptr<InferenceRequest> WithdrawLocked(Entry& entry) BRAID_REQUIRES(mutex_);
  // The same when its client has gone: an end keeps its entry.
  std::unique_ptr<InferenceRequest> WithdrawCancelledLocked(Entry& entry) BRAID_REQUIRES(mutex_);
  // Lets the call graph know of a request that waits. Errors: it would wait for ever.
  Status EnterCallGraph(const Entry& entry, InferenceRequest& request) const;
  void OnCancelled(InferenceRequest& request);
  void EndCancelled();

  void Perform(Work work);
  void Begin(Runnable runnable);
  void End(Ending ending) const;
  static Ending Cancelled(std::unique_ptr<InferenceRequest> request);
  static Ending Stopped(std::unique_ptr<InferenceRequest> request);
  static Entry& EntryOf(PerKeyEntry& entry) { return static_cast<Entry&>(entry); }

  Timers& timers_;
  CallGraph& call_graph_;
  const size_t max_waiting_;

  // Taken after a request's Cancellation and before the locks of the timers and of the call graph.
  mutable Mutex mutex_;
  PerKeyQueue arrivals_ BRAID_GUARDED_BY(mutex_);
  // Waited; the timers' thread ends them.
  std::vector<std::unique_ptr<InferenceRequest>> cancelled_ BRAID_GUARDED_BY(mutex_);
  TimerId cancel_timer_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
