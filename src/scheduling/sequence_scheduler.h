// SequenceScheduler: what stands behind SequenceModel. It applies what SequenceTable and the batchers decide:
// requests come in and wait (sequence_scheduler.cc), and instances say what has become of them
// (sequence_events.cc).
#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "scheduling/batcher.h"
#include "scheduling/call_graph.h"
#include "scheduling/held_requests.h"
#include "scheduling/response_delivery.h"
#include "scheduling/response_order.h"
#include "scheduling/sequence_model.h"
#include "scheduling/sequence_policy.h"
#include "scheduling/sequence_store.h"
#include "scheduling/sequence_table.h"
#include "scheduling/slot_batch.h"
#include "scheduling/turn_inputs.h"
#include "scheduling/warmup_listener.h"

namespace braid {

// How a sequence is named in texts.
std::string IdText(const CorrelationId& id);

class SequenceScheduler final : public SequenceModel,
                                private ExecutionListener,
                                private SequenceKeeper,
                                public std::enable_shared_from_this<SequenceScheduler> {
 public:
  SequenceScheduler(ServableInfo info, std::unique_ptr<BackendModel> backend, SequencePolicy policy,
                    Timers& timers, Logger& log, const Options& options);
  ~SequenceScheduler() override {
    if (started_) Stop(timers_.NowNs());
  }

  // Starts the instances and warms them up.
  Status StartInstances(const std::function<void(const std::string&)>& progress);

  BufferAllocator& input_allocator() override { return backend_->input_allocator(); }
  void Infer(std::unique_ptr<InferenceRequest> request) override;
  Readiness readiness() const override { return backend_->readiness(); }
  void CheckReadiness(std::function<void(Readiness)> done) override {
    backend_->CheckReadiness(std::move(done));
  }
  int64_t pending_requests() const override {
    std::lock_guard lock(mutex_);
    return static_cast<int64_t>(table_->queued() + held_.size());
  }
  size_t sequence_count() const override {
    std::lock_guard lock(mutex_);
    return table_->size();
  }
  SequenceKeeper* sequences() override { return this; }
  void Stop(int64_t deadline_ns) override;

 private:
  // When the next request of a sequence may run.
  enum class TurnEnd : unsigned char {
    kReturned,   // user code has returned from the one before
    kDelivered,  // and what it returned has arrived: the state is in it
    kAnswered,   // the one before has been answered for good, or been put back
  };
  // Why a request ends without having run.
  enum class Why : unsigned char {
    kRefused,  // with a status of its own
    kCancelled,
    kIdle,
    kLost,
    kOutage,
    kReturned,
    kStopping,
  };

  struct Turn {
    uint64_t sequence;
    uint32_t number;
  };
  using Turns = std::vector<Turn>;

  // An instance and what the scheduler knows of it.
  struct Lane {
    Lane(Instance* instance, size_t index) : instance(instance), index(index) {}

    Instance* const instance;
    const size_t index;
    // Guarded by mutex_.
    bool available = true;
    std::deque<Turns> inside;  // of each execution that is handed over and has not returned
    // Between OnExecuted and OnDelivered, when turns end by what comes in between; nothing is handed out
    // then, or sequences that could share a batch would run one by one.
    bool delivering = false;
    Turns returned;        // those of the execution that is delivered
    int64_t since_ns = 0;  // when the execution that runs now began, as far as can be told
    uint32_t life = 0;     // counts the changes of `available`
    bool sending = false;  // a thread calls Execute() without mutex_; others leave executions in the outbox
    std::deque<std::unique_ptr<Execution>> outbox;
  };

  struct Dispatch {
    Lane* lane;
    std::unique_ptr<Execution> execution;
  };
  struct Ending {
    std::unique_ptr<InferenceRequest> request;
    Why why;
    Status status = {};  // set for kRefused and kLost
  };
  // What was decided under mutex_ and is done without it.
  struct Work {
    boost::container::small_vector<Dispatch, 2> dispatches;
    std::vector<Ending> endings;
    SequenceTable::Drops drops;
  };

  SequenceCounts counts() const override { return store_.counts(); }
  // The table watches the time of each sequence itself.
  void CleanUp() override {}
  void Drop(const CorrelationId& id) override;
  // A request's states are settled after its client has its answer, too late for who takes back.
  TakeBackSteps Mark(const CorrelationId&) override { return nullptr; }
  bool savable() const override { return store_.savable(); }
  const std::string& identity() const override { return store_.identity(); }
  uint64_t changes() const override { return store_.changes(); }
  std::vector<SavedSequence> Save() const override { return store_.Save(); }
  void HoldUntilRestored(int64_t deadline_ns) override;
  size_t Restore(std::vector<SavedSequence> saved) override;
  void BeginDrain() override;

  void OnExecuted(Instance& instance, int64_t rows, size_t request_count,
                  const ExecutionTimes& times) override;
  void OnDelivered(Instance& instance) override;
  void OnResponse(Instance& instance, InferenceRequest& request, std::optional<InferenceResponse> response,
                  bool final, const ExecutionTimes& times) override;
  void OnRescheduled(Instance& instance, std::unique_ptr<InferenceRequest> request) override;
  void OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) override;
  void OnAvailability(Instance& instance, bool available) override;
  void OnTimer();

