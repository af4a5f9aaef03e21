// StateStore: the sequences of models where all replicas of a server find them, so that one goes on with what
// another one has begun (--sequence_state_store).
//
// A sequence belongs to one replica at a time. The store counts its owners: each START and each take-over gives it
// a new *epoch*, which is greater than all before, and a write is accepted under the present epoch alone. So a
// replica that was taken for dead, and lives, is *fenced* with its next write, whatever it believes.
//
//   store.Take(name, identity, [](Result<StateStore::Taken> taken) { ... });       // a sequence that is not here
//   store.Write(name, identity, step, [](Result<StateStore::Written> written) { ... });
//   store.End(name, lease, [](Result<StateStore::Written> written) { ... });
//
// What is asked for one sequence is done in the order in which it was asked. An error is UNAVAILABLE, and leaves
// open whether it was done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "serving/sequences.h"
#include "tensor/tensor.h"

namespace braid {

// When the states of a sequence are written.
enum class StoreMode : unsigned char {
  kDurable,  // before a step is answered
  kBehind,   // meanwhile and afterwards, unless the last confirmation is older than the lag
  kDrain,    // when the model ends
};

// What becomes of a step that the store should have confirmed, and is away.
enum class StoreAway : unsigned char {
  kRefuse,
  kContinue,  // it is answered, and written when the store is back
};

struct StorePolicy {
  StoreMode mode = StoreMode::kDurable;
  StoreAway away = StoreAway::kRefuse;
  int64_t lag_ns = int64_t{1} * 1000000000;  // kBehind
};

// Any thread. Callbacks are called once, on a thread of the store's or within the call, and must not block.
class StateStore {
 public:
  struct Name {
    std::string model;
    int64_t version = 1;
    CorrelationId id;
  };

  enum class Finding : unsigned char { kFound, kMissing, kOtherModel };
  struct Taken {
    Finding finding = Finding::kMissing;
    // With kFound:
    uint64_t epoch = 0;
    uint64_t before = 0;  // its epoch until then; 0: it was not there
    uint64_t steps = 0;
    std::vector<Tensor> states;
  };
  enum class Verdict : unsigned char {
    kAccepted,
    kFenced,   // it has another owner
    kMissing,  // it is not there (any more)
  };
  struct Written {
    Verdict verdict = Verdict::kAccepted;
    uint64_t epoch = 0;
  };
  struct Step {
    // Whether it takes the place of an earlier step, as one that was taken back does; else a write that comes
    // late does nothing.
    bool takes_back = false;
    // An epoch of 0 begins a sequence of which the store was not told, unless somebody else has begun one of its name.
    OwnershipLease lease;
    std::shared_ptr<const std::vector<Tensor>> states;  // shared with the sequence
  };
  using TakenDone = std::function<void(Result<Taken>)>;
  using WrittenDone = std::function<void(Result<Written>)>;

  virtual ~StateStore() = default;

  // Makes a sequence this replica's, if it was begun by a model of this identity. An empty identity is for one that begins
  // anew, whatever is there of its name: it is this replica's from then on, and its states are not given. Where states are written at the
  // end alone, the store has them no more: they would be old. Errors, beside UNAVAILABLE: INTERNAL when what
  // there is cannot be read.
  virtual void Take(const Name& name, const std::string& identity, TakenDone done) = 0;
  virtual void Write(const Name& name, const std::string& identity, const Step& step, WrittenDone done) = 0;
  // Removes a sequence of this owner. An epoch of 0 is one that has begun so; with no life either whatever has its name.
  virtual void End(const Name& name, const OwnershipLease& lease, WrittenDone done) = 0;

  virtual const StorePolicy& policy() const = 0;
};

}  // namespace braid
