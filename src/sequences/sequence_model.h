// SequenceModel: the policy of a model with `sequence_batching`. The requests of a sequence run in their
// order, one at a time, on one instance, which keeps a slot for the sequence until it ends, or until another
// one needs it in a drain.
//
// The rules of sequences are SequenceTable's; when requests go together is decided by DecideSlots() (direct)
// and DecideBatch() (oldest).
//
// An instance that dies takes its sequences along: the requests in it fail with the cause, those that wait
// and later ones with UNAVAILABLE and a text that says so. A sequence of which no request had begun starts on
// another instance instead.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "scheduling/instance_pool.h"
#include "scheduling/response_order.h"
#include "sequences/sequence_policy.h"
#include "sequences/sequence_store.h"
#include "sequences/sequence_table.h"
#include "sequences/slot_batch.h"
#include "sequences/store_link.h"
#include "sequences/turn_inputs.h"

namespace braid {

class SequenceModel final : public InstancePool, private LinkedSequences {
 public:
  SequenceModel(ServableInfo info, std::unique_ptr<BackendModel> backend, SequencePolicy policy,
                Timers& timers, Logger& log, const Options& options);
  ~SequenceModel() override { StopIfStarted(); }

  void Infer(std::unique_ptr<InferenceRequest> request) override;
  SequenceKeeper* sequences() override;
  void Stop(int64_t deadline_ns) override;
  int64_t pending_requests() const override;

 private:
  // Requests that were checked, and have passed the link, if there is one.
  void Run(std::unique_ptr<InferenceRequest> request) override;
  std::optional<SequenceStore::Held> Look(const CorrelationId& id, bool touch) override;
  void SetLease(const CorrelationId& id, const OwnershipLease& lease) override;
  void PutBack(const CorrelationId& id, const SequenceStore::Held& held) override;
  std::weak_ptr<Servable> Weak() override { return weak_from_this(); }

  // When the next request of a sequence may run.
  enum class TurnEnd : unsigned char {
    kReturned,   // user code has returned from the one before
    kDelivered,  // and what it returned has arrived: the state is in it
    kAnswered,   // the one before has been answered for good, or been put back
  };
  struct Turn {
    uint64_t sequence;
    uint32_t number;
  };
  using Turns = std::vector<Turn>;
  // What an instance has inside, beside what the pool knows.
  struct Lane {
    std::deque<Turns> inside;  // of each execution that is handed over and has not returned
    // Between OnExecuted and OnDelivered, when turns end by what comes in between; nothing is handed out
    // then, or sequences that could share a batch would run one by one.
    bool delivering = false;
    Turns returned;  // those of the execution that is delivered
  };

  SequenceCounts counts() const override { return store_.counts(); }
  std::vector<SequenceReport> List(size_t most) const override;
  // The table watches the time of each sequence itself.
  void CleanUp() override {}
  void Drop(const CorrelationId& id) override;
  // A request's states are settled after its client has its answer, too late for who takes back.
  TakeBackSteps Mark(const CorrelationId&) override { return nullptr; }
  bool savable() const override { return store_.savable(); }
  const std::string& identity() const override { return store_.identity(); }
  uint64_t changes() const override { return store_.changes(); }
  std::vector<SavedSequence> Save() const override { return store_.Save(); }
  void HoldUntilRestored(int64_t deadline_ns) override { Hold(deadline_ns); }
  size_t Restore(std::vector<SavedSequence> saved) override;
  void BeginDrain() override;

