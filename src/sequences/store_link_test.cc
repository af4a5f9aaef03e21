#include "sequences/store_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "sequences/testing/fake_state_store.h"
#include "sequences/testing/stateful_harness.h"

namespace braid {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;
constexpr uint64_t kId = 7;

class StoreLinkTest : public ::testing::Test {
 protected:
  void Start(StoreMode mode = StoreMode::kDurable, StoreAway away = StoreAway::kRefuse) {
    store_.policy_ = {mode, away, 100 * kMs};
    InstancePool::Options options;
    options.state_store = &store_;
    one_.Start(1, options);
    two_.Start(1, options);
  }
  float Stored(uint64_t id) {
    const auto found = store_.records.find(id);
    return found == store_.records.end() ? -1 : ValueIn<float>(found->second.states, "sum");
  }
  // A start that runs once the store, which does not answer at once, was asked for an earlier sequence.
  StatefulClient AskStart(StatefulHarness& replica, float value, bool away = false) {
    StatefulClient client = replica.Send(kId, kStart, value);
    store_.AnswerOne(away);
    replica.Finish();
    return client;
  }
  static SequenceStoreCounts CountsOf(StatefulHarness& replica) { return *replica.keeper().store_counts(); }

  FakeStateStore store_;
  StatefulHarness one_;
  StatefulHarness two_;
};

TEST_F(StoreLinkTest, AnAnswerWaitsForTheStore) {
  Start();
  store_.answers_at_once = false;
  StatefulClient client = AskStart(one_, 5);
  EXPECT_TRUE(client.waits());
  EXPECT_EQ(one_.model_->gate().inside(), 1u) << "what waits keeps the model";
  store_.AnswerAll();
  EXPECT_EQ(client.sum(), 5);
  EXPECT_EQ(Stored(7), 5);
  EXPECT_EQ(one_.model_->gate().inside(), 0u);
}

TEST_F(StoreLinkTest, TheNextOfASequenceWaitsForTheAnswerOfTheOneBefore) {
  Start();
  store_.answers_at_once = false;
  StatefulClient first = AskStart(one_, 5);
  StatefulClient second = one_.Send(kId, kMiddle, 6);
  StatefulClient other = one_.Send(uint64_t{8}, kStart, 1);
  EXPECT_EQ(one_.model_->pending_requests(), 1);
  store_.AnswerOne();
  EXPECT_EQ(first.sum(), 5);
  EXPECT_EQ(one_.Running(), 7u);
  one_.Finish();
  EXPECT_TRUE(second.waits());
  store_.AnswerOne();
  EXPECT_EQ(one_.Running(), 8u);
  one_.Finish();
  store_.AnswerAll();
  EXPECT_EQ(second.sum(), 11);
  EXPECT_EQ(other.sum(), 1);
}

TEST_F(StoreLinkTest, AnotherReplicaTakesOverAndTheFirstIsRefused) {
  Start();
  EXPECT_EQ(one_.Ask(kId, kStart, 5).sum(), 5);
  EXPECT_EQ(two_.Ask(kId, kMiddle, 6).sum(), 11);
  StatefulClient late = one_.Ask(kId, kMiddle, 100);
  EXPECT_EQ(late.code(), StatusCode::kAborted);
  EXPECT_EQ(late.error(),
            "sequence 7 of model 'm' continued or restarted at another replica: this step was not done");
  EXPECT_EQ(one_.counts().active, 0u);
  EXPECT_EQ(CountsOf(one_).fenced, 1u);
  EXPECT_EQ(CountsOf(two_).taken_over, 1u);
  EXPECT_EQ(one_.Ask(kId, kMiddle, 1).sum(), 12);
  EXPECT_EQ(one_.Ask(kId, kEnd, 0).sum(), 12);
  EXPECT_TRUE(store_.records.empty());
}

TEST_F(StoreLinkTest, AStartThatIsRefusedLeavesTheSequenceAsItIs) {
  Start();
  EXPECT_EQ(one_.Ask(kId, kStart, 5).sum(), 5);
  EXPECT_EQ(one_.Send(kId, kStart, 9).code(), StatusCode::kAlreadyExists);
  const auto record = store_.records.at(kId);
  EXPECT_EQ(record.steps, 1u);
  EXPECT_EQ(one_.Ask(kId, kMiddle, 1).sum(), 6);
  EXPECT_EQ(store_.records.at(kId).epoch, record.epoch);
}

TEST_F(StoreLinkTest, AStepThatFailsIsNotWritten) {
  Start();
  EXPECT_EQ(one_.Ask(kId, kStart, 5).sum(), 5);
  const int writes = store_.writes;
  StatefulClient client = one_.Send(kId, kMiddle, 6);
  one_.Fail();
  EXPECT_EQ(client.code(), StatusCode::kInternal);
  EXPECT_EQ(store_.writes, writes);
  EXPECT_EQ(two_.Ask(kId, kMiddle, 1).sum(), 6);
}

TEST_F(StoreLinkTest, AWriteThatIsNotAnsweredMakesTheStepFailAndTheSequenceLeave) {
  Start();
  EXPECT_EQ(one_.Ask(kId, kStart, 5).sum(), 5);
  store_.answers_at_once = false;
  StatefulClient client = one_.Ask(kId, kMiddle, 6);
  store_.AnswerOne(true);
  EXPECT_EQ(client.code(), StatusCode::kUnavailable);
  EXPECT_THAT(client.error(), HasSubstr("step 2 of sequence 7 of model 'm' may or may not be stored"));
  EXPECT_EQ(one_.counts().active, 0u);
  StatefulClient unknown = one_.Send(kId, kMiddle, 6);
  store_.AnswerOne(true);
  EXPECT_EQ(unknown.code(), StatusCode::kUnavailable);
  store_.answers_at_once = true;
  EXPECT_EQ(one_.Ask(kId, kMiddle, 7).sum(), 12);
}

TEST_F(StoreLinkTest, WhereThatIsWantedStepsGoOnWithoutTheStoreAndAreWrittenLater) {
  Start(StoreMode::kDurable, StoreAway::kContinue);
  store_.answers_at_once = false;
  StatefulClient first = AskStart(one_, 5, true);
  store_.AnswerAll(true);
  EXPECT_EQ(first.sum(), 5);
  EXPECT_EQ(CountsOf(one_).unconfirmed, 1u);
  one_.timers_.Advance(50 * kMs);
  EXPECT_EQ(CountsOf(one_).lag_ms, 50u);
  StatefulClient second = one_.Ask(kId, kMiddle, 6);
  store_.AnswerAll(true);
  EXPECT_EQ(second.sum(), 11);
  one_.timers_.Advance(300 * kMs);
  store_.AnswerAll();
  EXPECT_EQ(Stored(7), 11);
  EXPECT_EQ(CountsOf(one_).unconfirmed, 0u);
  EXPECT_EQ(CountsOf(one_).lag_ms, 0u);
}

TEST_F(StoreLinkTest, ALateStartTakesNobodysPlace) {
  Start(StoreMode::kDurable, StoreAway::kContinue);
  store_.answers_at_once = false;
  StatefulClient first = AskStart(one_, 5, true);
  store_.AnswerAll(true);
  EXPECT_EQ(first.sum(), 5);
  StatefulClient other = AskStart(two_, 8);
  store_.AnswerAll();
  EXPECT_EQ(other.sum(), 8);
  one_.timers_.Advance(300 * kMs);
  store_.AnswerAll();
  EXPECT_EQ(Stored(7), 8);
  EXPECT_EQ(CountsOf(one_).fenced, 1u);
  EXPECT_EQ(one_.counts().active, 0u);
}

// The client got no answer, and has begun the sequence elsewhere.
TEST_F(StoreLinkTest, ALateFirstWriteTakesNobodysPlace) {
  for (const bool earlier : {false, true}) {
    Start();
    if (earlier) {
      EXPECT_EQ(two_.Ask(kId, kStart, 1).sum(), 1);
      EXPECT_EQ(two_.Ask(kId, kMiddle, 1).sum(), 2);
      two_.keeper().Drop(kId);
      store_.records[kId] = {++store_.last_epoch, 1, 2, "id", {}};
    }
    store_.answers_at_once = false;
    StatefulClient first = AskStart(one_, 5);
    ASSERT_EQ(store_.asked.size(), 1u);
    const auto late = std::move(store_.asked.front());
    store_.asked.clear();
    store_.answers_at_once = true;
    EXPECT_EQ(two_.Ask(kId, kStart, 8).sum(), 8);
    late(false);
    EXPECT_EQ(first.code(), StatusCode::kAborted);
    EXPECT_EQ(Stored(7), 8);
    EXPECT_EQ(two_.Ask(kId, kMiddle, 1).sum(), 9);
    EXPECT_EQ(two_.Ask(kId, kEnd, 1).sum(), 10);
  }
}

TEST_F(StoreLinkTest, AStartTakesThePlaceOfAnEarlierSequenceOfItsName) {
  Start();
  EXPECT_EQ(two_.Ask(kId, kStart, 1).sum(), 1);
  EXPECT_EQ(two_.Ask(kId, kMiddle, 1).sum(), 2);
  EXPECT_EQ(one_.Ask(kId, kStart, 5).sum(), 5);
  EXPECT_EQ(Stored(7), 5);
  EXPECT_EQ(store_.records.at(kId).steps, 1u);
  EXPECT_EQ(two_.Ask(kId, kMiddle, 1).code(), StatusCode::kAborted);
  EXPECT_EQ(two_.Ask(kId, kMiddle, 1).sum(), 6);
}

TEST_F(StoreLinkTest, BehindAnswersAtOnceAndWritesTheLast) {
  Start(StoreMode::kBehind);
  store_.answers_at_once = false;
  EXPECT_EQ(AskStart(one_, 1).sum(), 1);
  EXPECT_EQ(one_.Ask(kId, kMiddle, 1).sum(), 2);
  EXPECT_EQ(one_.Ask(kId, kMiddle, 1).sum(), 3);
  EXPECT_EQ(store_.asked.size(), 1u) << "one write at a time";
  store_.AnswerOne();
  EXPECT_EQ(Stored(7), 1);
  store_.AnswerAll();
  EXPECT_EQ(Stored(7), 3);
  EXPECT_EQ(store_.records.at(kId).steps, 3u);
  EXPECT_EQ(store_.writes, 2);
}

TEST_F(StoreLinkTest, BehindWaitsWhenTheStoreHasSaidNothingForTooLong) {
  Start(StoreMode::kBehind);
  EXPECT_EQ(one_.Ask(kId, kStart, 1).sum(), 1);
  one_.timers_.Advance(101 * kMs);
  store_.answers_at_once = false;
  StatefulClient late = one_.Ask(kId, kMiddle, 1);
  EXPECT_TRUE(late.waits());
  store_.AnswerAll();
  EXPECT_EQ(late.sum(), 2);
  EXPECT_EQ(one_.Ask(kId, kMiddle, 1).sum(), 3) << "that was a confirmation";
}

TEST_F(StoreLinkTest, BehindTakesBackWhatItCouldNotKeep) {
  Start(StoreMode::kBehind);
  EXPECT_EQ(one_.Ask(kId, kStart, 1).sum(), 1);
  one_.timers_.Advance(101 * kMs);
  store_.answers_at_once = false;
  StatefulClient late = one_.Ask(kId, kMiddle, 10);
  store_.AnswerAll(true);
  EXPECT_EQ(late.code(), StatusCode::kUnavailable);
  EXPECT_EQ(one_.counts().active, 1u);
  store_.answers_at_once = true;
  StatefulClient again = one_.Ask(kId, kMiddle, 2);
  EXPECT_EQ(again.sum(), 3);
  EXPECT_EQ(Stored(7), 3);
  EXPECT_EQ(store_.records.at(kId).steps, 2u);
}

TEST_F(StoreLinkTest, AStepThatRunsWhileItsSequenceIsLostFails) {
  Start(StoreMode::kBehind);
  EXPECT_EQ(one_.Ask(kId, kStart, 1).sum(), 1);
  EXPECT_EQ(two_.Ask(kId, kMiddle, 1).sum(), 2);
  store_.answers_at_once = false;
  EXPECT_EQ(one_.Ask(kId, kMiddle, 10).sum(), 11) << "within the lag it cannot know";
  StatefulClient client = one_.Send(kId, kMiddle, 10);
  store_.AnswerAll();
  one_.Finish();
  EXPECT_EQ(client.code(), StatusCode::kAborted);
  EXPECT_EQ(Stored(7), 2);
}

TEST_F(StoreLinkTest, DrainWritesNothingBeforeTheEnd) {
  Start(StoreMode::kDrain);
  EXPECT_EQ(one_.Ask(kId, kStart, 1).sum(), 1);
  EXPECT_EQ(one_.Ask(kId, kMiddle, 1).sum(), 2);
  EXPECT_EQ(store_.writes, 0);
  const auto saved = one_.keeper().Save();
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_FALSE(saved[0].lease.stored);
  EXPECT_EQ(saved[0].lease.steps, 2u);
}

TEST_F(StoreLinkTest, StepsAreCountedAndCanBeMeant) {
  Start();
  EXPECT_EQ(one_.Ask(kId, kStart, 5).sum(), 5);
  const auto send = [&](StatefulHarness& replica, uint64_t step) {
    StatefulClient client;
    auto request = replica.Make(client, kId, kMiddle, 1);
    request->parameters.emplace_back(std::string(kSequenceStepParameter), step);
    replica.model_->Infer(std::move(request));
    if (client.waits()) replica.Finish();
    return client;
  };
  StatefulClient second = send(one_, 2);
  EXPECT_EQ(second.sum(), 6);
  ASSERT_EQ(second.sink->responses.back().parameters.size(), 1u);
  EXPECT_EQ(second.sink->responses.back().parameters[0].second, ParameterValue(uint64_t{2}));
  EXPECT_EQ(send(one_, 2).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(send(two_, 2).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(send(two_, 4).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(send(two_, 3).sum(), 7);
  EXPECT_EQ(send(one_, 4).sum(), 8) << "who is ahead of what is here knows of another replica";
}

TEST_F(StoreLinkTest, AReloadHandsOverWhatIsNotWritten) {
  Start(StoreMode::kBehind);
  store_.answers_at_once = false;
  EXPECT_EQ(AskStart(one_, 1).sum(), 1);
  EXPECT_EQ(one_.Ask(kId, kMiddle, 1).sum(), 2);
  two_.keeper().HoldUntilRestored(two_.timers_.NowNs() + 1000 * kMs);
  StatefulClient held = two_.Send(kId, kMiddle, 1);
  EXPECT_EQ(two_.keeper().Restore(one_.keeper().Save()), 1u);
  two_.Finish();
  EXPECT_EQ(held.sum(), 3);
  store_.AnswerAll();
  EXPECT_EQ(Stored(7), 3);
  EXPECT_EQ(store_.records.at(kId).steps, 3u);
}

TEST_F(StoreLinkTest, ADroppedSequenceLeavesTheStore) {
  Start();
  EXPECT_EQ(one_.Ask(kId, kStart, 5).sum(), 5);
  one_.keeper().Drop(kId);
  EXPECT_TRUE(store_.records.empty());
  EXPECT_EQ(one_.counts().active, 0u);
}

TEST_F(StoreLinkTest, AStepThatIsTakenBackIsTakenBackInTheStore) {
  Start();
  EXPECT_EQ(one_.Ask(kId, kStart, 5).sum(), 5);
  const TakeBackSteps take_back = one_.keeper().Mark(kId);
  EXPECT_EQ(one_.Ask(kId, kMiddle, 1).sum(), 6);
  take_back(1);
  EXPECT_EQ(Stored(7), 5);
  EXPECT_EQ(store_.records.at(kId).steps, 1u);
  EXPECT_EQ(two_.Ask(kId, kMiddle, 2).sum(), 7);
}

TEST_F(StoreLinkTest, AnIdThatTheServerGivesIsRandom) {
  Start();
  StatefulClient one = one_.Ask(uint64_t{0}, kStart, 5);
  StatefulClient two = two_.Ask(uint64_t{0}, kStart, 6);
  EXPECT_NE(one.id(), 0u);
  EXPECT_NE(one.id(), two.id());
  EXPECT_EQ(two_.Ask(one.id(), kMiddle, 1).sum(), 6);
}

TEST_F(StoreLinkTest, ASequenceOfAnotherModelIsRefused) {
  Start();
  EXPECT_EQ(one_.Ask(kId, kStart, 5).sum(), 5);
  store_.records.at(kId).identity = "another";
  StatefulClient client = two_.Send(kId, kMiddle, 6);
  EXPECT_EQ(client.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(client.error(), HasSubstr("belongs to a different model"));
}

TEST_F(StoreLinkTest, WhatNobodyKnowsIsTheModelsToRefuse) {
  Start();
  EXPECT_EQ(one_.Send(kId, kMiddle, 6).error(), "Sequence with provided ID does not exist");
}

TEST_F(StoreLinkTest, WhatIsHeldIsAnsweredWhenTheModelStops) {
  Start();
  one_.keeper().HoldUntilRestored(one_.timers_.NowNs() + 1000 * kMs);
  StatefulClient held = one_.Send(kId, kMiddle, 6);
  EXPECT_TRUE(held.waits());
  one_.model_->gate().Close();
  one_.model_->Stop(INT64_MAX);
  EXPECT_EQ(held.error(), "Sequence with provided ID does not exist");
  one_.model_ = nullptr;
}

}  // namespace
}  // namespace braid
