#include "sequences/stateful_table.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

namespace braid {
namespace {

using Answer = StatefulTable::Answer;
using Outcome = StatefulTable::Outcome;

enum Flags : unsigned { kMiddle = 0, kStart = 1, kEnd = 2, kBoth = 3 };

std::unique_ptr<InferenceRequest> Make(uint64_t id, unsigned flags, std::string name = "") {
  auto request = std::make_unique<InferenceRequest>();
  request->id = std::move(name);
  request->correlation_id = id;
  request->sequence_start = (flags & kStart) != 0;
  request->sequence_end = (flags & kEnd) != 0;
  return request;
}

class StatefulTableTest : public ::testing::Test {
 protected:
  ~StatefulTableTest() override { table_.RefuseWaiting(refused_); }

  Answer Admit(uint64_t id, unsigned flags = kMiddle) {
    auto request = Make(id, flags);
    last_ = request.get();
    const Answer answer = table_.Admit(request);
    if (request != nullptr) kept_.push_back(std::move(request));
    return answer;
  }
  // Admits a request whose turn begins.
  InferenceRequest& Begin(uint64_t id, unsigned flags = kMiddle) {
    EXPECT_EQ(Admit(id, flags), Answer::kBegins);
    return *last_;
  }
  // Returns the sequence's next request, whose turn has begun; null if there is none.
  InferenceRequest* Finish(const InferenceRequest& request, Outcome outcome = Outcome::kGood) {
    refused_.clear();
    if (!table_.End(request, outcome, refused_)) return nullptr;
    auto next = table_.Next(request.scheduling.sequence);
    if (next == nullptr) return nullptr;
    kept_.push_back(std::move(next));
    return kept_.back().get();
  }
  uint64_t Start(uint64_t id) {
    InferenceRequest& request = Begin(id, kStart);
    Finish(request);
    return std::get<uint64_t>(request.correlation_id);
  }
  void Run(uint64_t id) { Finish(Begin(id)); }
  void Stop(uint64_t id) { Finish(Begin(id, kEnd)); }