  int64_t RunLocked(int64_t now_ns, Work& work) override BRAID_REQUIRES(mutex_);
  size_t QueuedLocked() const override BRAID_REQUIRES(mutex_) { return table_.queued(); }
  size_t HeldLocked() const override BRAID_REQUIRES(mutex_) { return held_.size(); }
  void EndWaitingLocked(EndReason why, int64_t now_ns, Endings& endings) override BRAID_REQUIRES(mutex_);
  void CancelLocked(InferenceRequest& request, int64_t now_ns, Endings& endings) override
      BRAID_REQUIRES(mutex_);
  void TakeBackLocked(std::deque<std::unique_ptr<Execution>> executions, int64_t now_ns, Work& work) override
      BRAID_REQUIRES(mutex_);
  void OnReturnedLocked(Slot& slot, int64_t now_ns, Work& work) override BRAID_REQUIRES(mutex_);
  void OnNewLifeLocked(Slot& slot, bool changed, int64_t now_ns, Work& work) override BRAID_REQUIRES(mutex_);
  void PrepareWarmup(InferenceRequest& request) const override { inputs_.AddLone(request); }
  void Prepare(Execution& execution) override { inputs_.Complete(execution, input_allocator()); }
  bool TakeResponse(Instance& instance, InferenceRequest& request, std::optional<InferenceResponse>& response,
                    bool final) override;
  void Reschedule(Instance& instance, std::unique_ptr<InferenceRequest> request) override;
  Status StatusOf(const Ending& ending) const override;
  void OnStarted(const BackendModel& backend) override;
  void OnDelivered(Instance& instance) override;
  size_t OnReplacing(Instance& instance, bool last_call) override;
  void OnReplaced(Instance& instance) override;

  // Whether the request can be one of a sequence; sets what an iterative model's request needs.
  Status CheckSequence(InferenceRequest& request);
  // A request that was checked.
  void Enter(std::unique_ptr<InferenceRequest> request, Buffer id_bytes);
  // Takes a request in and lets it run, if it can.
  void EnterLocked(std::unique_ptr<InferenceRequest> request, Buffer id_bytes, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_);
  void AdmitLocked(std::unique_ptr<InferenceRequest> request, Buffer id_bytes, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_);
  // Lets the call graph know of a request that has to wait; ends its sequence when it would wait for ever.
  void EnterCallGraphLocked(InferenceRequest& request, int64_t now_ns, Work& work) BRAID_REQUIRES(mutex_);
  void HoldLocked(std::unique_ptr<InferenceRequest> request, Work& work) BRAID_REQUIRES(mutex_);
  void ReleaseLocked(int64_t now_ns, Work& work) override BRAID_REQUIRES(mutex_);

  // Gives slots to what waits for them; returns when to look again.
  int64_t AssignLocked(int64_t now_ns) BRAID_REQUIRES(mutex_);
  // Hands out what can run on one instance; returns when to look again.
  int64_t RunLaneLocked(Slot& slot, int64_t now_ns, Work& work) BRAID_REQUIRES(mutex_);
  BatchDecision DecideSlotsLocked(const std::vector<Sequence*>& seats, int64_t now_ns) BRAID_REQUIRES(mutex_);
  BatchDecision DecideOldestLocked(const std::vector<Sequence*>& seats, int64_t now_ns)
      BRAID_REQUIRES(mutex_);
  bool HasRoomLocked(const Slot& slot, int64_t now_ns) const BRAID_REQUIRES(mutex_);
  void BeginTurnsLocked(Slot& slot, int64_t now_ns, Work& work) BRAID_REQUIRES(mutex_);

  static TurnEnd TurnEndOf(const ServableInfo& info, const SequencePolicy& policy, const TurnInputs& inputs);
  static SequenceStore::Options StoreOptions(const ServableInfo& info, const SequencePolicy& policy,
                                             const TurnInputs& inputs);
  Status LostError(const CorrelationId& id, size_t instance) const;
  Status NeedsStartError(const CorrelationId& id) const;

  // Constant, those that are not const from OnStarted() on.
  const SequencePolicy policy_;
  TurnInputs inputs_;
  TurnEnd turn_end_;
  const std::vector<std::string> instance_names_;  // by slot
  // Null unless preserve_ordering; shared with the responses on their way.
  const std::shared_ptr<ResponseOrder> order_;
  std::atomic<uint64_t> next_generated_id_;

  SequenceStore store_;  // provides its own synchronisation
  SequenceTable table_ BRAID_GUARDED_BY(mutex_);
  std::vector<Lane> lanes_ BRAID_GUARDED_BY(mutex_);  // by slot
  bool draining_ BRAID_GUARDED_BY(mutex_) = false;
  // Scratch.
  std::vector<SlotView> views_ BRAID_GUARDED_BY(mutex_);
  std::vector<WaitingRequest> waiting_ BRAID_GUARDED_BY(mutex_);
  std::vector<Sequence*> chosen_ BRAID_GUARDED_BY(mutex_);  // by slot; null is one that is padded

  // Null where no replicas share the sequences; constant from OnStarted() on.
  std::unique_ptr<StoreLink> link_;
};

}  // namespace braid
