#include "sequences/sequence_table.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

using Answer = SequenceTable::Answer;

class SequenceTableTest : public ::testing::Test {
 protected:
  ~SequenceTableTest() override { table_.DropAll(now_ns_, drops_); }

  SequenceTable::Admission Admit(uint64_t id, bool start = false, bool end = false) {
    auto request = std::make_unique<InferenceRequest>();
    request->correlation_id = id;
    request->sequence_start = start;
    request->sequence_end = end;
    last_ = request.get();
    const auto admission = table_.Admit(request, end, now_ns_);
    table_.Assign(now_ns_);
    return admission;
  }
  Sequence& Start(uint64_t id, bool end = false) { return *Admit(id, true, end).sequence; }
  void RunTurn(Sequence& sequence) {
    auto request = table_.Begin(sequence, now_ns_);
    table_.End(request->scheduling.sequence, request->scheduling.turn, now_ns_, drops_);
    table_.Assign(now_ns_);
  }
  // The ids by slot, 0 for a free slot.
  std::vector<uint64_t> Seats(size_t instance = 0) {
    std::vector<uint64_t> ids;
    for (const Sequence* sequence : table_.seats(instance)) {
      ids.push_back(sequence == nullptr ? 0 : std::get<uint64_t>(sequence->id));
    }
    return ids;
  }

  int64_t now_ns_ = 1000;
  InferenceRequest* last_ = nullptr;
  Endings drops_;
  SequenceStore store_{SequenceStore::Options{}};
  SequenceTable table_{{.instances = 1, .slots = 3, .idle_ns = 100, .max_queued = 100}, store_};
};

TEST_F(SequenceTableTest, FillsTheLowestSlotAndShortensTheRow) {
  Sequence& one = Start(1, true);
  Sequence& two = Start(2, true);
  Start(3);
  Start(4);
  EXPECT_EQ(Seats(), (std::vector<uint64_t>{1, 2, 3}));
  RunTurn(two);
  EXPECT_EQ(Seats(), (std::vector<uint64_t>{1, 4, 3}));
  RunTurn(one);
  EXPECT_EQ(Seats(), (std::vector<uint64_t>{0, 4, 3}));
  table_.Cancel(*table_.seats(0)[2]->queue.front(), now_ns_, drops_);
  EXPECT_EQ(Seats(), (std::vector<uint64_t>{0, 4}));
  EXPECT_EQ(drops_.size(), 1u);
}

TEST_F(SequenceTableTest, ListsTheOldestSequences) {
  RunTurn(Start(1));
  now_ns_ += 30;
  RunTurn(*Admit(1).sequence);
  Start(2);
  Start(3);
  now_ns_ += 20;
  const auto list = table_.List(2, now_ns_);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].id, CorrelationId(uint64_t{1}));
  EXPECT_EQ(list[0].age_ns, 50);
  EXPECT_EQ(list[0].idle_ns, 20);
  EXPECT_EQ(list[0].requests, 2u);
  // It has a waiting request.
  EXPECT_EQ(list[1].id, CorrelationId(uint64_t{2}));
  EXPECT_EQ(list[1].age_ns, 20);
  EXPECT_EQ(list[1].idle_ns, 0);
  EXPECT_EQ(list[1].requests, 0u);
  EXPECT_EQ(table_.List(200, now_ns_).size(), 3u);
}

