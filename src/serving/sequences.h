// Sequences: what a servable that keeps state between requests says of itself, and how others look at the
// sequences that it has (the cleaner, metrics, what saves them, pipelines).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "serving/request.h"
#include "tensor/data_type.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace braid {

// One tensor that a stateful model keeps from request to request.
struct StateSpec {
  std::string name;  // the variable's, as the model has it
  DataType type = DataType::kInvalid;
  Shape shape;  // -1 is any size

  bool operator==(const StateSpec&) const = default;
};

// What makes a model of a config.json stateful.
struct StatefulSpec {
  // A backend takes the states of a request behind the client's own inputs, in this order, and gives the new
  // ones behind the client's own outputs, in the same order. A request that comes without any (which is
  // all or none) begins a sequence: the model's own initial states hold.
  std::vector<StateSpec> states;
  // Sequences that may exist at the same time.
  uint32_t max_sequences = 500;
  // Whether the cleaner ends sequences that nobody uses.
  bool idle_cleanup = true;
  // Whether nodes of pipelines and sessions of graphs may use it.
  bool allow_in_pipelines = false;
};

// How many there are and were, since the servable was loaded:
//   active == restored + started - ended - expired - lost
struct SequenceCounts {
  uint64_t active = 0;
  uint64_t started = 0;
  uint64_t restored = 0;  // came from an earlier life of the model
  uint64_t ended = 0;     // by a request that said so
  uint64_t expired = 0;   // nobody used them for too long
  uint64_t lost = 0;      // the first request failed, the instance died, or the server has dropped them
  uint64_t rejected = 0;  // requests refused for their sequence: it is missing, ends or exists already, or
                          // there are too many
};

// One sequence that is there, for people. What is not known is nothing.
struct SequenceReport {
  CorrelationId id = uint64_t{0};
  std::optional<int64_t> age_ns;     // since it began
  std::optional<int64_t> idle_ns;    // since its last request has ended; 0: one is there now
  std::optional<uint64_t> requests;  // that it has had
};

// What a server knows of its right to a sequence, where replicas share a store of sequences (sequences/state_store.h).
struct OwnershipLease {
  uint64_t life =
      0;  // names the sequence among those that this server has had; 0: it is not known to a store
  uint64_t epoch = 0;  // the store's number of this ownership; 0: the store has not heard of the sequence
  uint64_t steps = 0;  // requests that have gone well since it began, on whichever server
  int64_t confirmed_ns = 0;  // SteadyNowNs() when it was this server's for certain
  bool stored = false;       // the store has its states as they are
};

// What of a sequence outlives the server, between two of its requests. `states` are those that the next
// request begins with, named, typed and shaped as StateSpec (or `state` of a Triton model) says; their bytes
// are shared and not to be written to.
struct SavedSequence {
  CorrelationId id = uint64_t{0};
  std::vector<Tensor> states;
  OwnershipLease lease = {};
  // How long nothing has come for it, which a reload does not change; a restart begins anew.
  int64_t used_ns = 0;  // SteadyNowNs() when its last request ended; 0: it is not known
  bool idle = false;    // of stateful models: it stood still at the cleaner's last look
};

// What was written to a store that replicas share, see sequences/state_store.h.
struct SequenceStoreCounts {
  uint64_t written = 0;      // states, and ends of sequences
  uint64_t failed = 0;       // writes that the store did not answer, or refused
  uint64_t taken_over = 0;   // sequences, from other replicas or from an earlier life
  uint64_t fenced = 0;       // sequences that had another owner when this one wrote, or were gone
  uint64_t unconfirmed = 0;  // sequences whose last states the store has not confirmed
  uint64_t lag_ms = 0;       // since when the oldest of those has waited
};

// Makes a sequence what it was when this was made, if just `steps` of its requests have gone well since;
// otherwise others have gone on from there, and it stays. A request that runs meanwhile goes on from what it
// began with. Any thread; may outlive the servable.
using TakeBackSteps = std::function<void(uint64_t steps)>;

// The sequences of one servable, for who looks at them from outside. All methods may be called from any
// thread, and none blocks.
class SequenceKeeper {
 public:
  virtual ~SequenceKeeper() = default;

  virtual SequenceCounts counts() const = 0;
  // Nothing where they are in no store that replicas share.
  virtual std::optional<SequenceStoreCounts> store_counts() const { return std::nullopt; }
  // Of those that are there, the oldest `most`.
  virtual std::vector<SequenceReport> List(size_t /*most*/) const { return {}; }

  // One look of the cleaner: sequences that have not run since the look before end, those that are in use at
  // this moment or whose end has begun stay. Does nothing for servables that watch the time themselves.
  virtual void CleanUp() = 0;
  // Ends a sequence, if there is one. What runs of it is answered; what waits is refused, as if it had come
  // afterwards.
  virtual void Drop(const CorrelationId& id) = 0;

  // For who may have to take back what comes next of the sequence. Empty when there is none, and where it
  // cannot be done.
  virtual TakeBackSteps Mark(const CorrelationId& id) = 0;

  // Whether the server has all that there is to a sequence, so that it can be saved.
  virtual bool savable() const = 0;
  // Names the model and its states: what was saved by a servable of another identity is of no use to this
  // one. Empty when nothing was given (ServableInfo::sequence_identity).
  virtual const std::string& identity() const = 0;
  // Grows with every change of what Save() gives.
  virtual uint64_t changes() const = 0;
  // The sequences as they stand after the last of their requests that has ended, the oldest first. Those that
  // have not run yet and those whose last request has come are left out.
  virtual std::vector<SavedSequence> Save() const = 0;

  // Requests wait from now on, until Restore() or until `deadline_ns` (SteadyNowNs() time): what they ask for
  // may be on its way from an earlier life. REQUIRES: no request has come yet.
  virtual void HoldUntilRestored(int64_t deadline_ns) = 0;
  // Takes what was saved in; then admits the requests that were held. Returns how many sequences were taken:
  // those whose id exists meanwhile, whose states do not fit, or beyond the most that may exist are left out.
  virtual size_t Restore(std::vector<SavedSequence> saved) = 0;

  // The servable serves its last requests: those of clients go elsewhere from now on. So what waits inside
  // for a place that another sequence keeps for its next request gets it, and that sequence is not expired:
  // it is there for who saves it. May be called more than once, and is to be when the gate has been closed.
  virtual void BeginDrain() = 0;
};

}  // namespace braid