  SequenceStore store_{SequenceStore::Options{}};
  StatefulTable table_{{.max_sequences = 5, .max_waiting = 4}, store_};
  StatefulTable::Requests kept_;
  StatefulTable::Requests refused_;
  InferenceRequest* last_ = nullptr;
};

TEST_F(StatefulTableTest, LooksAtTheCapacityFirst) {
  for (uint64_t id = 1; id <= 5; ++id) Start(id);
  EXPECT_EQ(Admit(3, kStart), Answer::kTooMany) << "although it exists";
  EXPECT_EQ(Admit(9, kStart), Answer::kTooMany);
  EXPECT_EQ(Admit(0, kStart), Answer::kTooMany);
  EXPECT_EQ(Admit(9), Answer::kMissing);
  InferenceRequest& end = Begin(3, kEnd);
  EXPECT_EQ(Admit(9, kStart), Answer::kTooMany) << "one that ends counts until it has ended";
  Finish(end);
  EXPECT_EQ(Admit(2, kStart), Answer::kExists);
  Start(9);
  EXPECT_EQ(store_.counts().rejected, 6u);
}

TEST_F(StatefulTableTest, KnowsWhatEndsFromWhatLives) {
  EXPECT_EQ(Admit(1), Answer::kMissing);
  EXPECT_EQ(Admit(1, kEnd), Answer::kMissing);
  Start(1);
  EXPECT_EQ(Admit(1, kStart), Answer::kExists);
  InferenceRequest& end = Begin(1, kEnd);
  EXPECT_EQ(Admit(1, kStart), Answer::kTerminated);
  EXPECT_EQ(Admit(1), Answer::kMissing);
  EXPECT_EQ(Admit(1, kEnd), Answer::kMissing);
  Finish(end);
  EXPECT_EQ(Admit(1), Answer::kMissing);
  Start(1);
  EXPECT_EQ(store_.counts().ended, 1u);
  EXPECT_EQ(store_.counts().rejected, 7u);
}

TEST_F(StatefulTableTest, GivesTheLowestIdThatItsCounterReaches) {
  EXPECT_EQ(Start(0), 1u);
  Stop(1);
  EXPECT_EQ(Start(0), 1u) << "the counter is not increased after use";
  EXPECT_EQ(Start(0), 2u);
  EXPECT_EQ(Start(0), 3u) << "with 1 and 2 live";
  Stop(1);
  Stop(3);
  EXPECT_EQ(Start(0), 3u) << "it never goes back";
  Start(4);
  Start(5);
  Stop(2);
  EXPECT_EQ(Start(0), 6u) << "and skips what clients have taken";
}

TEST_F(StatefulTableTest, TurnsComeInTheOrderOfArrival) {
  InferenceRequest& start = Begin(1, kStart);
  EXPECT_EQ(Admit(1), Answer::kWaits);
  InferenceRequest* const first = last_;
  EXPECT_EQ(Admit(1), Answer::kWaits);
  InferenceRequest* const second = last_;
  EXPECT_EQ(Admit(1, kEnd), Answer::kWaits);
  InferenceRequest* const end = last_;
  EXPECT_EQ(table_.waiting(), 3u);
  Begin(2, kStart);  // others run beside it
  EXPECT_EQ(Finish(start), first);
  EXPECT_FALSE(first->scheduling.queued);
  EXPECT_EQ(Finish(*first), second);
  EXPECT_EQ(Finish(*second), end);
  EXPECT_EQ(Finish(*end), nullptr);
  EXPECT_EQ(table_.waiting(), 0u);
  EXPECT_EQ(store_.counts().active, 1u);
}

TEST_F(StatefulTableTest, ATurnLastsUntilTheClientHasItsAnswer) {
  InferenceRequest& start = Begin(1, kStart);
  EXPECT_TRUE(table_.End(start, Outcome::kGood, refused_));
  EXPECT_EQ(Admit(1), Answer::kWaits);
  InferenceRequest* const step = last_;
  auto next = table_.Next(start.scheduling.sequence);
  EXPECT_EQ(next.get(), step);
  EXPECT_TRUE(table_.End(*next, Outcome::kGood, refused_));
  EXPECT_EQ(table_.Next(next->scheduling.sequence), nullptr);
}

TEST_F(StatefulTableTest, ASequenceOfOneRequestIsTerminatedAtOnce) {
  InferenceRequest& only = Begin(1, kBoth);
  EXPECT_EQ(Admit(1), Answer::kMissing);
  EXPECT_EQ(Admit(1, kStart), Answer::kTerminated);
  Finish(only);
  EXPECT_EQ(store_.counts().ended, 1u);
  Finish(Begin(1, kBoth), Outcome::kFailed);
  EXPECT_EQ(store_.counts().lost, 1u);
  EXPECT_EQ(store_.counts().active, 0u);
}

TEST_F(StatefulTableTest, NothingIsLeftOfAFailedStart) {
  InferenceRequest& start = Begin(1, kStart);
  EXPECT_EQ(Admit(1), Answer::kWaits);
  EXPECT_EQ(Admit(1, kEnd), Answer::kWaits);
  EXPECT_EQ(Finish(start, Outcome::kFailed), nullptr);
  EXPECT_EQ(refused_.size(), 2u);
  EXPECT_EQ(store_.counts().lost, 1u);
  EXPECT_EQ(store_.counts().rejected, 2u);
  EXPECT_EQ(table_.waiting(), 0u);
  Start(1);
}

TEST_F(StatefulTableTest, AFailedEndCanBeSentAgain) {
  Start(1);
  Finish(Begin(1, kEnd), Outcome::kFailed);
  EXPECT_EQ(Admit(1, kStart), Answer::kExists);
  Run(1);
  Stop(1);
  EXPECT_EQ(store_.counts().ended, 1u);
}

TEST_F(StatefulTableTest, ACancelledEndEndsTheSequence) {
  Start(1);
  Finish(Begin(1, kEnd), Outcome::kCancelled);
  EXPECT_EQ(store_.counts().ended, 1u);

  Start(1);
  InferenceRequest& step = Begin(1);
  EXPECT_EQ(Admit(1), Answer::kWaits);
  InferenceRequest* const waiting = last_;
  EXPECT_EQ(Admit(1, kEnd), Answer::kWaits);
  EXPECT_EQ(table_.Cancel(*last_)->sequence_end, true);
  EXPECT_EQ(Admit(1), Answer::kMissing);
  EXPECT_EQ(Finish(step), waiting) << "what came before the end runs";
  EXPECT_EQ(Finish(*waiting), nullptr);
  EXPECT_EQ(store_.counts().ended, 2u);
  Start(1);
}

TEST_F(StatefulTableTest, AnEndWithoutARequestEndsTheSequence) {
  Start(1);
  table_.EndWithoutRequest(1);
  table_.EndWithoutRequest(1);
  EXPECT_EQ(Admit(1), Answer::kMissing);
  EXPECT_EQ(store_.counts().ended, 1u);
  // After the requests that came before it.
  Start(2);
  InferenceRequest& runs = Begin(2);
  EXPECT_EQ(Admit(2), Answer::kWaits);
  table_.EndWithoutRequest(2);
  EXPECT_EQ(Admit(2), Answer::kMissing);
  EXPECT_EQ(Admit(2, kStart), Answer::kTerminated);
  InferenceRequest* next = Finish(runs);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(Finish(*next), nullptr);
  EXPECT_EQ(store_.counts().ended, 2u);
  // A sequence that is ending already has its own end.
  Start(3);
  InferenceRequest& end = Begin(3, kEnd);
  table_.EndWithoutRequest(3);
  EXPECT_EQ(Finish(end, Outcome::kFailed), nullptr);
  Run(3);
  Stop(3);
  EXPECT_EQ(store_.counts().ended, 3u);
  EXPECT_EQ(store_.counts().active, 0u);
}

TEST_F(StatefulTableTest, ACancelledStepIsSkipped) {
  Start(1);
  InferenceRequest& step = Begin(1);
  EXPECT_EQ(Admit(1), Answer::kWaits);
  InferenceRequest* const skipped = last_;
  EXPECT_EQ(Admit(1), Answer::kWaits);
  InferenceRequest* const third = last_;
  EXPECT_EQ(table_.Cancel(*skipped).get(), skipped);
  EXPECT_EQ(Finish(step, Outcome::kCancelled), third);
  EXPECT_EQ(Finish(*third), nullptr);
  Run(1);
}

TEST_F(StatefulTableTest, OnlySoManyWait) {
  Begin(1, kStart);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Admit(1), Answer::kWaits);
  EXPECT_EQ(Admit(1, kEnd), Answer::kNoRoom);
  EXPECT_EQ(Admit(1, kStart), Answer::kExists) << "the end that was refused has not begun";
  Start(2);
  EXPECT_EQ(store_.counts().rejected, 1u);
}

TEST_F(StatefulTableTest, TheCleanerEndsAtTheSecondLook) {
  Start(1);
  table_.CleanUp();
  EXPECT_EQ(store_.counts().active, 1u);
  table_.CleanUp();
  EXPECT_EQ(store_.counts().expired, 1u);
  EXPECT_EQ(Admit(1), Answer::kMissing);
  Start(1);  // the id is free
}

TEST_F(StatefulTableTest, TheCleanersLookOutlivesAReload) {
  Start(1);
  EXPECT_FALSE(table_.IsIdle(1));
  table_.CleanUp();
  EXPECT_TRUE(table_.IsIdle(1));
  EXPECT_FALSE(table_.IsIdle(7));
  SavedSequence saved;
  saved.id = uint64_t{2};
  saved.idle = true;
  EXPECT_TRUE(table_.Restore(std::move(saved)));
  EXPECT_TRUE(table_.Restore({uint64_t{3}, {}}));
  table_.CleanUp();
  EXPECT_EQ(store_.counts().expired, 2u);
  EXPECT_EQ(store_.counts().active, 1u);
}

TEST_F(StatefulTableTest, OnlyGoodStepsRefresh) {
  Start(1);
  table_.CleanUp();
  Run(1);
  table_.CleanUp();
  EXPECT_EQ(store_.counts().active, 1u);
  Finish(Begin(1), Outcome::kFailed);
  EXPECT_EQ(Admit(1, kStart), Answer::kExists);
  table_.CleanUp();
  EXPECT_EQ(store_.counts().expired, 1u);
}

TEST_F(StatefulTableTest, TheCleanerSkipsWhatIsInUse) {
  Start(1);
  Start(2);
  table_.CleanUp();
  InferenceRequest& step = Begin(1);
  InferenceRequest& end = Begin(2, kEnd);
  table_.CleanUp();
  table_.CleanUp();
  EXPECT_EQ(store_.counts().active, 2u);
  Finish(step, Outcome::kFailed);
  Finish(end, Outcome::kFailed);
  table_.CleanUp();
  EXPECT_EQ(store_.counts().expired, 2u) << "they are marked as before";
}

TEST_F(StatefulTableTest, DropsAnIdleSequence) {
  Start(1);
  table_.Drop(1, refused_);
  table_.Drop(1, refused_);
  EXPECT_TRUE(refused_.empty());
  EXPECT_EQ(store_.counts().lost, 1u);
  EXPECT_EQ(Admit(1), Answer::kMissing);
}

TEST_F(StatefulTableTest, WhatRunsOfADroppedSequenceTouchesNoOther) {
  Start(1);
  InferenceRequest& step = Begin(1);
  EXPECT_EQ(Admit(1, kEnd), Answer::kWaits);
  table_.Drop(1, refused_);
  EXPECT_EQ(refused_.size(), 1u);
  EXPECT_EQ(store_.counts().active, 0u);
  InferenceRequest& start = Begin(1, kStart);  // the id is free at once
  EXPECT_EQ(Finish(step), nullptr);
  EXPECT_EQ(store_.counts().active, 1u);
  Finish(start);
  Run(1);
  EXPECT_EQ(store_.counts().lost, 1u);
}

TEST_F(StatefulTableTest, ASequenceMayBeDroppedWhileItIsAnswered) {
  InferenceRequest& start = Begin(1, kStart);
  EXPECT_TRUE(table_.End(start, Outcome::kGood, refused_));
  table_.Drop(1, refused_);
  EXPECT_EQ(table_.Next(start.scheduling.sequence), nullptr);
  EXPECT_EQ(store_.counts().lost, 1u);
  Start(1);
}

TEST_F(StatefulTableTest, RestoresWhatThereIsRoomFor) {
  Start(1);
  EXPECT_FALSE(table_.Restore({uint64_t{1}, {}})) << "it exists";
  EXPECT_FALSE(table_.Restore({uint64_t{0}, {}}));
  EXPECT_FALSE(table_.Restore({std::string("one"), {}}));
  EXPECT_FALSE(table_.Restore({uint64_t{2}, {Tensor{"x", DataType::kFp32, {}, {}}}})) << "states do not fit";
  for (uint64_t id = 2; id <= 5; ++id) EXPECT_TRUE(table_.Restore({id, {}}));
  EXPECT_FALSE(table_.Restore({uint64_t{6}, {}})) << "too many";
  EXPECT_EQ(store_.counts().restored, 4u);
  Run(3);
  EXPECT_EQ(Admit(4, kStart), Answer::kTooMany);
  Stop(1);
  EXPECT_EQ(Start(0), 1u);
  table_.CleanUp();
  table_.CleanUp();
  EXPECT_EQ(store_.counts().expired, 5u);
}

TEST_F(StatefulTableTest, WhatWaitsLeavesAsIfItHadNeverCome) {
  Start(1);
  InferenceRequest& step = Begin(1);
  EXPECT_EQ(Admit(1), Answer::kWaits);
  EXPECT_EQ(Admit(1, kEnd), Answer::kWaits);
  table_.RefuseWaiting(refused_);
  EXPECT_EQ(refused_.size(), 2u);
  EXPECT_EQ(Finish(step), nullptr);
  EXPECT_EQ(store_.counts().active, 1u);
  EXPECT_EQ(Admit(1, kStart), Answer::kExists) << "its end has not come";
}

// Random requests and events against a simple model: a list of arrivals for each sequence, and the rules of
// the contract.
class Reference {
 public:
  struct Sequence {
    bool terminated = false;
    bool idle = false;
    bool cancelled_end = false;
    std::deque<std::string> line;  // the first has its turn
  };

