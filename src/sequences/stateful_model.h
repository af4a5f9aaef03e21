// StatefulModel: the policy of a stateful model of a config.json (ServableInfo::stateful). It keeps the
// states of each sequence between its requests, so that any instance may serve any of them.
//
//  - Requests of one sequence run in the order in which they came, one at a time, whatever connections they
//    came by; different sequences run beside each other. One whose encoded images have to be decoded first
//    keeps its place among those of its sequence meanwhile.
//  - Whether a request may begin, continue or end a sequence is decided when it comes, by the rules of
//    OpenVINO Model Server: SequenceMissing, SequenceAlreadyExists, SequenceTerminated, MaxSequenceNumber-
//    Reached (before anything else), an id given by the server where a start names none.
//  - Each good response carries one more output, `sequence_id` UINT64 [1].
//  - A failed or cancelled start leaves no sequence behind; those of its requests that wait are refused. A
//    failed end leaves the sequence as it was before that request, so that it can be ended again; one whose
//    client has gone before it ran ends the sequence when it is its turn, wherever it has waited.
//
// A request whose turn has come gets the states behind its inputs and waits in the queue of a BatchedModel.
// The rules of sequences are StatefulTable's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "scheduling/batched_model.h"
#include "sequences/per_key_queue.h"
#include "sequences/sequence_store.h"
#include "sequences/stateful_table.h"
#include "sequences/store_link.h"

namespace braid {

class StatefulModel final : public BatchedModel, private LinkedSequences {
 public:
  // `info` is what clients see: without states.
  StatefulModel(ServableInfo info, std::unique_ptr<BackendModel> backend, BatchingPolicy policy,
                Timers& timers, Logger& log, const Options& options);
  ~StatefulModel() override { StopIfStarted(); }

  void Infer(std::unique_ptr<InferenceRequest> request) override;
  SequenceKeeper* sequences() override;
  void Stop(int64_t deadline_ns) override;
  int64_t pending_requests() const override;

 private:
  // Requests that have passed the link, if there is one.
  void Run(std::unique_ptr<InferenceRequest> request) override;
  std::optional<SequenceStore::Held> Look(const CorrelationId& id, bool touch) override;
  void SetLease(const CorrelationId& id, const OwnershipLease& lease) override;
  void PutBack(const CorrelationId& id, const SequenceStore::Held& held) override;
  std::weak_ptr<Servable> Weak() override { return weak_from_this(); }
  uint64_t NumberOf(const CorrelationId& id, bool touch) BRAID_REQUIRES(mutex_);

  SequenceCounts counts() const override { return store_.counts(); }
  std::vector<SequenceReport> List(size_t most) const override { return store_.List(most); }
  bool savable() const override { return store_.savable(); }
  const std::string& identity() const override { return store_.identity(); }
  uint64_t changes() const override { return store_.changes(); }
  std::vector<SavedSequence> Save() const override;
  void CleanUp() override;
  void Drop(const CorrelationId& id) override;
  TakeBackSteps Mark(const CorrelationId& id) override;
  void HoldUntilRestored(int64_t deadline_ns) override { Hold(deadline_ns); }
  size_t Restore(std::vector<SavedSequence> saved) override;
  // No sequence keeps anything that others wait for.
  void BeginDrain() override {}

  size_t HeldLocked() const override BRAID_REQUIRES(mutex_) {
    return table_.waiting() + held_.size() + arrivals_.waiting();
  }
  void EndWaitingLocked(EndReason why, int64_t now_ns, Endings& endings) override BRAID_REQUIRES(mutex_);
  void CancelLocked(InferenceRequest& request, int64_t now_ns, Endings& endings) override
      BRAID_REQUIRES(mutex_);
  void BeginStopLocked(Work& work) override BRAID_REQUIRES(mutex_);
  bool TakeResponse(Instance& instance, InferenceRequest& request, std::optional<InferenceResponse>& response,
                    bool final) override;
  NextInSequence OnEnd(InferenceRequest& request, Outcome outcome) override;
  void Follow(NextInSequence followers, Work& work) override;
  const ServableInfo& full_info() const override { return full_info_; }

  // Has the images of a request decoded, which keeps its place among those of its sequence.
  void Decode(std::unique_ptr<InferenceRequest> request);
  void OnDecoded(std::unique_ptr<InferenceRequest> request, PerKeyEntry* entry, Status status);
  // A request that is ready for the model. `entry` is null unless it has one in arrivals_.
  void Arrive(std::unique_ptr<InferenceRequest> request, PerKeyEntry* entry);
  void ArriveLocked(std::unique_ptr<InferenceRequest> request, PerKeyEntry* entry, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_);
  // Works off what is runnable, and what that makes runnable.
  void AdvanceLocked(PerKeyQueue::Runnable runnable, int64_t now_ns, Work& work) BRAID_REQUIRES(mutex_);
  // It is the request's turn to be admitted.
  void AdmitLocked(std::unique_ptr<InferenceRequest> request, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_);
  // It is its turn to run. Whatever becomes of the sequence now, it runs with the states of this moment.
  void BeginTurnLocked(std::unique_ptr<InferenceRequest> request, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_);
  // Takes a request that waits in arrivals_ out of it. Its client has gone; an end keeps its entry.
  std::unique_ptr<InferenceRequest> LeaveCancelledLocked(PerKeyEntry& entry) BRAID_REQUIRES(mutex_);

  void HoldLocked(std::unique_ptr<InferenceRequest> request, Work& work) BRAID_REQUIRES(mutex_);
  void ReleaseLocked(int64_t now_ns, Work& work) override BRAID_REQUIRES(mutex_);
  // The client of an end has gone; the sequence may be on its way from an earlier life.
  void HoldEndLocked(uint64_t id) BRAID_REQUIRES(mutex_);

  // For one that would have to wait for its sequence, as too many do.
  Ending NoRoom(std::unique_ptr<InferenceRequest> request) const;

  const ServableInfo full_info_;  // with the output `sequence_id`, which clients may ask for
  SequenceStore store_;           // provides its own synchronisation

  // Of requests of those sequences that have images on their way.
  PerKeyQueue arrivals_ BRAID_GUARDED_BY(mutex_);
  StatefulTable table_ BRAID_GUARDED_BY(mutex_);
  // The sequences of ends that were held until their clients have gone.
  std::vector<uint64_t> held_ends_ BRAID_GUARDED_BY(mutex_);

  const std::unique_ptr<StoreLink> link_;  // null where no replicas share the sequences
};

}  // namespace braid
