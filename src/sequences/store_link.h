// StoreLink: connects the sequences of one loaded model to the store that replicas share
// (sequences/state_store.h). It stands before the model and does not know how the model runs requests.
//
//   request --> Take() --> [one at a time for each sequence] --> is it here? --no--> the store --> taken over
//                                                                  |yes                               |
//   client <-- answer <-- written, if it has to be <-- Step <-- the model <----------------------------
//
//  - The requests of a sequence pass one at a time, in order of arrival: the next one continues when the one
//    before is answered. Requests of different sequences are independent.
//  - A sequence that this server does not have is taken over from the store. If the store does not know it
//    either, the request goes to the model, which refuses it with its own error. A sequence therefore also
//    continues after an instance has lost it, or after it was idle here for too long. The store's
//    time-to-live decides how long a sequence lives.
//  - The store's policy decides when an answer is sent. kDurable: when the store has the new states. kDrain:
//    at once. kBehind: at once, unless the store has confirmed no write of the sequence for longer than the
//    lag. This limits the loss to the lag, and a former owner that does not know its loss answers no longer
//    than that.
//  - If the store refuses a write because the sequence has another owner, the step fails with ABORTED. The
//    sequence is dropped here, and a next step would take it over again.
//  - If a write is not answered: with StoreAway::kContinue the step is answered, and its states are written
//    when the store is back. With kRefuse the step fails with UNAVAILABLE. The store may have executed it or
//    not, so the sequence is dropped here, and the next step begins with the store's states. In kBehind,
//    where the server knows more than the store, the step is taken back instead.
//
// A client may number the steps of its sequence (the parameter `sequence_step`, counted from 1). A step that
// was done already, or that comes too early, is refused. The answer has the number of its step.
//
// Any thread; no call blocks. Replies of the store are handled on the store's thread. One short lock, under
// which no callbacks are made. Under it the link calls the model only for its own sequences. Lock order:
// before the model's.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/trampoline.h"
#include "scheduling/timer_service.h"
#include "sequences/sequence_store.h"
#include "sequences/state_store.h"
#include "serving/request.h"
#include "serving/sequences.h"
#include "serving/servable.h"

namespace braid {

// The parameter of requests and responses with the number of a sequence's step.
inline constexpr std::string_view kSequenceStepParameter = "sequence_step";

// A model's own sequences, as its link needs them. Any thread; no call blocks.
class LinkedSequences : public SequenceKeeper {
 public:
  // Takes in a request as if there were no link.
  virtual void Run(std::unique_ptr<InferenceRequest> request) = 0;
  // The next three are called under the link's lock, so they make no callbacks.
  //
  // Returns a sequence of this server. With `touch` its idle time restarts, so that its next request can
  // arrive.
  virtual std::optional<SequenceStore::Held> Look(const CorrelationId& id, bool touch) = 0;
  virtual void SetLease(const CorrelationId& id, const OwnershipLease& lease) = 0;
  // Restores the state of a sequence. REQUIRES: none of its requests is in the model.
  virtual void PutBack(const CorrelationId& id, const SequenceStore::Held& held) = 0;
  // A reference for callbacks that come later.
  virtual std::weak_ptr<Servable> Weak() = 0;
};

class StoreLink final : public SequenceKeeper {
 public:
  // Returns null without a store, if the model's sequences are not savable, or if the model has no identity.
  // All arguments outlive the link, which is a part of the model.
  static std::unique_ptr<StoreLink> Make(LinkedSequences& model, const ServableInfo& info, StateStore* store,
                                         Timers& timers, Logger& log, size_t max_waiting);
  StoreLink(LinkedSequences& model, const ServableInfo& info, StateStore& store, Timers& timers, Logger& log,
            size_t max_waiting);
  // REQUIRES: no request is inside.
  ~StoreLink() override;

  // Takes in a request of a sequence.
  void Take(std::unique_ptr<InferenceRequest> request);
  // Prepares for the model's stop: held requests continue, and no more states are written in the background.
  void BeginStop();
  // The number of requests that wait for others of their sequence, or for the restore of the model's previous
  // run.
  int64_t waiting() const;

  SequenceCounts counts() const override { return model_.counts(); }
  std::optional<SequenceStoreCounts> store_counts() const override;
  std::vector<SequenceReport> List(size_t most) const override { return model_.List(most); }
  void CleanUp() override { model_.CleanUp(); }
  void Drop(const CorrelationId& id) override;
  TakeBackSteps Mark(const CorrelationId& id) override;
  bool savable() const override { return true; }
  const std::string& identity() const override { return model_.identity(); }
  uint64_t changes() const override { return model_.changes(); }
  std::vector<SavedSequence> Save() const override { return model_.Save(); }
  void HoldUntilRestored(int64_t deadline_ns) override;
  size_t Restore(std::vector<SavedSequence> saved) override;
  void BeginDrain() override { model_.BeginDrain(); }