  Reference(size_t most, size_t most_waiting) : most_(most), most_waiting_(most_waiting) {}

  Answer Admit(uint64_t& id, unsigned flags, const std::string& name) {
    if ((flags & kStart) != 0) {
      if (live.size() >= most_) return Answer::kTooMany;
      if (id == 0) {
        while (live.contains(counter_)) ++counter_;
        id = counter_;
      }
      if (live.contains(id)) return live[id].terminated ? Answer::kTerminated : Answer::kExists;
    } else if (!live.contains(id) || live[id].terminated) {
      return Answer::kMissing;
    }
    Sequence& sequence = live[id];
    if (!sequence.line.empty() && waiting() >= most_waiting_) return Answer::kNoRoom;
    if ((flags & kEnd) != 0) sequence.terminated = true;
    sequence.line.push_back(name);
    return sequence.line.size() == 1 ? Answer::kBegins : Answer::kWaits;
  }
  size_t waiting() const {
    size_t count = 0;
    for (const auto& [id, sequence] : live) count += sequence.line.empty() ? 0 : sequence.line.size() - 1;
    return count;
  }
  // Ends a turn; returns the number of requests that wait for a sequence that is gone.
  size_t End(uint64_t id, unsigned flags, Outcome outcome) {
    Sequence& sequence = live[id];
    const size_t behind = sequence.line.size() - 1;
    const bool failed_start = (flags & kStart) != 0 && outcome != Outcome::kGood;
    if (failed_start || ((flags & kEnd) != 0 && outcome != Outcome::kFailed)) {
      live.erase(id);
      return behind;
    }
    if ((flags & kEnd) != 0) sequence.terminated = false;
    if (outcome == Outcome::kGood) sequence.idle = false;
    sequence.line.pop_front();
    if (sequence.line.empty() && sequence.cancelled_end) live.erase(id);
    return 0;
  }
  void CleanUp() {
    for (auto entry = live.begin(); entry != live.end();) {
      Sequence& sequence = entry->second;
      const bool looked_at = sequence.line.empty() && !sequence.terminated;
      const bool ends = looked_at && sequence.idle;
      if (looked_at) sequence.idle = true;
      entry = ends ? live.erase(entry) : std::next(entry);
    }
  }

