// The SequenceKeeper of a SequenceModel, and the continuation of its sequences in the model's next run.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "sequences/testing/sequence_harness.h"

namespace braid {
namespace {

constexpr int64_t kSecond = 1'000'000'000;  // also the idle limit of a sequence
constexpr char kState[] =
    "control_input { name: 'START' control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } } "
    "control_input { name: 'CORRID' control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } "
    "state { input_name: 'IN_STATE' output_name: 'OUT_STATE' data_type: TYPE_INT32 dims: [ -1 ] }";
constexpr char kStopped[] = "Server exiting or model 'm' being unloaded: the request did not run in time";

Tensor Number(std::string name, int32_t value) {
  return {std::move(name), DataType::kInt32, Shape(2, 1), CopyToHeap(std::as_bytes(std::span(&value, 1)))};
}

std::string NeedsStart(const std::string& id) {
  return "inference request for sequence " + id +
         " to model 'm' must specify the START flag on the first request of the sequence";
}

class SequenceKeeperTest : public ::testing::Test, protected SequenceHarness {
 protected:
  void StartWithStates(size_t instances = 1, bool decoupled = false,
                       const std::string& batching = std::string(kState) +
                                                     " oldest { max_candidate_sequences: 4 }") {
    Start(instances, batching, 1, decoupled, {Number("IN_STATE", 0)});
  }
  static InferenceResponse Answer(int32_t state) {
    InferenceResponse response;
    response.outputs = {Number("OUT_STATE", state)};
    return response;
  }
  // Answers the running request with a new state.
  void Answers(int32_t state, size_t index = 0) { Finish(index, Answer(state)); }
  void Ask(uint64_t id, unsigned flags, int32_t state) {
    Send(id, flags);
    Answers(state);
  }
  int32_t RunningState(size_t index = 0) {
    return ValueOf<int32_t>(*instance(index).running().requests.front(), "IN_STATE");
  }
  SequenceKeeper& keeper() { return *model_->sequences(); }
  SequenceCounts counts() {
    const SequenceCounts counts = keeper().counts();
    EXPECT_EQ(counts.active, counts.restored + counts.started - counts.ended - counts.expired - counts.lost);
    return counts;
  }
  std::map<uint64_t, int32_t> Saved() {
    std::map<uint64_t, int32_t> values;
    for (const SavedSequence& saved : keeper().Save()) {
      EXPECT_EQ(saved.states.size(), 1u);
      EXPECT_EQ(saved.states[0].name, "IN_STATE");
      int32_t value = 0;
      std::memcpy(&value, saved.states[0].data.data(), sizeof(value));
      values[std::get<uint64_t>(saved.id)] = value;
    }
    return values;
  }
  static std::vector<SavedSequence> Sequences(std::initializer_list<std::pair<uint64_t, int32_t>> values) {
    std::vector<SavedSequence> saved;
    for (const auto& [id, value] : values) saved.push_back({id, {Number("IN_STATE", value)}});
    return saved;
  }
  using Values = std::map<uint64_t, int32_t>;
};

TEST_F(SequenceKeeperTest, CountsHowSequencesEnd) {
  Start(1, "direct {}", 4);
  Send(uint64_t{1}, kStart | kEnd);
  EXPECT_EQ(counts().active, 1u);
  Finish();
  EXPECT_EQ(counts().ended, 1u);
  Send(uint64_t{1}, kStart);
  Finish();
  Send(uint64_t{1}, kStart);
  Finish();
  EXPECT_EQ(counts().ended, 2u) << "a start ends the sequence before it";
  keeper().CleanUp();
  keeper().CleanUp();
  EXPECT_EQ(counts().active, 1u) << "the model watches the time itself";
  timers_.Advance(kSecond);
  EXPECT_EQ(counts().expired, 1u);
  Send(uint64_t{1});
  EXPECT_EQ(counts().rejected, 1u);
  Send(uint64_t{1}, kStart);
  auto cancelled = Send(uint64_t{1}, kEnd);
  cancelled.cancellation->Cancel();
  timers_.Run();
  Finish();
  EXPECT_EQ(counts().lost, 1u);
  Send(uint64_t{2}, kStart);
  Finish();
  instance().Die();
  EXPECT_EQ(counts().lost, 2u);
  EXPECT_EQ(counts().active, 0u);
  EXPECT_EQ(counts().started, 5u);
}

TEST_F(SequenceKeeperTest, OnlyImplicitStatesCanBeSaved) {
  Start(1, "direct {}", 4);
  EXPECT_FALSE(keeper().savable());
  Send(uint64_t{1}, kStart);
  Finish();
  EXPECT_TRUE(keeper().Save().empty());
  EXPECT_EQ(keeper().Restore(Sequences({{5, 1}})), 0u);
}

TEST_F(SequenceKeeperTest, IterationsCannotBeSaved) {
  StartWithStates(1, false, std::string(kState) + " oldest {} iterative_sequence: true");
  EXPECT_FALSE(keeper().savable());
}

TEST_F(SequenceKeeperTest, SavesWhatStandsBetweenRequests) {
  StartWithStates();
  EXPECT_TRUE(keeper().savable());
  Send(uint64_t{1}, kStart);
  EXPECT_EQ(Saved(), Values());
  const uint64_t changes = keeper().changes();
  Answers(5);
  EXPECT_GT(keeper().changes(), changes);
  EXPECT_EQ(Saved(), (Values{{1, 5}}));
  Ask(2, kStart, 7);
  Send(uint64_t{1});
  EXPECT_EQ(Saved(), (Values{{1, 5}, {2, 7}}));
  Answers(6);
  Send(uint64_t{2}, kEnd);
  EXPECT_EQ(Saved(), (Values{{1, 6}})) << "the last request of the other has come";
  Answers(8);
  Send(uint64_t{1});
  InferenceResponse failed;
  failed.status = InternalError("failed");
  Finish(0, failed);
  EXPECT_EQ(Saved(), (Values{{1, 6}}));
}

TEST_F(SequenceKeeperTest, AFirstRequestThatFailsLeavesTheInitialState) {
  StartWithStates();
  Send(uint64_t{1}, kStart);
  InferenceResponse failed;
  failed.status = InternalError("failed");
  Finish(0, failed);
  EXPECT_EQ(Saved(), (Values{{1, 0}}));
  Send(uint64_t{1});
  EXPECT_EQ(RunningState(), 0);
}

TEST_F(SequenceKeeperTest, SavesNoStateFromWithinARequest) {
  StartWithStates(1, true);
  Ask(1, kStart, 5);
  Send(uint64_t{1});
  auto execution = instance().Take();
  instance().listener_->OnExecuted(instance(), 1, 1, {});
  instance().listener_->OnResponse(instance(), *execution->requests[0], Answer(6), false, {});
  EXPECT_EQ(Saved(), (Values{{1, 5}}));
  instance().listener_->OnResponse(instance(), *execution->requests[0], Answer(7), true, {});
  instance().listener_->OnDelivered(instance());
  EXPECT_EQ(Saved(), (Values{{1, 7}}));
}

TEST_F(SequenceKeeperTest, ARestoredSequenceContinues) {
  StartWithStates();
  Ask(3, kStart, 30);
  auto saved = Sequences({{1, 10}, {2, 20}, {3, 99}, {0, 1}, {4, 40}});
  saved.back().states[0].type = DataType::kFp32;
  saved.push_back({std::string("text"), {Number("IN_STATE", 1)}});
  EXPECT_EQ(keeper().Restore(std::move(saved)), 2u);
  EXPECT_EQ(counts().restored, 2u);
  EXPECT_EQ(Saved(), (Values{{1, 10}, {2, 20}, {3, 30}}));
  Send(uint64_t{4});
  Send(uint64_t{1});
  EXPECT_EQ(Running(), "1");
  EXPECT_EQ(RunningState(), 10);
  EXPECT_EQ(ValueOf<int32_t>(*instance().running().requests[0], "START"), 0);
  EXPECT_EQ(ValueOf<uint64_t>(*instance().running().requests[0], "CORRID"), 1u);
  Answers(11);
  Send(uint64_t{1}, kEnd);
  EXPECT_EQ(RunningState(), 11);
  Answers(12);
  EXPECT_EQ(counts().ended, 1u);
  // A start begins anew, as with any existing sequence.
  Send(uint64_t{2}, kStart);
  EXPECT_EQ(RunningState(), 0);
  Answers(1);
  EXPECT_EQ(Saved(), (Values{{2, 1}, {3, 30}}));
}

TEST_F(SequenceKeeperTest, TheTimeOfARestoredSequenceBeginsAnew) {
  StartWithStates();
  keeper().Restore(Sequences({{1, 10}, {2, 20}}));
  timers_.Advance(kSecond / 2);
  Ask(1, kMiddle, 11);
  timers_.Advance(kSecond / 2);
  EXPECT_EQ(counts().expired, 1u);
  EXPECT_EQ(Send(uint64_t{2}).error(), NeedsStart("2"));
  EXPECT_EQ(Saved(), (Values{{1, 11}}));
}

TEST_F(SequenceKeeperTest, ARestoredSequenceIsNotLostWithAnInstanceThatHasNotSeenIt) {
  StartWithStates(2);
  keeper().Restore(Sequences({{1, 10}}));
  instance(0).Die();
  instance(1).Die();
  instance(1).Revive();
  Send(uint64_t{1});
  EXPECT_EQ(Running(1), "1");
  EXPECT_EQ(RunningState(1), 10);
  Answers(11, 1);
  instance(1).Die();
  EXPECT_EQ(counts().lost, 1u);
}

TEST_F(SequenceKeeperTest, RequestsWaitForTheRestore) {
  StartWithStates();
  keeper().HoldUntilRestored(timers_.NowNs() + kSecond);
  auto step = Send(uint64_t{1});
  auto start = Send(uint64_t{2}, kStart);
  auto end = Send(uint64_t{1}, kEnd);
  auto missing = Send(uint64_t{3});
  auto gone = Send(uint64_t{1});
  EXPECT_EQ(model_->pending_requests(), 5);
  EXPECT_EQ(instance().inside(), 0u);
  gone.cancellation->Cancel();
  EXPECT_TRUE(gone.waits());
  timers_.Run();
  EXPECT_EQ(gone.error(), "Request cancelled while it waited for model 'm'");
  EXPECT_EQ(keeper().Restore(Sequences({{1, 10}})), 1u);
  EXPECT_EQ(missing.error(), NeedsStart("3"));
  EXPECT_EQ(Running(), "1");
  EXPECT_EQ(RunningState(), 10);
  Answers(11);
  EXPECT_FALSE(step.waits());
  for (int i = 0; i < 2; ++i) Answers(12);
  EXPECT_FALSE(start.waits());
  EXPECT_FALSE(end.waits());
  EXPECT_EQ(Saved(), (Values{{2, 12}}));
}

TEST_F(SequenceKeeperTest, RequestsDoNotWaitForEverForTheRestore) {
  StartWithStates();
  keeper().HoldUntilRestored(timers_.NowNs() + kSecond);
  auto step = Send(uint64_t{1});
  auto start = Send(uint64_t{2}, kStart);
  timers_.Advance(kSecond);
  EXPECT_EQ(step.error(), NeedsStart("1"));
  EXPECT_EQ(Running(), "2");
  Answers(5);
  EXPECT_EQ(keeper().Restore(Sequences({{1, 10}, {2, 20}})), 1u);
  EXPECT_EQ(Saved(), (Values{{1, 10}, {2, 5}}));
}

TEST_F(SequenceKeeperTest, OnlySoManyWaitForTheRestore) {
  InstancePool::Options options;
  options.max_queue_size = 1;
  Start(1, "direct {}", 4, false, {}, options);
  keeper().HoldUntilRestored(timers_.NowNs() + kSecond);
  auto first = Send(uint64_t{1}, kStart);
  EXPECT_EQ(Send(uint64_t{2}, kStart).error(), "[request id: <id_unknown>] Exceeds maximum queue size");
  EXPECT_TRUE(first.waits());
}

TEST_F(SequenceKeeperTest, StopEndsWhatWaitsForTheRestore) {
  StartWithStates();
  keeper().HoldUntilRestored(timers_.NowNs() + kSecond);
  auto step = Send(uint64_t{1});
  model_->gate().Close();
  model_->Stop(0);
  EXPECT_EQ(step.error(), kStopped);
  EXPECT_EQ(keeper().Restore(Sequences({{1, 10}})), 0u);
}

TEST_F(SequenceKeeperTest, DropsASequenceWithAllThatWaitsOfIt) {
  StartWithStates();
  auto runs = Send(uint64_t{1}, kStart);
  auto waits = Send(uint64_t{1});
  auto follows = Send(uint64_t{1}, kStart);
  keeper().Drop(uint64_t{1});
  keeper().Drop(uint64_t{2});
  EXPECT_TRUE(runs.waits());
  EXPECT_EQ(waits.error(), NeedsStart("1"));
  EXPECT_EQ(follows.error(), NeedsStart("1"));
  auto start = Send(uint64_t{1}, kStart);
  Answers(5);
  EXPECT_TRUE(runs.sink->status().ok());
  EXPECT_EQ(RunningState(), 0);
  Answers(6);
  EXPECT_TRUE(start.sink->status().ok());
  EXPECT_EQ(counts().lost, 2u);
  EXPECT_EQ(counts().rejected, 2u);
  EXPECT_EQ(Saved(), (Values{{1, 6}}));
  keeper().Drop(uint64_t{1});
  EXPECT_EQ(Saved(), Values());
  EXPECT_EQ(Send(uint64_t{1}).error(), NeedsStart("1"));
}

TEST_F(SequenceKeeperTest, WhatCanBeSavedStaysAfterAStop) {
  StartWithStates();
  Ask(1, kStart, 5);
  Ask(2, kStart, 7);
  auto runs = Send(uint64_t{1});
  auto step = Send(uint64_t{1});
  auto end = Send(uint64_t{2}, kEnd);
  auto start = Send(uint64_t{3}, kStart);
  EXPECT_EQ(Saved(), (Values{{1, 5}}));
  model_->gate().Close();
  model_->Stop(0);
  EXPECT_EQ(runs.error(), "stopped by force");
  EXPECT_EQ(step.error(), kStopped);
  EXPECT_EQ(end.error(), kStopped);
  EXPECT_EQ(start.error(), kStopped);
  EXPECT_EQ(Saved(), (Values{{1, 5}, {2, 7}})) << "none of what did not run has happened";
}

// --- Drains --------------------------------------------------------------------------------------

class SequenceDrainTest : public SequenceKeeperTest {
 protected:
  void BeginDrain() {
    model_->gate().Close();
    keeper().BeginDrain();
  }
  // Runs all requests that can run without the clock moving. Each answers with the number of its sequence's
  // requests.
  void RunAll() {
    for (bool ran = true; std::exchange(ran, false);) {
      for (size_t i = 0; i < backend_->fakes_.size(); ++i) {
        for (; instance(i).inside() > 0; ran = true) Finish(i);
      }
    }
  }
  static InferenceResponse CountOn(const InferenceRequest& request) {
    const auto* id = std::get_if<uint64_t>(&request.correlation_id);
    if (id != nullptr && *id == 0) return {};
    return Answer(ValueOf<int32_t>(request, "IN_STATE") + 1);
  }
  void StartCounting(size_t instances, const std::string& strategy) {
    Start(instances, kState + strategy, 2, false, {Number("IN_STATE", 0)});
    for (auto& fake : backend_->fakes_) fake->answer_ = CountOn;
  }
};

constexpr char kDirect[] = " direct {}";
constexpr char kOldest[] = " oldest { max_candidate_sequences: 2 }";

TEST_F(SequenceDrainTest, WhatWaitsRunsInTheSlotsOfIdleSequences) {
  for (const char* strategy : {kDirect, kOldest}) {
    SCOPED_TRACE(strategy);
    SequenceHarness::Stop();
    StartCounting(1, strategy);
    for (const uint64_t id : {1, 2}) Send(id, kStart);
    RunAll();
    Send(uint64_t{1});
    const auto three = Send(uint64_t{3}, kStart);
    const auto four = Send(uint64_t{4}, kStart);
    const auto goes_on = Send(uint64_t{4});
    const auto five = Send(uint64_t{5}, kBoth);
    RunAll();
    EXPECT_TRUE(three.waits());
    EXPECT_EQ(Saved(), (Values{{1, 2}, {2, 1}}));
    BeginDrain();
    RunAll();
    for (const auto& client : {three, four, goes_on, five}) {
      EXPECT_FALSE(client.waits());
      EXPECT_EQ(client.error(), "");
    }
    timers_.Advance(10 * kSecond);
    EXPECT_EQ(Saved(), (Values{{1, 2}, {2, 1}, {3, 1}, {4, 2}}));
    EXPECT_EQ(counts().active, 4u);
    EXPECT_EQ(counts().ended, 1u);
    EXPECT_EQ(counts().expired + counts().lost + counts().rejected, 0u);
  }
}

TEST_F(SequenceDrainTest, TheNextLifeGoesOnWithAllOfThem) {
  StartCounting(1, kDirect);
  for (const uint64_t id : {1, 2, 3, 4}) Send(id, kStart);
  BeginDrain();
  RunAll();
  const auto saved = keeper().Save();
  SequenceHarness::Stop();
  StartCounting(1, kDirect);
  keeper().HoldUntilRestored(timers_.NowNs() + kSecond);
  std::vector<SequenceClient> clients;
  for (const uint64_t id : {4, 3, 2, 1}) clients.push_back(Send(id));
  EXPECT_EQ(keeper().Restore(saved), 4u);
  EXPECT_EQ(Running(), "-,2") << "the oldest have slots, as before";
  for (const uint64_t id : {1, 2}) clients.push_back(Send(id, kEnd));
  RunAll();
  for (const auto& client : clients) EXPECT_FALSE(client.waits());
  EXPECT_EQ(Saved(), (Values{{3, 2}, {4, 2}}));
}

TEST_F(SequenceDrainTest, ARequestThatWasOnItsWayFindsItsSequence) {
  StartCounting(1, kDirect);
  for (const uint64_t id : {1, 2, 3}) Send(id, kStart);
  keeper().BeginDrain();
  RunAll();
  EXPECT_EQ(Saved(), (Values{{1, 1}, {2, 1}, {3, 1}}));
  const auto late = Send(uint64_t{1});
  const auto end = Send(uint64_t{2}, kEnd);
  RunAll();
  EXPECT_FALSE(late.waits());
  EXPECT_FALSE(end.waits());
  EXPECT_EQ(Saved(), (Values{{1, 2}, {3, 1}}));
}

TEST_F(SequenceDrainTest, ASequenceThatTheModelKeepsHasItsSlotWhileARequestMayCome) {
  Start(1, "direct {}", 2);
  for (const uint64_t id : {1, 2}) {
    Send(id, kStart);
    Finish();
  }
  auto on_its_way = ServableHandle::Enter(model_);
  auto three = Send(uint64_t{3}, kStart);
  auto four = Send(uint64_t{4}, kStart);
  BeginDrain();
  timers_.Advance(kSecond / 10);
  EXPECT_EQ(Running(), "none");
  on_its_way.reset();
  timers_.Advance(kSecond / 10);
  EXPECT_EQ(Running(), "3,4");
  Finish();
  EXPECT_EQ(three.error() + four.error(), "");
  EXPECT_FALSE(three.waits() || four.waits());
  EXPECT_EQ(counts().active, 4u);
}

TEST_F(SequenceDrainTest, WhatRunsKeepsNoOtherFromTheSlotOfASequenceThatTheModelKeeps) {
  Start(1, "oldest { max_candidate_sequences: 2 }", 1);
  for (const uint64_t id : {1, 2}) {
    Send(id, kStart);
    Finish();
  }
  auto runs = Send(uint64_t{1});
  auto waits = Send(uint64_t{3}, kStart);
  BeginDrain();
  EXPECT_EQ(Running(), "1");
  Finish();
  EXPECT_EQ(Running(), "3");
  Finish();
  EXPECT_FALSE(runs.waits() || waits.waits());
  EXPECT_EQ(waits.error(), "");
}

// Random clients of more sequences than slots. At any start of a drain, all accepted requests are answered
// although the clock stands. The saved states are those of the answers.
TEST_F(SequenceDrainTest, NothingWaitsForEverAndNothingIsLost) {
  for (unsigned seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const size_t instances = 1 + random() % 2;
    SequenceHarness::Stop();
    StartCounting(instances, random() % 2 == 0 ? kDirect : kOldest);
    Values expected;
    std::vector<SequenceClient> clients;
    std::set<uint64_t> open;
    const size_t steps = random() % 60;
    const size_t drain_at = steps - random() % (steps + 1) / 4;
    for (size_t step = 0; step < steps; ++step) {
      if (step == drain_at) keeper().BeginDrain();
      if (random() % 3 == 0) {
        const size_t index = random() % instances;
        if (instance(index).inside() > 0) Finish(index);
        continue;
      }
      const uint64_t id = 1 + random() % 9;
      const unsigned flags =
          (open.contains(id) && random() % 5 != 0 ? kMiddle : kStart) | (random() % 5 == 0 ? kEnd : kMiddle);
      clients.push_back(Send(id, flags));
      expected[id] = (flags & kStart) != 0 ? 1 : expected[id] + 1;
      open.insert(id);
      if ((flags & kEnd) == 0) continue;
      open.erase(id);
      expected.erase(id);
    }
    BeginDrain();
    RunAll();
    for (const auto& client : clients) {
      EXPECT_FALSE(client.waits());
      EXPECT_EQ(client.error(), "");
    }
    EXPECT_EQ(Saved(), expected);
    EXPECT_EQ(counts().expired + counts().lost, 0u);
  }
}

}  // namespace
}  // namespace braid
