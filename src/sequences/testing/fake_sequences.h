// Fakes for tests of the vault: a keeper whose sequences are numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "repository/testing/fake_backend.h"
#include "serving/sequences.h"

namespace braid::testing {

// One state "sum" INT32 [1].
inline SavedSequence Sequence(CorrelationId id, int32_t sum) {
  SavedSequence sequence{std::move(id), {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(&sum);
  sequence.states.push_back({"sum", DataType::kInt32, {1}, CopyToHeap({bytes, sizeof(sum)})});
  return sequence;
}

class SumKeeper : public SequenceKeeper {
 public:
  explicit SumKeeper(std::string identity) : identity_(std::move(identity)) {}

  // Sets the state after a request of the sequence; 0 ends it.
  void Set(const CorrelationId& id, int32_t sum) {
    std::lock_guard lock(mutex_);
    ++changes_;
    if (sum == 0) {
      ended_ += sums_.erase(id);
    } else {
      sums_[id] = sum;
    }
  }
  // Loses all sequences, as when their instance is killed.
  void LoseAll() {
    std::lock_guard lock(mutex_);
    ++changes_;
    sums_.clear();
  }
  std::map<CorrelationId, int32_t> sums() const {
    std::lock_guard lock(mutex_);
    return sums_;
  }
  bool holding() const {
    std::lock_guard lock(mutex_);
    return hold_deadline_ns_ != 0;
  }
  int64_t hold_deadline_ns() const {
    std::lock_guard lock(mutex_);
    return hold_deadline_ns_;
  }
  int restores() const {
    std::lock_guard lock(mutex_);
    return restores_;
  }

  // Set before first use.
  size_t most = 1000;
  bool is_savable = true;
  std::function<void()> on_drain;

  SequenceCounts counts() const override {
    std::lock_guard lock(mutex_);
    SequenceCounts counts;
    counts.ended = ended_;
    return counts;
  }
  void CleanUp() override {}
  void Drop(const CorrelationId& id) override { Set(id, 0); }
  TakeBackSteps Mark(const CorrelationId&) override { return nullptr; }
  bool savable() const override { return is_savable; }
  const std::string& identity() const override { return identity_; }
  uint64_t changes() const override {
    std::lock_guard lock(mutex_);
    return changes_;
  }
  std::vector<SavedSequence> Save() const override {
    std::lock_guard lock(mutex_);
    std::vector<SavedSequence> saved;
    for (const auto& [id, sum] : sums_) saved.push_back(Sequence(id, sum));
    return saved;
  }
  void HoldUntilRestored(int64_t deadline_ns) override {
    std::lock_guard lock(mutex_);
    hold_deadline_ns_ = deadline_ns;
  }
  size_t Restore(std::vector<SavedSequence> saved) override {
    std::lock_guard lock(mutex_);
    hold_deadline_ns_ = 0;
    ++restores_;
    size_t taken = 0;
    for (const SavedSequence& sequence : saved) {
      if (sums_.size() == most || sums_.contains(sequence.id)) continue;
      int32_t sum = 0;
      std::memcpy(&sum, sequence.states.at(0).data.data(), sizeof(sum));
      sums_[sequence.id] = sum;
      ++changes_;
      ++taken;
    }
    return taken;
  }
  void BeginDrain() override {
    if (on_drain) on_drain();
  }

 private:
  const std::string identity_;
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::map<CorrelationId, int32_t> sums_;
  uint64_t changes_ = 0;
  uint64_t ended_ = 0;
  int64_t hold_deadline_ns_ = 0;  // 0: does not hold
  int restores_ = 0;
};

// A FakeServable with sequences and the identity in its info.
class FakeStateful : public FakeServable {
 public:
  FakeStateful(ServableInfo info, std::unique_ptr<BackendModel> model, Journal& journal)
      : FakeServable(std::move(info), std::move(model), journal), keeper(info_.sequence_identity) {}
  SequenceKeeper* sequences() override { return &keeper; }

  SumKeeper keeper;
};

inline SumKeeper& KeeperOf(Servable& servable) { return static_cast<FakeStateful&>(servable).keeper; }

}  // namespace braid::testing
