#include "sequences/per_key_queue.h"

#include <gmock/gmock.h>

#include <deque>
#include <map>
#include <random>

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::unique_ptr<InferenceRequest> Make(const std::string& id) {
  auto request = std::make_unique<InferenceRequest>();
  request->id = id;
  return request;
}

class PerKeyQueueTest : public ::testing::Test {
 protected:
  // Records the turns as an owner handles them: one after the other, and each leaves at once.
  void Follow(PerKeyQueue::Runnable turn) {
    while (turn.entry != nullptr) {
      turns_.push_back(turn.request != nullptr ? turn.request->id : "end");
      turn = line_.Leave(*turn.entry);
    }
  }

  PerKeyQueue line_;
  std::vector<std::string> turns_;
};

TEST_F(PerKeyQueueTest, TheFirstGoesOnAtOnce) {
  EXPECT_TRUE(line_.empty());
  PerKeyEntry& entry = line_.Enter(7);
  EXPECT_EQ(entry.id(), 7u);
  EXPECT_EQ(line_.Last(7), &entry);
  EXPECT_EQ(line_.Last(8), nullptr);
  auto turn = line_.Ready(entry, Make("a"));
  ASSERT_EQ(turn.entry, &entry);
  EXPECT_EQ(turn.request->id, "a");
  EXPECT_FALSE(turn.request->scheduling.queued);
  EXPECT_FALSE(line_.empty());
  EXPECT_EQ(line_.Leave(entry).entry, nullptr);
  EXPECT_TRUE(line_.empty());
}

TEST_F(PerKeyQueueTest, WhatIsReadyEarlierWaitsForWhatCameEarlier) {
  PerKeyEntry& a = line_.Enter(7);
  PerKeyEntry& b = line_.Enter(7);
  PerKeyEntry& c = line_.Enter(7);
  EXPECT_EQ(line_.behind(), 2u);
  EXPECT_EQ(line_.waiting(), 0u);
  Follow(line_.Ready(c, Make("c")));
  Follow(line_.Ready(b, Make("b")));
  EXPECT_EQ(line_.waiting(), 2u);
  EXPECT_THAT(turns_, IsEmpty());
  Follow(line_.Ready(a, Make("a")));
  EXPECT_THAT(turns_, ElementsAre("a", "b", "c"));
  EXPECT_TRUE(line_.empty());
}

TEST_F(PerKeyQueueTest, ATurnLastsUntilItsPlaceIsLeft) {
  PerKeyEntry& a = line_.Enter(7);
  PerKeyEntry& b = line_.Enter(7);
  auto turn = line_.Ready(a, Make("a"));
  EXPECT_EQ(turn.entry, &a);
  EXPECT_EQ(line_.Ready(b, Make("b")).entry, nullptr);
  PerKeyEntry& c = line_.Enter(7);
  EXPECT_EQ(line_.Ready(c, Make("c")).entry, nullptr);
  turn = line_.Leave(a);
  ASSERT_EQ(turn.entry, &b);
  EXPECT_EQ(turn.request->id, "b");
  turn = line_.Leave(b);
  EXPECT_EQ(turn.entry, &c);
  EXPECT_EQ(line_.Leave(c).entry, nullptr);
}

TEST_F(PerKeyQueueTest, SequencesDoNotWaitForEachOther) {
  PerKeyEntry& a = line_.Enter(7);
  PerKeyEntry& b = line_.Enter(8);
  EXPECT_EQ(line_.behind(), 0u);
  Follow(line_.Ready(b, Make("b")));
  EXPECT_THAT(turns_, ElementsAre("b"));
  Follow(line_.Ready(a, Make("a")));
  EXPECT_THAT(turns_, ElementsAre("b", "a"));
}

TEST_F(PerKeyQueueTest, WhoGivesUpLetsTheOthersGoOn) {
  PerKeyEntry& a = line_.Enter(7);
  PerKeyEntry& b = line_.Enter(7);
  PerKeyEntry& c = line_.Enter(7);
  Follow(line_.Ready(c, Make("c")));
  Follow(line_.Leave(b));
  EXPECT_THAT(turns_, IsEmpty());
  Follow(line_.Leave(a));
  EXPECT_THAT(turns_, ElementsAre("c"));
}

