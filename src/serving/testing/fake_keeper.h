// A SequenceKeeper that says what the test has set, and counts what it is asked to do.
#pragma once

#include <string>
#include <vector>

#include "serving/sequences.h"

namespace braid {

class FakeKeeper final : public SequenceKeeper {
 public:
  SequenceCounts counts() const override { return counts_now; }
  void CleanUp() override { ++looks; }
  void Drop(const CorrelationId& id) override { dropped.push_back(id); }
  bool savable() const override { return true; }
  const std::string& identity() const override { return named; }
  uint64_t changes() const override { return changed; }
  std::vector<SavedSequence> Save() const override { return sequences; }
  void HoldUntilRestored(int64_t) override { holds = true; }
  size_t Restore(std::vector<SavedSequence> saved) override {
    holds = false;
    sequences = std::move(saved);
    return sequences.size();
  }
  void BeginDrain() override { drains = true; }

  SequenceCounts counts_now;
  std::string named = "a model";
  uint64_t changed = 0;
  std::vector<SavedSequence> sequences;
  std::vector<CorrelationId> dropped;
  int looks = 0;
  bool holds = false;
  bool drains = false;
};

}  // namespace braid
