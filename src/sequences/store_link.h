// StoreLink: what ties the sequences of one loaded model to the store that replicas share (sequences/state_store.h).
// It stands before the model, and knows nothing of how the model runs requests.
//
//   request --> Take() --> [one at a time for each sequence] --> is it here? --no--> the store --> taken over
//                                                                  |yes                               |
//   client <-- answer <-- written, if it has to be <-- Step <-- the model <----------------------------
//
//  - The requests of a sequence go through it one at a time, in the order in which they have come: the next one
//    goes on when the one before is answered. Those of different sequences do not meet.
//  - A sequence that is not here is taken over from the store. What the store does not know either goes to the
//    model, which refuses it in its own words. So a sequence that an instance has lost, or that was idle here for
//    too long, goes on as well; how long a sequence lives is the store's time-to-live.
//  - What becomes of an answer, by the store's policy: kDurable, it waits until the store has the new states;
//    kBehind, it waits only if the store has confirmed nothing of this sequence for longer than the lag, so that no
//    more than that can be lost, and an owner that has lost the sequence without knowing answers for no longer;
//    kDrain, it never waits.
//  - A write that the store refuses, since the sequence has another owner, makes the step fail with ABORTED; the
//    sequence leaves this server, and a next step would take it over again.
//  - A write that is not answered: with StoreAway::kContinue the step is answered, and its states are written when
//    the store is back; with kRefuse it fails with UNAVAILABLE. Then the sequence, which may be a step further in
//    the store or not, leaves this server, so that the next step begins with what the store has. Not so in kBehind,
//    where the server knows more than the store: there the step is taken back.
//
// A client may say which step of its sequence a request is (the parameter `sequence_step`, counted from 1): a step
// that was done already, or one that comes too early, is refused. The answer says which step it was.
//
// Any thread. Nothing blocks; what the store answers goes on on the store's thread. One short lock, under which
// nobody is called, and the model only for what it has of a sequence: it is taken before the model's.
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

// The parameter of requests and responses that counts the steps of a sequence.
inline constexpr std::string_view kSequenceStepParameter = "sequence_step";

// A model's own sequences, as its link needs them. Any thread; nothing blocks.
class LinkedSequences : public SequenceKeeper {
 public:
  // Takes a request in as if there were no link.
  virtual void Run(std::unique_ptr<InferenceRequest> request) = 0;
  // These three are called under the link's lock, so they call nobody.
  // A sequence that lives here. With `touch` it does not expire before its next request has had the time to come.
  virtual std::optional<SequenceStore::Held> Look(const CorrelationId& id, bool touch) = 0;
  virtual void SetLease(const CorrelationId& id, const OwnershipLease& lease) = 0;
  // Makes a sequence what it was. REQUIRES: none of its requests is in the model.
  virtual void PutBack(const CorrelationId& id, const SequenceStore::Held& held) = 0;
  // For who comes back later.
  virtual std::weak_ptr<Servable> Weak() = 0;
};

class StoreLink final : public SequenceKeeper {
 public:
  // Null without a store, and for a model of whose sequences the server has not all, or which nothing would tell
  // from another one. All outlive the link, which is a part of the model.
  static std::unique_ptr<StoreLink> Make(LinkedSequences& model, const ServableInfo& info, StateStore* store,
                                         Timers& timers, Logger& log, size_t max_waiting);
  StoreLink(LinkedSequences& model, const ServableInfo& info, StateStore& store, Timers& timers, Logger& log,
            size_t max_waiting);
  // REQUIRES: no request is inside.
  ~StoreLink() override;

  // A request of a sequence has come.
  void Take(std::unique_ptr<InferenceRequest> request);
  // The model is about to stop: what was held goes on, and nothing more is written in the background.
  void BeginStop();
  // Requests that wait for others of their sequence, or for an earlier life of the model.
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
  // A sequence of which something is under way.
  struct Active {
    bool busy = false;  // a request of it is in the model, or waits for the store
    std::deque<Request> waiting;
    std::optional<Pending> pending;
    uint64_t version = 0;          // of `pending`, counts up
    bool writing = false;          // one write is on its way
    std::unique_ptr<Step> answer;  // waits for the write of `pending`
    // The life that has lost the sequence to another owner while a request of it ran, and how.
    uint64_t lost_life = 0;
    Status lost;
  };
  // A write that is to be sent.
  struct Writing {
    CorrelationId id;
    uint64_t version = 0;
    StateStore::Step step;
  };

  StateStore::Name NameOf(const CorrelationId& id) const { return {info_.name, info_.version, id}; }
  bool Late(const OwnershipLease& lease) const;
  uint64_t NextLife() { return next_life_.fetch_add(1, std::memory_order_relaxed); }
  std::string Who(const CorrelationId& id) const;

  // The request is the first of its sequence that has not been answered. Here, or after a row of others.
  void Begin(Request request);
  void BeginOne(Request request);
  void OnStart(Request request, const Result<StateStore::Taken>& taken);
  // What is here goes on under a new epoch, if it was this server's.
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
  // The next request of the sequence goes on.
  void Leave(const CorrelationId& id);

  std::optional<Writing> PrepareLocked(const CorrelationId& id, Active& active) BRAID_REQUIRES(mutex_);
  void Send(std::optional<Writing> writing);
  void OnWritten(const Writing& writing, int64_t sent_ns, const Result<StateStore::Written>& written);
  void OnAccepted(const Writing& writing, int64_t sent_ns, uint64_t epoch);
  void OnLost(const Writing& writing, Status why);
  void OnAway(const Writing& writing, const Status& why);
  void OnEnded(std::unique_ptr<Step> step, const Result<StateStore::Written>& ended);
  // The sequence is not this server's any more, or is not known to be.
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
