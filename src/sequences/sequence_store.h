// SequenceStore: the sequences of one model, with their states between two requests. It implements the parts
// of SequenceKeeper that all kinds of models share.
//
// A sequence has a number, which counts up and is never reused. Late events of a past sequence therefore
// cannot affect a new one with the same id. The schedulers' tables decide when sequences begin and end. Calls
// with the number of a past sequence have no effect.
//
// Any thread. It has one short lock, which is the innermost. It copies no bytes and makes no callbacks.
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
    // The initial states of a sequence; null if the model has its own.
    States initial;
    bool savable = false;
    std::string identity;
  };
  explicit SequenceStore(Options options);
  // Replaces the options, if the model turns out to have other states. Before the first sequence.
  void Configure(Options options) { options_ = std::move(options); }

  // The reason for which a sequence ended; see SequenceCounts.
  enum class Reason : unsigned char { kEnded, kExpired, kLost };

  // Begins a sequence; returns its number.
  uint64_t Begin(const CorrelationId& id);
  void End(uint64_t number, Reason reason);
  // Notes that its last request has come, or was withdrawn. It is not saved meanwhile.
  void SetEnding(uint64_t number, bool ending);
  // Counts a request that was refused for its sequence.
  void CountRejected();

  // Returns the states for the next request; null for the model's own initial states, and for a past
  // sequence.
  States Get(uint64_t number) const;
  // Sets the new states of a sequence. `settled`: the request has ended, and the states can be saved.
  // Otherwise the request continues.
  void Put(uint64_t number, std::vector<Tensor> states, bool settled);
  // Notes that a request has ended: the last Put() can be saved.
  void Settle(uint64_t number);
  // The state of a sequence between two of its requests. For models that settle with each Put().
  struct Mark {
    uint64_t number = 0;
    uint64_t steps = 0;  // requests that succeeded
    States states;
  };
  std::optional<Mark> MarkOf(uint64_t number) const;
  // See TakeBackSteps.
  void TakeBack(const Mark& mark, uint64_t steps);
  // The states of a sequence after its last response, and its lease.
  struct Held {
    States states;
    OwnershipLease lease;
  };
  std::optional<Held> Look(uint64_t number) const;
  void SetLease(uint64_t number, const OwnershipLease& lease);
  // Restores these states and this lease.
  void PutBack(uint64_t number, const Held& held);
  // Returns whether a request of the sequence has succeeded, in this run of the model or before.
  bool HasRun(uint64_t number) const;

  // Checks that these are the states of this model: their number, types, shapes and sizes. Errors: INTERNAL
  // naming the state and the expected value.
  Status Check(std::span<const Tensor> states) const;
  // Adds a sequence of the model's previous run. Returns its number, or 0 if its states do not match.
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
    int64_t begun_ns = 0;  // SteadyNowNs() when it began here
    int64_t used_ns = 0;   // SteadyNowNs() of the last Put()
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