  std::map<uint64_t, Sequence> live;

 private:
  const size_t most_;
  const size_t most_waiting_;
  uint64_t counter_ = 1;
};

class RandomOperations {
 public:
  explicit RandomOperations(unsigned seed) : random_(seed) {}
  ~RandomOperations() { table_.RefuseWaiting(refused_); }

  void Run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      const unsigned dice = random_() % 100;
      if (dice < 50) {
        AdmitOne();
      } else if (dice < 85) {
        EndOne();
      } else if (dice < 92) {
        CancelOne();
      } else if (dice < 96) {
        table_.CleanUp();
        reference_.CleanUp();
      } else if (dice < 98) {
        DropOne();
      } else {
        RestoreOne();
      }
      Compare();
    }
  }

 private:
  struct Turn {
    std::unique_ptr<InferenceRequest> request;
    bool dropped = false;
  };
  static unsigned FlagsOf(const InferenceRequest& request) {
    return (request.sequence_start ? kStart : 0u) | (request.sequence_end ? kEnd : 0u);
  }

  void AdmitOne() {
    uint64_t id = random_() % 9;
    unsigned flags = random_() % 10 < 3 ? kStart : kMiddle;
    if (random_() % 6 == 0) flags |= kEnd;
    if (id == 0) flags |= kStart;
    const std::string name = std::to_string(++count_);
    auto request = Make(id, flags, name);
    InferenceRequest& entered = *request;
    const Answer answer = table_.Admit(request);
    ASSERT_EQ(answer, reference_.Admit(id, flags, name)) << "request " << name << " of " << id;
    if (answer == Answer::kBegins || answer == Answer::kWaits) {
      EXPECT_EQ(std::get<uint64_t>(entered.correlation_id), id);
    } else if (answer != Answer::kNoRoom) {
      ++rejected_;
    }
    if (answer == Answer::kBegins) turns_.push_back({std::move(request)});
    if (answer == Answer::kWaits) waiting_[name] = &entered;
  }
  void EndOne() {
    if (turns_.empty()) return;
    const size_t chosen = random_() % turns_.size();
    Turn turn = std::move(turns_[chosen]);
    turns_.erase(turns_.begin() + static_cast<ptrdiff_t>(chosen));
    const auto id = std::get<uint64_t>(turn.request->correlation_id);
    const Outcome outcome = static_cast<Outcome>(random_() % 5 < 3 ? 0 : 1 + random_() % 2);
    refused_.clear();
    size_t refused = 0;
    if (!turn.dropped) {
      EXPECT_EQ(reference_.live[id].line.front(), turn.request->id) << "in order";
      refused = reference_.End(id, FlagsOf(*turn.request), outcome);
    }
    std::unique_ptr<InferenceRequest> next;
    if (table_.End(*turn.request, outcome, refused_)) next = table_.Next(turn.request->scheduling.sequence);
    Forget(refused);
    if (turn.dropped) {
      EXPECT_EQ(next, nullptr);
      return;
    }
    const auto live = reference_.live.find(id);
    const bool has_next = live != reference_.live.end() && !live->second.line.empty();
    ASSERT_EQ(next != nullptr, has_next);
    if (next == nullptr) return;
    EXPECT_EQ(next->id, live->second.line.front());
    waiting_.erase(next->id);
    turns_.push_back({std::move(next)});
  }
  void Forget(size_t expected) {
    EXPECT_EQ(refused_.size(), expected);
    rejected_ += refused_.size();
    for (const auto& request : refused_) EXPECT_EQ(waiting_.erase(request->id), 1u);
    refused_.clear();
  }
  void CancelOne() {
    if (waiting_.empty()) return;
    auto chosen = waiting_.begin();
    std::advance(chosen, static_cast<ptrdiff_t>(random_() % waiting_.size()));
    const auto request = table_.Cancel(*chosen->second);
    EXPECT_EQ(request->id, chosen->first);
    auto& sequence = reference_.live[std::get<uint64_t>(request->correlation_id)];
    std::erase(sequence.line, request->id);
    if (request->sequence_end) sequence.cancelled_end = true;
    waiting_.erase(chosen);
  }
  void DropOne() {
    const uint64_t id = 1 + random_() % 9;
    size_t waiting = 0;
    if (const auto live = reference_.live.find(id); live != reference_.live.end()) {
      if (!live->second.line.empty()) waiting = live->second.line.size() - 1;
      for (Turn& turn : turns_) {
        if (std::get<uint64_t>(turn.request->correlation_id) == id) turn.dropped = true;
      }
      reference_.live.erase(live);
    }
    refused_.clear();
    table_.Drop(id, refused_);
    Forget(waiting);
  }
  void RestoreOne() {
    const uint64_t id = 1 + random_() % 9;
    const bool fits = !reference_.live.contains(id) && reference_.live.size() < kMost;
    EXPECT_EQ(table_.Restore({id, {}}), fits);
    if (fits) reference_.live[id];
  }
  void Compare() {
    const SequenceCounts counts = store_.counts();
    EXPECT_EQ(counts.active, reference_.live.size());
    EXPECT_EQ(counts.active, counts.restored + counts.started - counts.ended - counts.expired - counts.lost);
    EXPECT_EQ(counts.rejected, rejected_);
    EXPECT_EQ(table_.waiting(), reference_.waiting());
    EXPECT_EQ(table_.waiting(), waiting_.size());
  }

  static constexpr size_t kMost = 6;
  std::mt19937 random_;
  SequenceStore store_{SequenceStore::Options{}};
  StatefulTable table_{{.max_sequences = kMost, .max_waiting = 12}, store_};
  Reference reference_{kMost, 12};
  std::vector<Turn> turns_;
  std::map<std::string, InferenceRequest*> waiting_;
  StatefulTable::Requests refused_;
  uint64_t count_ = 0;
  uint64_t rejected_ = 0;
};

TEST(StatefulTableProperties, HoldForRandomOperations) {
  for (unsigned seed = 1; seed <= 200 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomOperations(seed).Run(500);
  }
}

}  // namespace
}  // namespace braid