  // Null for a passive instance, which is never given anything.
  Lane* LaneOf(Instance& instance) {
    auto lane =
        std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) { return l.instance == &instance; });
    return lane == lanes_.end() ? nullptr : &*lane;
  }

  // Whether the request can be one of a sequence; sets what an iterative model's request needs.
  Status CheckSequence(InferenceRequest& request);
  // Takes a request in and lets it run, if it can.
  void EnterLocked(std::unique_ptr<InferenceRequest> request, Buffer id_bytes, int64_t now_ns, Work& work);
  void AdmitLocked(std::unique_ptr<InferenceRequest> request, Buffer id_bytes, int64_t now_ns, Work& work);
  void HoldLocked(std::unique_ptr<InferenceRequest> request, Work& work);
  // No request waits for sequences of an earlier life any more.
  void ReleaseLocked(int64_t now_ns, Work& work);
  void OnHeldTooLong();
  // Lets the call graph know of a request that has to wait; ends its sequence when it would wait for ever.
  void EnterCallGraphLocked(InferenceRequest& request, int64_t now_ns, Work& work);
  // From here on the request leaves the queue at once when its client goes.
  void Listen(InferenceRequest& request);
  void OnCancelled(InferenceRequest& request);

  // Hands out what can run, and ends what must not wait any longer.
  void ScheduleLocked(int64_t now_ns, Work& work);
  // Gives slots to what waits for them; returns when to look again.
  int64_t AssignLocked(int64_t now_ns);
  // Hands out what can run on one instance; returns when to look again.
  int64_t ScheduleLaneLocked(Lane& lane, int64_t now_ns, Work& work);
  BatchDecision DecideSlotsLocked(const std::vector<Sequence*>& seats, int64_t now_ns);
  BatchDecision DecideOldestLocked(const std::vector<Sequence*>& seats, int64_t now_ns);
  bool HasRoomLocked(const Lane& lane, int64_t now_ns) const;
  void HandOverLocked(Lane& lane, int64_t now_ns, Work& work);
  void SetAvailableLocked(Lane& lane, bool available, int64_t now_ns, Work& work);
  void TakeBackLocked(std::deque<std::unique_ptr<Execution>> executions, int64_t now_ns, Work& work);
  void ArmLocked(int64_t deadline_ns);

  void Perform(Work& work);
  void Send(Lane& lane, std::unique_ptr<Execution> execution);
  void End(Ending ending);
  static TurnEnd TurnEndOf(const ServableInfo& info, const SequencePolicy& policy, const TurnInputs& inputs);
  Status LostError(const CorrelationId& id, size_t instance) const;
  Status NeedsStartError(const CorrelationId& id) const;
  static SequenceStore::Options StoreOptions(const ServableInfo& info, const SequencePolicy& policy,
                                             const TurnInputs& inputs);
  Status StatusOf(Why why, const InferenceRequest& request) const;

  // Constant.
  const SequencePolicy policy_;
  Timers& timers_;
  Logger& log_;
  const TurnInputs inputs_;
  const TurnEnd turn_end_;
  const ResponseDelivery delivery_;
  const std::shared_ptr<ResponseOrder> order_;  // null unless preserve_ordering; shared with its responses
  CallGraph& call_graph_;
  const std::shared_ptr<CallGraph::Place> place_;  // shared with the waiting requests in the call graph
  const size_t max_queue_size_;
  const int64_t outage_wait_ns_;
  std::atomic<uint64_t> next_generated_id_;

  SequenceStore store_;  // provides its own synchronisation

  // Taken after a request's Cancellation and before the locks of the timers, of order_ and of store_; not
  // held across a call to an instance, the backend, a sink or a Cancellation.
  mutable std::mutex mutex_;
  std::condition_variable sent_;  // told when a lane stops sending, once stopping_ is set
  // All guarded by mutex_.
  std::deque<Lane> lanes_;  // never changes; a lane's members do
  std::unique_ptr<SequenceTable> table_;
  HeldRequests held_;
  size_t available_ = 0;  // how many lanes are
  int64_t outage_since_ns_;
  int64_t execute_ns_ = 0;          // UpdateExecuteTime()
  SequenceTable::Drops cancelled_;  // left the table; the timers' thread ends them
  std::vector<SlotView> views_;     // scratch
  std::vector<WaitingRequest> waiting_;
  std::vector<Sequence*> chosen_;  // by slot; null is one that is padded
  TimerId timer_;
  int64_t timer_deadline_ns_ = kNeverNs;
  bool draining_ = false;
  bool stopping_ = false;

  WarmupListener warmup_{*this};
  bool started_ = false;  // by Start() and Stop() alone
  // The last member: its instances call back until it has stopped.
  std::unique_ptr<BackendModel> backend_;
};

}  // namespace braid
