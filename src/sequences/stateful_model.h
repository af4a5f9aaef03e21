// StatefulModel: the policy of a stateful model of a config.json (ServableInfo::stateful). It keeps the
// states of each sequence between its requests, so that any instance can serve any request.
//
//  - Requests of one sequence run one at a time, in order of arrival, also if they came by different
//    connections. Different sequences run concurrently. A request whose encoded images are being decoded
//    keeps its place.
//  - The rules of OpenVINO Model Server decide on arrival whether a request may begin, continue or end a
//    sequence: SequenceMissing, SequenceAlreadyExists, SequenceTerminated, and MaxSequenceNumberReached,
//    which is checked first. A start without an id gets one from the server.
//  - Each good response has one more output, `sequence_id` UINT64 [1].
//  - A failed or cancelled start leaves no sequence behind; waiting requests of the sequence are refused. A
//    failed end leaves the sequence as it was before, so that it can be ended again. An end whose client
//    cancels before it has run ends the sequence when its turn comes, regardless of where it waits.
//
// A request whose turn has come gets the states after its inputs and waits in the queue of a BatchedModel.
// StatefulTable has the rules of sequences.
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
  // `info` is the metadata for clients, without states.
  StatefulModel(ServableInfo info, std::unique_ptr<BackendModel> backend, BatchingPolicy policy,
                Timers& timers, Logger& log, const Options& options);
  ~StatefulModel() override { StopIfStarted(); }

  void Infer(std::unique_ptr<InferenceRequest> request) override;
  SequenceKeeper* sequences() override;
  void Stop(int64_t deadline_ns) override;
  int64_t pending_requests() const override;

 private:
  // Runs requests that have passed the link, if there is one.
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
  // Sequences hold no resources that others wait for.
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

  // Decodes the images of a request, which keeps its place in its sequence.
  void Decode(std::unique_ptr<InferenceRequest> request);
  void OnDecoded(std::unique_ptr<InferenceRequest> request, PerKeyEntry* entry, Status status);
  // Takes in a request that is ready for the model. `entry` is null unless it has one in arrivals_.
  void Arrive(std::unique_ptr<InferenceRequest> request, PerKeyEntry* entry);
  void ArriveLocked(std::unique_ptr<InferenceRequest> request, PerKeyEntry* entry, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_);
  // Handles a runnable entry, and those that become runnable as a result.
  void AdvanceLocked(PerKeyQueue::Runnable runnable, int64_t now_ns, Work& work) BRAID_REQUIRES(mutex_);
  // Admits a request whose turn to be admitted has come.
  void AdmitLocked(std::unique_ptr<InferenceRequest> request, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_);
  // Runs a request whose turn has come. It runs with the current states, even if the sequence is dropped or
  // changed later.
  void BeginTurnLocked(std::unique_ptr<InferenceRequest> request, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_);
  // Removes a cancelled request that waits in arrivals_; an end keeps its entry.
  std::unique_ptr<InferenceRequest> LeaveCancelledLocked(PerKeyEntry& entry) BRAID_REQUIRES(mutex_);

  void HoldLocked(std::unique_ptr<InferenceRequest> request, Work& work) BRAID_REQUIRES(mutex_);
  void ReleaseLocked(int64_t now_ns, Work& work) override BRAID_REQUIRES(mutex_);
  // Holds an end whose client has cancelled; its sequence may still be restored from the model's previous
  // run.
  void HoldEndLocked(uint64_t id) BRAID_REQUIRES(mutex_);

  // Refuses a request that would have to wait for its sequence while too many do.
  Ending NoRoom(std::unique_ptr<InferenceRequest> request) const;

  const ServableInfo full_info_;  // with the output `sequence_id`, which clients may request
  SequenceStore store_;           // synchronises itself

  // Requests of sequences with images that are being decoded.
  PerKeyQueue arrivals_ BRAID_GUARDED_BY(mutex_);
  StatefulTable table_ BRAID_GUARDED_BY(mutex_);
  // The sequences of held ends whose clients have cancelled.
  std::vector<uint64_t> held_ends_ BRAID_GUARDED_BY(mutex_);

  const std::unique_ptr<StoreLink> link_;  // null if replicas do not share the sequences
};

}  // namespace braid
