// SequenceStore: the sequences of one model that live, with their states between two requests: what a
// SequenceKeeper tells of them, the same for all kinds of models.
//
// A sequence has a number, which counts up and is never used again, so that what comes late for a sequence
// that is gone touches no other that has its id now. The schedulers' tables decide when sequences begin and
// end; what is asked for by a number that is gone does nothing.
//
// Any thread: one short lock of its own, which is the innermost. No bytes are copied, and nobody is called.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "serving/sequences.h"

namespace braid {

class SequenceStore {
 public:
  using States = std::shared_ptr<const std::vector<Tensor>>;

  struct Options {
    std::vector<StateSpec> states;
    // What a sequence begins with; null where the model knows that itself.
    States initial;
    bool savable = false;
    std::string identity;
  };
  explicit SequenceStore(Options options);
  // The model has turned out to have other states. Before the first sequence.
  void Configure(Options options) { options_ = std::move(options); }

  // Why a sequence is gone; see SequenceCounts.
  enum class Reason : unsigned char { kEnded, kExpired, kLost };

  // A sequence begins; returns its number.
  uint64_t Begin(const CorrelationId& id);
  void End(uint64_t number, Reason reason);
  // Its last request has come, or has not after all: it is not saved meanwhile.
  void SetEnding(uint64_t number, bool ending);
  // A request was refused for its sequence.
  void CountRejected();

  // What the next request begins with; null for the model's own initial states, and for a sequence that is
  // gone.
  States Get(uint64_t number) const;
  // The new states of a sequence. With `settled` they are those after a request that has ended, and can be
  // saved; without it the request goes on.
  void Put(uint64_t number, std::vector<Tensor> states, bool settled);
  // A request has ended: what it has put last can be saved.
  void Settle(uint64_t number);
  // What a sequence is between two of its requests; nothing while it has not run. For models that settle with
  // each Put().
  struct Mark {
    uint64_t number = 0;
    uint64_t steps = 0;  // requests that have gone well
    States states;
  };
  std::optional<Mark> MarkOf(uint64_t number) const;
  // See TakeBackSteps.
  void TakeBack(const Mark& mark, uint64_t steps);
  // What a sequence is after its last response, and whose.
  struct Held {
    States states;
    OwnershipLease lease;
  };
  std::optional<Held> Look(uint64_t number) const;
  void SetLease(uint64_t number, const OwnershipLease& lease);
  // Makes it what it was.
  void PutBack(uint64_t number, const Held& held);
  // Whether a request of the sequence has ended well, in this life of the model or before.
  bool HasRun(uint64_t number) const;

  // Whether these are states of this model: as many as there are, and each of the right type, shape and size.
  // Errors: INTERNAL naming the state and what was expected.
  Status Check(std::span<const Tensor> states) const;
  // A sequence of an earlier life; returns its number, or 0 when its states do not fit.
  uint64_t Restore(SavedSequence saved);

  const std::vector<StateSpec>& states() const { return options_.states; }

  // See SequenceKeeper.
  SequenceCounts counts() const;
  // For models that settle with each Put().
  std::vector<SequenceReport> List(size_t most) const;
  bool savable() const { return options_.savable; }
  const std::string& identity() const { return options_.identity; }
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  std::vector<SavedSequence> Save() const;

 private:
  struct Entry {
    CorrelationId id;
    States states;   // after the last response
    States settled;  // after the last request
    OwnershipLease lease;
    uint64_t steps = 0;    // requests that were settled
    int64_t begun_ns = 0;  // SteadyNowNs(), as it came here
    int64_t used_ns = 0;   // likewise, as it was put last
    bool has_run = false;
    bool ending = false;
    bool saved() const { return has_run && !ending; }
  };

  void Changed() { changes_.fetch_add(1, std::memory_order_release); }

  Options options_;  // constant from the first sequence on
  std::atomic<uint64_t> changes_{0};
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, Entry> entries_ BRAID_GUARDED_BY(mutex_);  // by number
  uint64_t last_number_ BRAID_GUARDED_BY(mutex_) = 0;
  SequenceCounts counts_ BRAID_GUARDED_BY(mutex_);  // `active` is the number of entries
};

}  // namespace braid