 private:
  using Held = SequenceStore::Held;
  using Request = std::unique_ptr<InferenceRequest>;

  // One request in the model, and its answer afterwards.
  class Step;

  // States that the store has not confirmed.
  struct Pending {
    Held held;
    bool takes_back = false;
    int64_t since_ns = 0;
  };
  // A sequence with a request or a write in progress.
  struct Active {
    bool busy = false;  // a request of it is in the model, or waits for the store
    std::deque<Request> waiting;
    std::optional<Pending> pending;
    uint64_t version = 0;          // of `pending`; counts up
    bool writing = false;          // a write is in flight
    std::unique_ptr<Step> answer;  // waits for the write of `pending`
    // The life of the sequence that was lost to another owner while a request ran, and the error.
    uint64_t lost_life = 0;
    Status lost;
  };
  // A write to be sent.
  struct Writing {
    CorrelationId id;
    uint64_t version = 0;
    StateStore::Step step;
  };

  StateStore::Name NameOf(const CorrelationId& id) const { return {info_.name, info_.version, id}; }
  bool Late(const OwnershipLease& lease) const;
  uint64_t NextLife() { return next_life_.fetch_add(1, std::memory_order_relaxed); }
  std::string Who(const CorrelationId& id) const;

  // Begins a request that is the first unanswered one of its sequence: here, or in the loop of a caller that
  // begins a series of requests.
  void Begin(Request request);
  void BeginOne(Request request);
  void OnStart(Request request, const Result<StateStore::Taken>& taken);
  // Puts the sequence here under a new epoch, if it belonged to this server.
  void RenewLease(const CorrelationId& id, uint64_t before, uint64_t epoch);
  void OnTaken(Request request, Result<StateStore::Taken> taken);
  void Run(Request request, std::optional<Held> before, const OwnershipLease& begin = {});
  // Errors: the client means another step.
  Status CheckStep(const InferenceRequest& request, const OwnershipLease& lease) const;
  void Refuse(Request request, Status status);

  void OnAnswered(std::unique_ptr<Step> step);
  void Write(std::unique_ptr<Step> step, Held after);
  void EndInStore(std::unique_ptr<Step> step);
  void Answer(std::unique_ptr<Step> step);
  void Fail(std::unique_ptr<Step> step, Status status);
  // Begins the next request of the sequence.
  void Leave(const CorrelationId& id);

  std::optional<Writing> PrepareLocked(const CorrelationId& id, Active& active) BRAID_REQUIRES(mutex_);
  void Send(std::optional<Writing> writing);
  void OnWritten(const Writing& writing, int64_t sent_ns, const Result<StateStore::Written>& written);
  void OnAccepted(const Writing& writing, int64_t sent_ns, uint64_t epoch);
  void OnLost(const Writing& writing, Status why);
  void OnAway(const Writing& writing, const Status& why);
  void OnEnded(std::unique_ptr<Step> step, const Result<StateStore::Written>& ended);
  // Drops the sequence, which no longer, or possibly no longer, belongs to this server.
  void Forget(const CorrelationId& id, uint64_t life);
  Status LostError(const CorrelationId& id, StateStore::Verdict verdict) const;
  Status AwayError(const CorrelationId& id, uint64_t step, const Status& why) const;

  void SetPending(const CorrelationId& id, Held held, bool takes_back);
  void EraseIfIdleLocked(const CorrelationId& id) BRAID_REQUIRES(mutex_);
  void RetryLaterLocked() BRAID_REQUIRES(mutex_);
  void Retry();
  void Release();

  LinkedSequences& model_;
  const ServableInfo& info_;
  StateStore& store_;
  const StorePolicy policy_;
  Timers& timers_;
  Logger& log_;
  const size_t max_waiting_;
  std::atomic<uint64_t> next_life_;

  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> taken_over_{0};
  std::atomic<uint64_t> fenced_{0};

  mutable Mutex mutex_;
  std::map<CorrelationId, Active> active_ BRAID_GUARDED_BY(mutex_);
  size_t waiting_ BRAID_GUARDED_BY(mutex_) = 0;
  bool holding_ BRAID_GUARDED_BY(mutex_) = false;
  std::deque<Request> held_ BRAID_GUARDED_BY(mutex_);
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  TimerId release_timer_ BRAID_GUARDED_BY(mutex_);
  TimerId retry_timer_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
