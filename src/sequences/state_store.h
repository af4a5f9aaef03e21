// StateStore: a store of sequences that all replicas of a server share, so that one replica continues
// sequences of another (--sequence_state_store).
//
// A sequence belongs to one replica at a time. The store counts its owners: each START and each take-over
// gives it a new *epoch*, which is greater than all before. A write is accepted only under the current epoch.
// A replica that was presumed dead but is alive is therefore *fenced* at its next write.
//
//   store.Take(name, identity, [](Result<StateStore::Taken> taken) { ... });  // one of another replica
//   store.Write(name, identity, step, [](Result<StateStore::Written> written) { ... });
//   store.End(name, lease, [](Result<StateStore::Written> written) { ... });
//
// Calls for one sequence are executed in order. An error is UNAVAILABLE, and leaves open whether the call was
// executed.
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
  kBehind,   // concurrently and afterwards, unless the last confirmation is older than the lag
  kDrain,    // when the model ends
};

// How a step is answered if the store does not confirm it.
enum class StoreAway : unsigned char {
  kRefuse,
  kContinue,  // the step is answered, and written when the store is back
};

struct StorePolicy {
  StoreMode mode = StoreMode::kDurable;
  StoreAway away = StoreAway::kRefuse;
  int64_t lag_ns = int64_t{1} * 1000000000;  // kBehind
};

// Any thread. Callbacks are called once, on a thread of the store or within the call, and must not block.
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
    uint64_t before = 0;  // its previous epoch; 0: it did not exist
    uint64_t steps = 0;
    std::vector<Tensor> states;
  };
  enum class Verdict : unsigned char {
    kAccepted,
    kFenced,   // it has another owner
    kMissing,  // it does not exist, or no longer
  };
  struct Written {
    Verdict verdict = Verdict::kAccepted;
    uint64_t epoch = 0;
  };
  struct Step {
    // Whether it may replace a later step, after that step was taken back. Otherwise a write that arrives
    // late has no effect.
    bool takes_back = false;
    // Epoch 0 begins a sequence that the store does not know, unless another owner has begun one with its
    // name.
    OwnershipLease lease;
    std::shared_ptr<const std::vector<Tensor>> states;  // shared with the sequence
  };
  using TakenDone = std::function<void(Result<Taken>)>;
  using WrittenDone = std::function<void(Result<Written>)>;

  virtual ~StateStore() = default;

  // Makes a sequence this replica's, if it was begun by a model of this identity. An empty identity is for a
  // sequence that begins anew. The name then becomes this replica's, regardless of the existing sequence,
  // whose states are not returned. In kDrain the call removes the states from the store, because they would
  // become outdated. Errors, besides UNAVAILABLE: INTERNAL if the record cannot be read.
  virtual void Take(const Name& name, const std::string& identity, TakenDone done) = 0;
  virtual void Write(const Name& name, const std::string& identity, const Step& step, WrittenDone done) = 0;
  // Removes a sequence of this owner. Epoch 0 stands for a sequence that was begun by a write with epoch 0;
  // with life 0 too, any sequence of this name is removed.
  virtual void End(const Name& name, const OwnershipLease& lease, WrittenDone done) = 0;

  virtual const StorePolicy& policy() const = 0;
};

}  // namespace braid
