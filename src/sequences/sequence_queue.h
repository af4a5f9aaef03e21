// SequenceQueue: a per-key queue whose keys are sequences. Requests of one sequence run one after the other,
// in order of arrival, across several servables between which they could overtake each other. It is used in
// pipelines and ensembles over stateful models. Requests of different sequences run concurrently.
//
//   const auto entry = queue->Enter(runner, *request);    // on arrival
//   queue->Ready(**entry, std::move(request));            // when its images are decoded
//   // runner.BeginRun(request, entry), now or on the thread where the previous request has ended
//   queue->Leave(entry);                                  // when the client has its answer
//
// A waiting request ends at once when its client cancels. An end keeps its entry then, and ends the sequence
// when its turn comes. A request that could never run, because the request before it waits for it, is refused
// (see CallGraph).
//
// A servable and its replacement share one queue, so the order holds across a reload.
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

// Any thread. No callbacks are made with its lock held.
class SequenceQueue : public std::enable_shared_from_this<SequenceQueue> {
 public:
  class Entry;

  // Runs requests. It outlives its requests.
  class Runner {
   public:
    virtual ~Runner() = default;
    // Runs the request. Leave() follows, perhaps before this returns.
    virtual void BeginRun(std::unique_ptr<InferenceRequest> request, Entry& entry) = 0;

   private:
    friend class SequenceQueue;
    bool stopped_ = false;  // guarded by the queue's lock
  };

  class Entry final : public PerKeyEntry {
   private:
    friend class SequenceQueue;
    Runner* runner_ = nullptr;
    // The sequence as an object that calls wait for; null if no user code can call.
    std::shared_ptr<CallGraph::Instances> calls_;  // shared with the calls, and other entries of the sequence
    // The servable at which an end whose client has cancelled ends the sequence.
    std::unique_ptr<ServableHandle> servable_;
  };

  // `timers` and `call_graph` outlive the queue. At most `max_waiting` requests wait in it.
  SequenceQueue(Timers& timers, CallGraph& call_graph, size_t max_waiting = 65536)
      : timers_(timers), call_graph_(call_graph), max_waiting_(max_waiting) {}

  // Adds an entry for a request of `runner`, whose sequence has a number. Errors: UNAVAILABLE if too many
  // requests wait.
  Result<Entry*> Enter(Runner& runner, const InferenceRequest& request);
  // The request can run as soon as it is its turn.
  void Ready(Entry& entry, std::unique_ptr<InferenceRequest> request);
  // The request cannot run. The caller refuses it with this status.
  void GiveUp(Entry& entry, const InferenceRequest& request, const Status& why);
  // The run is over, and its client has the answer.
  void Leave(Entry& entry);

  // Returns the call chain for the run's calls; the request's own chain if no user code can call.
  static std::shared_ptr<const CallChain> ChainOf(const Entry& entry, const InferenceRequest& request);

  // Refuses the waiting and all later requests of `runner`.
  void Stop(Runner& runner);
  // The number of requests of `runner` that wait.
  size_t waiting(const Runner& runner) const;

 private:
  struct Ending {
    std::unique_ptr<InferenceRequest> request;
    FailureReason reason;
    Status status;
    bool refused = false;
  };
  using Runnable = PerKeyQueue::Runnable;
  // The decisions made under mutex_ that are carried out without it.
  struct Work {
    Trampoline<Runnable>::Items runnable;
    std::vector<Ending> endings;
  };

  // Removes a waiting request. Leaving from behind others makes no entry runnable.
  std::unique_ptr<InferenceRequest> WithdrawLocked(Entry& entry) BRAID_REQUIRES(mutex_);
  // The same for a request whose client has cancelled: an end keeps its entry.
  std::unique_ptr<InferenceRequest> WithdrawCancelledLocked(Entry& entry) BRAID_REQUIRES(mutex_);
  // Registers a waiting request in the call graph. Errors: it would wait for ever.
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

  // Lock order: after a request's Cancellation; before the locks of the timers and the call graph.
  mutable Mutex mutex_;
  PerKeyQueue arrivals_ BRAID_GUARDED_BY(mutex_);
  // Cancelled while waiting; the timers' thread ends them.
  std::vector<std::unique_ptr<InferenceRequest>> cancelled_ BRAID_GUARDED_BY(mutex_);
  TimerId cancel_timer_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
