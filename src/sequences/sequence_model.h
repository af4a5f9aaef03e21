// SequenceModel: the policy of a model with `sequence_batching`. The requests of a sequence run in order, one
// at a time, on one instance. The instance keeps a slot for the sequence until it ends, or until another
// sequence needs the slot in a drain.
//
// SequenceTable has the rules of sequences. DecideSlots() (direct) and DecideBatch() (oldest) decide when
// requests go together.
//
// An instance that dies takes its sequences along: the requests in it fail with the cause; waiting and later
// requests fail with UNAVAILABLE and a text that says so. A sequence of which no request had begun starts on
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
  // Runs requests that were checked, and have passed the link, if there is one.
  void Run(std::unique_ptr<InferenceRequest> request) override;
  std::optional<SequenceStore::Held> Look(const CorrelationId& id, bool touch) override;
  void SetLease(const CorrelationId& id, const OwnershipLease& lease) override;
  void PutBack(const CorrelationId& id, const SequenceStore::Held& held) override;
  std::weak_ptr<Servable> Weak() override { return weak_from_this(); }

  // The time from which the next request of a sequence may run.
  enum class TurnEnd : unsigned char {
    kReturned,   // user code has returned from the previous one
    kDelivered,  // its returned responses have arrived too; the state is in them
    kAnswered,   // the previous one has had its final response, or was rescheduled
  };
  struct Turn {
    uint64_t sequence;
    uint32_t number;
  };
  using Turns = std::vector<Turn>;
  // The executions of an instance, in addition to the pool's Slot.
  struct Lane {
    std::deque<Turns> inside;  // the turns of each execution that was handed over and has not returned
    // Set between OnExecuted and OnDelivered, while the responses in between end turns. No execution is
    // handed over then, or sequences that could share a batch would run one by one.
    bool delivering = false;
    Turns returned;  // turns of the execution that is being delivered
  };

  SequenceCounts counts() const override { return store_.counts(); }
  std::vector<SequenceReport> List(size_t most) const override;
  // The table tracks the idle time of each sequence itself.
  void CleanUp() override {}
  void Drop(const CorrelationId& id) override;
  // No undo: states are committed after the response is sent.
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

  // Checks that the request can belong to a sequence; sets the fields that an iterative model's request
  // needs.
  Status CheckSequence(InferenceRequest& request);
  // Takes in a request that was checked.
  void Enter(std::unique_ptr<InferenceRequest> request, Buffer id_bytes);
  // Takes in a request and runs it, if possible.
  void EnterLocked(std::unique_ptr<InferenceRequest> request, Buffer id_bytes, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_);
  void AdmitLocked(std::unique_ptr<InferenceRequest> request, Buffer id_bytes, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_);
  // Registers a waiting request in the call graph; ends its sequence if it would wait for ever.
  void EnterCallGraphLocked(InferenceRequest& request, int64_t now_ns, Work& work) BRAID_REQUIRES(mutex_);
  void HoldLocked(std::unique_ptr<InferenceRequest> request, Work& work) BRAID_REQUIRES(mutex_);
  void ReleaseLocked(int64_t now_ns, Work& work) override BRAID_REQUIRES(mutex_);

  // Gives slots to waiting sequences. Returns when to try again.
  int64_t AssignLocked(int64_t now_ns) BRAID_REQUIRES(mutex_);
  // Hands over executions to one instance. Returns when to try again.
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

  // Constant; members that are not const are set by OnStarted().
  const SequencePolicy policy_;
  TurnInputs inputs_;
  TurnEnd turn_end_;
  const std::vector<std::string> instance_names_;  // by slot
  // Null unless preserve_ordering. Shared with responses that are being delivered.
  const std::shared_ptr<ResponseOrder> order_;
  std::atomic<uint64_t> next_generated_id_;

  SequenceStore store_;  // synchronises itself
  SequenceTable table_ BRAID_GUARDED_BY(mutex_);
  std::vector<Lane> lanes_ BRAID_GUARDED_BY(mutex_);  // by slot
  bool draining_ BRAID_GUARDED_BY(mutex_) = false;
  // Scratch space.
  std::vector<SlotView> views_ BRAID_GUARDED_BY(mutex_);
  std::vector<WaitingRequest> waiting_ BRAID_GUARDED_BY(mutex_);
  std::vector<Sequence*> chosen_ BRAID_GUARDED_BY(mutex_);  // by slot; null is a padded slot

  // Null if replicas do not share the sequences; set by OnStarted().
  std::unique_ptr<StoreLink> link_;
};

}  // namespace braid