TEST_F(SequenceTableTest, HandsTheSlotToTheSequenceThatCutsItShort) {
  Start(1);
  Sequence& second = Start(1);
  Sequence& third = Start(1, true);
  EXPECT_EQ(second.phase, Sequence::Phase::kFollows);
  EXPECT_EQ(table_.size(), 3u);
  RunTurn(*table_.seats(0)[0]);
  EXPECT_EQ(table_.seats(0)[0], &second);
  RunTurn(second);
  EXPECT_EQ(table_.seats(0)[0], &third);
  RunTurn(third);
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(SequenceTableTest, ClosesTheRowWhenOneOfItsMiddleIsCancelled) {
  Sequence& first = Start(1);
  Start(1);
  InferenceRequest& middle = *last_;
  Sequence& third = Start(1, true);
  table_.Cancel(middle, now_ns_, drops_);
  EXPECT_EQ(table_.size(), 2u);
  EXPECT_EQ(third.predecessor, first.number);
  RunTurn(first);
  EXPECT_EQ(table_.seats(0)[0], &third);
}

TEST_F(SequenceTableTest, TakesNoMoreForAnIdWhoseLatestSequenceWasCancelled) {
  Start(1);
  Start(1);
  table_.Cancel(*last_, now_ns_, drops_);
  EXPECT_EQ(Admit(1).answer, Answer::kNeedsStart);
}

TEST_F(SequenceTableTest, LeavesAloneWhatALateTurnDoesNotName) {
  Sequence& old = Start(1, true);
  auto late = table_.Begin(old, now_ns_);
  const SchedulerNotes notes = late->scheduling;
  table_.End(notes.sequence, notes.turn, now_ns_, drops_);
  Sequence& anew = Start(1);
  auto running = table_.Begin(anew, now_ns_);
  table_.End(notes.sequence, notes.turn, now_ns_, drops_);
  table_.End(anew.number, anew.turns + 1, now_ns_, drops_);
  EXPECT_FALSE(table_.Continue(late, now_ns_, drops_));
  EXPECT_FALSE(table_.Undo(late, now_ns_, drops_));
  EXPECT_TRUE(anew.busy);
}

TEST_F(SequenceTableTest, SaysWhenItHasToLookAgain) {
  EXPECT_EQ(table_.next_deadline_ns(), kNeverNs);
  Sequence& one = Start(1);
  EXPECT_EQ(table_.next_deadline_ns(), kNeverNs) << "it has something to run";
  now_ns_ += 50;
  RunTurn(one);
  EXPECT_EQ(table_.next_deadline_ns(), now_ns_ + 100);
  now_ns_ += 10;
  Start(2);
  Start(3);
  Start(4);
  EXPECT_EQ(table_.next_deadline_ns(), 1150);
  table_.Expire(1149, drops_);
  EXPECT_EQ(table_.size(), 4u);
  table_.Expire(1150, drops_);
  EXPECT_EQ(table_.size(), 3u);
  table_.Assign(1150);
  EXPECT_EQ(table_.next_deadline_ns(), kNeverNs);
  EXPECT_TRUE(drops_.empty());
}

TEST_F(SequenceTableTest, InADrainIdleSequencesLeaveTheirSlotsToThoseThatWait) {
  Sequence& one = Start(1);
  Sequence& two = Start(2);
  Start(3);
  Sequence& four = Start(4);
  Start(5, true);
  RunTurn(two);
  now_ns_ += 10;
  RunTurn(one);
  EXPECT_TRUE(table_.waits_for_idle());
  EXPECT_EQ(Seats(), (std::vector<uint64_t>{1, 2, 3})) << "a slot is kept";
  table_.BeginDrain();
  table_.Assign(now_ns_);
  EXPECT_EQ(Seats(), (std::vector<uint64_t>{5, 4, 3})) << "who has been idle for longest is the first to go";
  EXPECT_EQ(one.phase, Sequence::Phase::kResting);
  EXPECT_FALSE(table_.waits_for_idle());
  RunTurn(four);
  table_.Expire(now_ns_ + 1000, drops_);
  EXPECT_EQ(table_.next_deadline_ns(), kNeverNs);
  EXPECT_EQ(table_.size(), 5u);
  EXPECT_EQ(store_.counts().active, 5u);
  EXPECT_TRUE(drops_.empty());
}

TEST_F(SequenceTableTest, ARestingSequenceGetsASlotWhenARequestComesAfterAll) {
  for (uint64_t id = 1; id <= 3; ++id) RunTurn(Start(id));
  table_.BeginDrain();
  for (uint64_t id = 4; id <= 6; ++id) Start(id);
  EXPECT_EQ(Seats(), (std::vector<uint64_t>{4, 5, 6}));
  EXPECT_EQ(Admit(1).answer, Answer::kQueued);
  EXPECT_EQ(Admit(2, false, true).answer, Answer::kQueued);
  EXPECT_TRUE(Admit(3, true).cut_short);
  EXPECT_EQ(table_.size(), 6u) << "the one that 3 was has ended";
  EXPECT_EQ(store_.counts().ended, 1u);
  EXPECT_EQ(Seats(), (std::vector<uint64_t>{4, 5, 6}));
  for (size_t slot = 0; slot < 3; ++slot) RunTurn(*table_.seats(0)[slot]);
  EXPECT_EQ(Seats(), (std::vector<uint64_t>{1, 2, 3}));
  RunTurn(*table_.seats(0)[1]);
  EXPECT_EQ(store_.counts().ended, 2u);
  EXPECT_EQ(store_.counts().active, 5u);
}

TEST_F(SequenceTableTest, InADrainARestoredSequenceTakesASlotOnlyToRun) {
  const auto restore = [this](uint64_t id) { return table_.Restore({id, {}}, now_ns_); };
  for (uint64_t id = 1; id <= 4; ++id) restore(id);
  table_.Assign(now_ns_);
  EXPECT_EQ(Seats(), (std::vector<uint64_t>{1, 2, 3}));
  table_.BeginDrain();
  EXPECT_EQ(restore(5)->phase, Sequence::Phase::kResting);
  Start(6);
  EXPECT_EQ(Seats(), (std::vector<uint64_t>{6, 2, 3}));
  EXPECT_EQ(Admit(4).answer, Answer::kQueued);
  EXPECT_EQ(Seats(), (std::vector<uint64_t>{6, 4, 3}));
  table_.SetAvailable(0, false, now_ns_, drops_);
  table_.Expire(now_ns_ + 1000, drops_);
  table_.SetAvailable(0, true, now_ns_, drops_);
  table_.Assign(now_ns_);
  EXPECT_EQ(Seats(), (std::vector<uint64_t>{4, 6})) << "3 had not begun there, and has nothing to run";
  EXPECT_EQ(store_.counts().active, 6u);
}

TEST_F(SequenceTableTest, ARestoredSequenceExpiresAsIfItHadStayed) {
  now_ns_ = 2000;
  RunTurn(Start(9));
  for (const auto& [id, used_ns] : {std::pair(1, 1950), std::pair(2, 1960)}) {
    SavedSequence saved;
    saved.id = static_cast<uint64_t>(id);
    saved.used_ns = used_ns;
    ASSERT_NE(table_.Restore(std::move(saved), now_ns_), nullptr);
  }
  table_.Assign(now_ns_);
  EXPECT_EQ(table_.next_deadline_ns(), 2050);
  RunTurn(*Admit(2).sequence);
  table_.Expire(2060, drops_);
  EXPECT_EQ(store_.counts().expired, 1u);
  EXPECT_EQ(table_.next_deadline_ns(), 2100);
}

TEST_F(SequenceTableTest, CountsTheRequestsThatAreUnanswered) {
  Sequence& one = Start(1);
  Start(2);
  EXPECT_EQ(table_.unanswered(), 2u);
  auto request = table_.Begin(one, now_ns_);
  const SchedulerNotes& notes = request->scheduling;
  EXPECT_EQ(table_.unanswered(), 2u);
  table_.Answered(notes.sequence, notes.turn, now_ns_, drops_);
  EXPECT_EQ(table_.unanswered(), 1u);
  table_.End(notes.sequence, notes.turn, now_ns_, drops_);
  EXPECT_EQ(table_.unanswered(), 1u);
}

TEST_F(SequenceTableTest, RemembersTheLossOfAnIdUntilItBeginsAnew) {
  RunTurn(Start(1));
  table_.SetAvailable(0, false, now_ns_, drops_);
  EXPECT_EQ(Admit(1).answer, Answer::kLost);
  EXPECT_EQ(Admit(2).answer, Answer::kNeedsStart);
  Start(1);
  table_.SetAvailable(0, true, now_ns_, drops_);
  table_.Assign(now_ns_);
  EXPECT_EQ(Admit(1).answer, Answer::kQueued);
}

// A vacated instance gets no new sequences, if there is room elsewhere or they can wait.
TEST(SequenceTable, SeatsNothingNewWhereAnInstanceIsVacated) {
  using Vacating = SequenceTable::Vacating;
  SequenceStore store{SequenceStore::Options{}};
  SequenceTable table({.instances = 2, .slots = 2, .idle_ns = 100, .max_queued = 100}, store);
  Endings drops;
  const auto start = [&](uint64_t id) -> Sequence& {
    auto request = std::make_unique<InferenceRequest>();
    request->correlation_id = id;
    request->sequence_start = true;
    Sequence& sequence = *table.Admit(request, false, 0).sequence;
    table.Assign(0);
    return sequence;
  };
  Sequence& one = start(1);
  EXPECT_EQ(one.instance, 0u);
  EXPECT_EQ(table.begun(0), 0u) << "it waits for its first turn";
  auto turn = table.Begin(one, 0);
  EXPECT_EQ(table.begun(0), 1u);
  table.SetVacating(0, Vacating::kIfOthers);
  EXPECT_EQ(start(2).instance, 1u);
  EXPECT_EQ(start(3).instance, 1u);
  EXPECT_EQ(start(4).phase, Sequence::Phase::kBacklog);
  table.SetAvailable(1, false, 0, drops);
  table.Assign(0);
  EXPECT_EQ(table.seats(0).size(), 2u) << "there is no other now";
  EXPECT_EQ(table.begun(0), 1u);
  table.SetAvailable(1, true, 0, drops);
  table.SetVacating(0, Vacating::kFully);
  table.SetVacating(1, Vacating::kFully);
  table.Assign(0);
  EXPECT_TRUE(table.seats(1).empty());
  table.SetVacating(1, Vacating::kNo);
  table.Assign(0);
  EXPECT_EQ(table.seats(1).size(), 2u);
  table.DropAll(0, drops);
  table.End(turn->scheduling.sequence, turn->scheduling.turn, 0, drops);
}

}  // namespace
}  // namespace braid
