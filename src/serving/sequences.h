// Sequences of servables that keep state between requests: their specification, and the interface through
// which the cleaner, metrics, persistence and pipelines use them.
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

// One tensor that a stateful model keeps between requests.
struct StateSpec {
  std::string name;  // the name of the model's variable
  DataType type = DataType::kInvalid;
  Shape shape;  // -1: any size

  bool operator==(const StateSpec&) const = default;
};

// The sequence settings of a stateful model of a config.json.
struct StatefulSpec {
  // A backend gets the states after the client's inputs, in this order, and returns the new states after the
  // client's outputs, in the same order. A request carries all states or none. Without states it begins a
  // sequence with the model's own initial states.
  std::vector<StateSpec> states;
  // Limit on concurrent sequences.
  uint32_t max_sequences = 500;
  // Whether the cleaner ends idle sequences.
  bool idle_cleanup = true;
  // Whether nodes of pipelines and sessions of graphs may use the model.
  bool allow_in_pipelines = false;
};

// Numbers of sequences since the servable was loaded:
//   active == restored + started - ended - expired - lost
struct SequenceCounts {
  uint64_t active = 0;
  uint64_t started = 0;
  uint64_t restored = 0;  // from an earlier incarnation of the model
  uint64_t ended = 0;     // by a request with the end flag
  uint64_t expired = 0;   // idle for too long
  uint64_t lost = 0;      // the first request failed, the instance died, or the server dropped them
  uint64_t rejected = 0;  // refused requests: sequence missing, ending or existing, or limit reached
};

// One existing sequence, for people; nullopt where a value is unknown.
struct SequenceReport {
  CorrelationId id = uint64_t{0};
  std::optional<int64_t> age_ns;     // since it began
  std::optional<int64_t> idle_ns;    // since its last request ended; 0: a request runs now
  std::optional<uint64_t> requests;  // requests so far
};

// The server's state of ownership of a sequence, where replicas share a store (sequences/state_store.h).
struct OwnershipLease {
  uint64_t life = 0;         // distinguishes the sequences of this server; 0: not known to a store
  uint64_t epoch = 0;        // the store's number of this ownership; 0: not stored yet
  uint64_t steps = 0;        // successful requests since it began, on all servers
  int64_t confirmed_ns = 0;  // SteadyNowNs() when the store last confirmed the ownership
  bool stored = false;       // the store has the present states
};

// The part of a sequence that survives a server restart, as it is between two requests. Its next request
// begins with `states`. They have the names, types and shapes of StateSpec, or of a Triton model's `state`.
// Their bytes are shared and must not be written.
struct SavedSequence {
  CorrelationId id = uint64_t{0};
  std::vector<Tensor> states;
  OwnershipLease lease = {};
  // How long the sequence has been idle. A reload keeps this; a restart resets it.
  int64_t used_ns = 0;  // SteadyNowNs() when its last request ended; 0: unknown
  bool idle = false;    // of stateful models: unused since the cleaner's last run
};

// Numbers of writes to a store that replicas share, see sequences/state_store.h.
struct SequenceStoreCounts {
  uint64_t written = 0;      // states and ends of sequences
  uint64_t failed = 0;       // writes that the store refused or did not answer
  uint64_t taken_over = 0;   // sequences, from other replicas or from an earlier incarnation
  uint64_t fenced = 0;       // sequences that another server owned at a write, or that were gone
  uint64_t unconfirmed = 0;  // sequences whose last states the store has not confirmed
  uint64_t lag_ms = 0;       // age of the oldest unconfirmed write
};

// Restores a sequence to its state at the time of the mark, if exactly `steps` of its requests have succeeded
// since. Otherwise other requests have continued from there, and it stays. A running request goes on from its
// own state. Any thread; may outlive the servable.
using TakeBackSteps = std::function<void(uint64_t steps)>;

// The sequences of one servable, for callers outside it. Thread-safe; no method blocks.
class SequenceKeeper {
 public:
  virtual ~SequenceKeeper() = default;

  virtual SequenceCounts counts() const = 0;
  // nullopt without a store that replicas share.
  virtual std::optional<SequenceStoreCounts> store_counts() const { return std::nullopt; }
  // Returns the oldest `most` sequences.
  virtual std::vector<SequenceReport> List(size_t /*most*/) const { return {}; }

  // Runs the cleaner once: ends sequences that have not run since its last run. Sequences that are in use or
  // already ending stay. Does nothing for servables with their own timers.
  virtual void CleanUp() = 0;
  // Ends a sequence, if it exists. Its running request is answered; waiting requests are refused, as if they
  // had arrived afterwards.
  virtual void Drop(const CorrelationId& id) = 0;

  // Returns an undo for the sequence's next step. Empty if there is no such sequence or undo is not
  // supported.
  virtual TakeBackSteps Mark(const CorrelationId& id) = 0;

  // Whether the server has the whole state of its sequences, so that it can save them.
  virtual bool savable() const = 0;
  // Identifies the model and its states. Sequences saved under another identity cannot be restored. Empty
  // when ServableInfo::sequence_identity is.
  virtual const std::string& identity() const = 0;
  // Rises with every change to the result of Save().
  virtual uint64_t changes() const = 0;
  // Returns the sequences, oldest first, each as of its last completed request. Omits sequences that have not
  // run yet and those whose last request has arrived.
  virtual std::vector<SavedSequence> Save() const = 0;

  // Holds requests until Restore() or until `deadline_ns` (SteadyNowNs()): their sequences may still be
  // arriving from an earlier incarnation. REQUIRES: no request has arrived yet.
  virtual void HoldUntilRestored(int64_t deadline_ns) = 0;
  // Adds saved sequences, then admits the held requests. Returns the number added. Omits sequences whose id
  // exists by now, whose states do not fit, or that exceed the limit.
  virtual size_t Restore(std::vector<SavedSequence> saved) = 0;

  // Starts the drain: clients' new requests go elsewhere. A waiting request may now take a slot that another
  // sequence reserves for its next request. That sequence does not expire, so that it can be saved.
  // Idempotent; must also be called after the gate is closed.
  virtual void BeginDrain() = 0;
};

}  // namespace braid
