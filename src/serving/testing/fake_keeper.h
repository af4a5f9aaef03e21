// A SequenceKeeper that returns the test's values and counts calls.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "serving/sequences.h"

namespace braid {

class FakeKeeper final : public SequenceKeeper {
 public:
  SequenceCounts counts() const override { return counts_now; }
  void CleanUp() override { ++looks; }
  void Drop(const CorrelationId& id) override { dropped.push_back(id); }
  TakeBackSteps Mark(const CorrelationId&) override {
    if (!takes_back) return nullptr;
    return [this, mark = marks++](uint64_t steps) { taken_back.emplace_back(mark, steps); };
  }
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
  bool takes_back = false;
  int marks = 0;
  std::vector<std::pair<int, uint64_t>> taken_back;  // the mark, and the steps since
  int looks = 0;
  bool holds = false;
  bool drains = false;
};

}  // namespace braid