TEST_F(PerKeyQueueTest, ARequestThatWaitsMayBeWithdrawn) {
  PerKeyEntry& a = line_.Enter(7);
  PerKeyEntry& b = line_.Enter(7);
  PerKeyEntry& c = line_.Enter(7);
  Follow(line_.Ready(b, Make("b")));
  Follow(line_.Ready(c, Make("c")));
  EXPECT_THAT(line_.Waiting(), ElementsAre(&b, &c));
  auto request = line_.Withdraw(b);
  EXPECT_EQ(request->id, "b");
  EXPECT_FALSE(request->scheduling.queued);
  EXPECT_EQ(request->scheduling.entry, nullptr);
  EXPECT_EQ(line_.waiting(), 1u);
  EXPECT_THAT(line_.Waiting(), ElementsAre(&c));
  Follow(line_.Leave(b));
  Follow(line_.Ready(a, Make("a")));
  EXPECT_THAT(turns_, ElementsAre("a", "c"));
}

TEST_F(PerKeyQueueTest, AnAbandonedEndHasItsTurnToo) {
  PerKeyEntry& a = line_.Enter(7);
  PerKeyEntry& b = line_.Enter(7);
  PerKeyEntry& c = line_.Enter(7);
  Follow(line_.Ready(b, Make("b")));
  line_.Withdraw(b);
  Follow(line_.Abandon(b));
  Follow(line_.Ready(c, Make("c")));
  EXPECT_EQ(line_.waiting(), 1u);
  EXPECT_EQ(line_.behind(), 2u);
  Follow(line_.Leave(a));
  EXPECT_THAT(turns_, ElementsAre("end", "c"));
  PerKeyEntry& alone = line_.Enter(7);
  Follow(line_.Abandon(alone));
  EXPECT_THAT(turns_, ElementsAre("end", "c", "end"));
  EXPECT_TRUE(line_.empty());
}

TEST_F(PerKeyQueueTest, EndsAreThoseOfSequencesOfOthers) {
  InferenceRequest request;
  EXPECT_FALSE(EndsSequence(request));
  request.sequence_end = true;
  EXPECT_TRUE(EndsSequence(request));
  request.sequence_start = true;
  EXPECT_FALSE(EndsSequence(request));
}

// Compares with a list of arrivals, for random sequences, orders and departures.
TEST_F(PerKeyQueueTest, HoldsTheOrderWhateverHappens) {
  struct Visitor {
    PerKeyEntry* entry;
    int number;
    bool away = true;
  };
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::map<uint64_t, std::deque<Visitor>> lines;  // the queue's content, in order
    std::map<uint64_t, PerKeyEntry*> turn_of;       // entries whose turn has begun
    size_t entered = 0;
    // Only the first may begin its turn.
    const auto take = [&](PerKeyQueue::Runnable turn) {
      if (turn.entry == nullptr) return;
      const uint64_t id = turn.entry->id();
      ASSERT_EQ(turn.entry, lines[id].front().entry);
      ASSERT_FALSE(lines[id].front().away);
      ASSERT_FALSE(turn_of.contains(id));
      if (turn.request != nullptr) {
        ASSERT_EQ(turn.request->id, std::to_string(lines[id].front().number));
      }
      turn_of[id] = turn.entry;
    };
    for (int step = 0; step < 400; ++step) {
      const uint64_t id = 1 + random() % 3;
      auto& queue = lines[id];
      const auto remove = [&](size_t index) {
        PerKeyEntry* entry = queue[index].entry;
        queue.erase(queue.begin() + static_cast<ptrdiff_t>(index));
        if (turn_of.contains(id) && turn_of[id] == entry) turn_of.erase(id);
        take(line_.Leave(*entry));
      };
      if (queue.empty() || random() % 3 == 0) {
        queue.push_back({&line_.Enter(id), static_cast<int>(entered++)});
        continue;
      }
      const size_t index = random() % queue.size();
      Visitor& visitor = queue[index];
      if (visitor.away) {
        const unsigned what = random() % 4;
        if (what == 0) {
          remove(index);
        } else if (what == 1) {
          visitor.away = false;
          take(line_.Abandon(*visitor.entry));
        } else {
          visitor.away = false;
          take(line_.Ready(*visitor.entry, Make(std::to_string(visitor.number))));
        }
      } else if (turn_of.contains(id) && turn_of[id] == visitor.entry) {
        remove(index);
      }
      size_t all = 0;
      size_t busy = 0;
      for (const auto& [each, entries] : lines) {
        all += entries.size();
        busy += entries.empty() ? 0 : 1;
        // No lost wake-up: the first has its turn unless it is away.
        if (entries.empty()) continue;
        ASSERT_EQ(turn_of.contains(each), !entries.front().away);
      }
      ASSERT_EQ(line_.behind(), all - busy);
    }
    for (PerKeyEntry* entry : line_.Waiting()) line_.Withdraw(*entry);
    for (const auto& [id, queue] : lines) {
      for (auto it = queue.rbegin(); it != queue.rend(); ++it) line_.Leave(*it->entry);
    }
    ASSERT_TRUE(line_.empty());
  }
}

}  // namespace
}  // namespace braid
