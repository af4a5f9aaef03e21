#include "sequences/scheduled_model.h"

#include <gtest/gtest.h>

#include "sequences/testing/sequence_harness.h"

namespace braid {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr char kControls[] =
    "control_input { name: 'START' control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }"
    "control_input { name: 'READY' control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }"
    "control_input { name: 'END' control { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } }"
    "control_input { name: 'ID' control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }";
constexpr char kState[] =
    "state { input_name: 'IN_STATE' output_name: 'OUT_STATE' data_type: TYPE_INT32 dims: [ -1 ] }";

std::string NeedsStart(const std::string& id) {
  return "inference request for sequence " + id +
         " to model 'm' must specify the START flag on the first request of the sequence";
}
std::string Lost(const std::string& id, int instance = 0) {
  return "sequence " + id + " of model 'm' was lost when instance 'm_0_" + std::to_string(instance) +
         "' ended; restart it with the START flag";
}

class SequenceModelTest : public ::testing::Test, protected SequenceHarness {
 protected:
  // All the controls of one request, as "start ready end id".
  std::string Controls(size_t row, size_t index = 0) {
    const InferenceRequest& request = *instance(index).running().requests[row];
    return std::to_string(ValueOf<int32_t>(request, "START")) +
           std::to_string(ValueOf<int32_t>(request, "READY")) +
           std::to_string(ValueOf<int32_t>(request, "END")) + " " +
           std::to_string(ValueOf<uint64_t>(request, "ID"));
  }
  void FinishAll() {
    for (auto& fake : backend_->fakes_) {
      while (fake->inside() > 0) fake->Finish(timers_.NowNs());
    }
  }
};

TEST_F(SequenceModelTest, RefusesWhatIsNoRequestOfASequence) {
  Start(1, "");
  EXPECT_EQ(Send(uint64_t{0}, kStart).sink->status(),
            InvalidArgumentError(
                "inference request to model 'm' must specify a non-zero or non-empty correlation ID"));
  EXPECT_EQ(Send(std::string(), kStart).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Send(std::string(129, 'x'), kStart).sink->status(),
            InvalidArgumentError("string correlation ID cannot be longer than 128 characters"));
  EXPECT_EQ(
      Send(uint64_t{1}, kStart, 1, 2).sink->status(),
      InvalidArgumentError("inference request to model 'm' must specify batch-size 1 due to requirements "
                           "of sequence batcher"));
  EXPECT_EQ(Send(uint64_t{1}).sink->status(), InvalidArgumentError(NeedsStart("1")));
  EXPECT_EQ(Send(std::string("abc"), kEnd).error(), NeedsStart("abc"));
  EXPECT_EQ(model_->sequences()->counts().active, 0u);
  EXPECT_TRUE(Send(std::string(128, 'x'), kStart).waits());
}

TEST_F(SequenceModelTest, RefusesControlInputsOfClients) {
  Start(1, kControls);
  SequenceClient client;
  auto request = std::make_unique<InferenceRequest>();
  request->correlation_id = uint64_t{1};
  request->sequence_start = true;
  request->sink = client.sink.get();
  request->servable = ServableHandle::Enter(model_);
  request->inputs.push_back({"READY", DataType::kInt32, {1, 1}, HeapAllocator().Allocate(4).value()});
  model_->Infer(std::move(request));
  EXPECT_EQ(client.error(), "unexpected inference input 'READY' for model 'm'");
}

TEST_F(SequenceModelTest, RunsASequenceOneByOne) {
  Start(1, kControls, 1);
  auto first = Send(uint64_t{7}, kStart);
  auto second = Send(uint64_t{7});
  auto third = Send(uint64_t{7}, kEnd);
  EXPECT_EQ(instance().inside(), 1u);
  EXPECT_EQ(model_->pending_requests(), 2);
  EXPECT_EQ(Controls(0), "110 7");
  Finish();
  EXPECT_TRUE(first.sink->ended);
  EXPECT_EQ(Controls(0), "010 7");
  Finish();
  EXPECT_EQ(Controls(0), "011 7");
  EXPECT_EQ(Send(uint64_t{7}).error(), NeedsStart("7")) << "the last request has come";
  Finish();
  EXPECT_TRUE(third.sink->ended);
  EXPECT_TRUE(third.sink->status().ok());
  EXPECT_EQ(model_->sequences()->counts().active, 0u);
  EXPECT_EQ(stats().success.count, 3u);
  EXPECT_EQ(stats().execution_count, 3u);
}

TEST_F(SequenceModelTest, PadsTheSlotsBelowTheHighest) {
  Start(1, kControls, 4);
  auto one = Send(uint64_t{1}, kStart, 3);
  auto two = Send(uint64_t{2}, kStart, 3);
  auto three = Send(uint64_t{3}, kStart, 3);
  EXPECT_EQ(Running(), "1");
  Finish();
  EXPECT_EQ(Running(), "-,2,3");
  EXPECT_EQ(Controls(0), "000 0");
  EXPECT_EQ(Controls(1), "110 2");
  EXPECT_EQ(instance().running().rows, 3);
  const Tensor* padding = InputOf(*instance().running().requests[0], "A");
  ASSERT_NE(padding, nullptr);
  EXPECT_EQ(padding->shape, Shape({1, 3}));
  EXPECT_EQ(padding->data.text(), std::string(12, '\0'));
  Finish();
  // An execution counts the slots that it covers; an inference does not count padded ones.
  EXPECT_EQ(stats().inference_count, 3u);
  EXPECT_EQ(stats().execution_count, 2u);
  EXPECT_EQ(stats().batches.at(3).compute_infer.count, 1u);
  EXPECT_EQ(stats().success.count, 3u);
  auto end = Send(uint64_t{3}, kEnd);
  EXPECT_EQ(Running(), "-,-,3");
  Finish();
  auto middle = Send(uint64_t{1});
  EXPECT_EQ(Running(), "1,-") << "the slot of 3 is free";
}

TEST_F(SequenceModelTest, PadsWhatHasAnotherShape) {
  Start(1, "", 4);
  auto one = Send(uint64_t{1}, kStart);
  auto two = Send(uint64_t{2}, kStart, 1);
  auto three = Send(uint64_t{3}, kStart, 2);
  Finish();
  EXPECT_EQ(Running(), "-,2,-");
  Finish();
  EXPECT_EQ(Running(), "-,-,3");
}

TEST_F(SequenceModelTest, WaitsForTheUtilizationOfItsSlots) {
  Start(1, "direct { max_queue_delay_microseconds: 5000 minimum_slot_utilization: 0.75 }", 4);
  auto one = Send(uint64_t{1}, kStart);
  auto two = Send(uint64_t{2}, kStart);
  EXPECT_EQ(instance().inside(), 0u);
  timers_.Advance(4 * kMs);
  EXPECT_EQ(instance().inside(), 0u);
  timers_.Advance(kMs);
  EXPECT_EQ(Running(), "1,2");
  auto three = Send(uint64_t{3}, kStart);
  auto again = Send(uint64_t{1});
  Finish();
  EXPECT_EQ(instance().inside(), 0u);
  auto more = Send(uint64_t{2});
  EXPECT_EQ(Running(), "1,2,3");
}

TEST_F(SequenceModelTest, SpreadsSequencesOverInstancesAndKeepsThemThere) {
  Start(2, "", 2);
  auto one = Send(uint64_t{1}, kStart);
  auto two = Send(uint64_t{2}, kStart);
  auto three = Send(uint64_t{3}, kStart);
  EXPECT_EQ(Running(0), "1");
  EXPECT_EQ(Running(1), "2");
  Finish(1);
  auto again = Send(uint64_t{1});
  EXPECT_EQ(instance(1).inside(), 0u) << "1 belongs to the other instance";
  Finish(0);
  EXPECT_EQ(Running(0), "1,3");
}

TEST_F(SequenceModelTest, KeepsSequencesBeyondItsSlotsInOrder) {
  Start(1, "", 1);
  auto one = Send(uint64_t{1}, kBoth);
  auto two = Send(uint64_t{2}, kStart);
  auto three = Send(uint64_t{3}, kBoth);
  auto two_again = Send(uint64_t{2}, kEnd);
  std::string order;
  while (instance().inside() > 0) {
    order += Running();
    Finish();
  }
  EXPECT_EQ(order, "1223");
}

TEST_F(SequenceModelTest, BatchesTheOldestOfItsCandidates) {
  Start(1, "oldest { max_candidate_sequences: 3 }", 2);
  auto zero = Send(uint64_t{9}, kBoth);
  for (uint64_t id = 1; id <= 4; ++id) {
    timers_.Advance(kMs);
    Send(id, kStart);
  }
  EXPECT_EQ(Running(), "9");
  Finish();
  EXPECT_EQ(Running(), "1,2") << "no padding, the oldest first";
  EXPECT_EQ(instance().running().rows, 2);
  Finish();
  EXPECT_EQ(Running(), "3") << "4 is no candidate yet";
  timers_.Advance(kMs);
  Send(uint64_t{2}, kEnd);
  timers_.Advance(kMs);
  Send(uint64_t{1}, kMiddle);
  Finish();
  EXPECT_EQ(Running(), "2,1");
  Finish();
  EXPECT_EQ(Running(), "4") << "2 has left its place";
}

TEST_F(SequenceModelTest, HoldsBackABatchOfTheOldestForItsDelay) {
  Start(
      1,
      "oldest { max_candidate_sequences: 8 preferred_batch_size: [ 2 ] max_queue_delay_microseconds: 3000 }",
      4);
  auto one = Send(uint64_t{1}, kStart);
  EXPECT_EQ(instance().inside(), 0u);
  timers_.Advance(3 * kMs);
  EXPECT_EQ(Running(), "1");
  Send(uint64_t{2}, kStart);
  Finish();
  EXPECT_EQ(instance().inside(), 0u);
  Send(uint64_t{3}, kStart);
  EXPECT_EQ(Running(), "2,3");
}

TEST_F(SequenceModelTest, PreservesTheOrderOfResponses) {
  Start(2, "oldest { max_candidate_sequences: 1 preserve_ordering: true }", 1);
  auto one = Send(uint64_t{1}, kBoth);
  auto two = Send(uint64_t{2}, kBoth);
  Finish(1);
  EXPECT_TRUE(two.waits());
  Finish(0);
  EXPECT_FALSE(one.waits());
  EXPECT_FALSE(two.waits());
}

TEST_F(SequenceModelTest, ForgetsASequenceThatIsIdle) {
  Start(1, "", 1);
  auto one = Send(uint64_t{1}, kStart);
  auto two = Send(uint64_t{2}, kStart);
  timers_.Advance(kSecond / 2);
  Finish();
  EXPECT_EQ(instance().inside(), 0u);
  timers_.Advance(kSecond - 1);
  EXPECT_EQ(two.code(), StatusCode::kUnavailable) << "it has waited for longer than that by now";
  EXPECT_EQ(two.error(),
            "sequence 2 of model 'm' has waited for a slot longer than max_sequence_idle_microseconds "
            "(1000000)");
  EXPECT_EQ(failures(FailureReason::kRejected), 1u);
  EXPECT_EQ(model_->sequences()->counts().active, 1u);
  timers_.Advance(1);
  EXPECT_EQ(model_->sequences()->counts().active, 0u);
  EXPECT_EQ(Send(uint64_t{1}).error(), NeedsStart("1"));
  EXPECT_EQ(Send(uint64_t{2}).error(), NeedsStart("2"));
}

TEST_F(SequenceModelTest, GivesTheSlotOfAnIdleSequenceToTheNext) {
  Start(1, "", 1);
  auto one = Send(uint64_t{1}, kStart);
  Finish();
  timers_.Advance(kSecond / 2);
  auto two = Send(uint64_t{2}, kBoth);
  EXPECT_EQ(instance().inside(), 0u);
  timers_.Advance(kSecond / 2);
  EXPECT_EQ(Running(), "2");
}

TEST_F(SequenceModelTest, DoesNotCallASequenceIdleThatRunsOrHasEnded) {
  Start(1, "", 1);
  auto one = Send(uint64_t{1}, kStart);
  auto complete = Send(uint64_t{2}, kBoth);
  timers_.Advance(5 * kSecond);
  EXPECT_TRUE(complete.waits()) << "nothing more is expected of it";
  Finish();
  auto middle = Send(uint64_t{1}, kEnd);
  Finish();
  EXPECT_EQ(Running(), "2");
}

TEST_F(SequenceModelTest, BeginsALiveSequenceAnewInItsSlot) {
  Start(1, kControls, 1);
  auto old = Send(uint64_t{1}, kStart);
  auto queued = Send(uint64_t{1});
  auto waiting = Send(uint64_t{2}, kBoth);
  auto anew = Send(uint64_t{1}, kStart);
  auto follows = Send(uint64_t{1}, kEnd);
  Finish();
  EXPECT_EQ(Controls(0), "010 1") << "what came before runs before";
  Finish();
  EXPECT_TRUE(queued.sink->status().ok());
  EXPECT_EQ(Controls(0), "110 1");
  Finish();
  EXPECT_EQ(Controls(0), "011 1");
  Finish();
  EXPECT_EQ(Running(), "2");
}

TEST_F(SequenceModelTest, BeginsAnIdleSequenceAnewBeforeOthers) {
  Start(1, "", 1);
  auto old = Send(uint64_t{1}, kStart);
  Finish();
  auto waiting = Send(uint64_t{2}, kBoth);
  auto anew = Send(uint64_t{1}, kBoth);
  EXPECT_EQ(Running(), "1");
  Finish();
  EXPECT_EQ(Running(), "2");
}

TEST_F(SequenceModelTest, LetsASequenceOfAnIdThatHasEndedWaitItsTurn) {
  Start(2, "", 1);
  auto first = Send(uint64_t{1}, kStart);
  auto end = Send(uint64_t{1}, kEnd);
  auto next = Send(uint64_t{1}, kBoth);
  EXPECT_EQ(instance(1).inside(), 0u) << "never two of one id at a time";
  Finish(0);
  Finish(0);
  EXPECT_EQ(Running(0), "1");
  Finish(0);
  EXPECT_FALSE(next.waits());
}

TEST_F(SequenceModelTest, CancelsAllThatIsQueuedOfASequence) {
  Start(1, "", 1);
  auto runs = Send(uint64_t{1}, kStart);
  auto queued = Send(uint64_t{1});
  auto cancelled = Send(uint64_t{1});
  auto other = Send(uint64_t{2}, kBoth);
  cancelled.cancellation->Cancel();
  timers_.Run();
  EXPECT_EQ(cancelled.code(), StatusCode::kCancelled);
  EXPECT_EQ(queued.code(), StatusCode::kCancelled);
  EXPECT_EQ(failures(FailureReason::kCanceled), 2u);
  EXPECT_TRUE(runs.waits());
  EXPECT_EQ(Send(uint64_t{1}).error(), NeedsStart("1"));
  Finish();
  EXPECT_TRUE(runs.sink->status().ok());
  EXPECT_EQ(Running(), "2");
}

TEST_F(SequenceModelTest, CancelsASequenceInTheBacklog) {
  Start(1, "", 1);
  auto runs = Send(uint64_t{1}, kStart);
  auto start = Send(uint64_t{2}, kStart);
  auto middle = Send(uint64_t{2});
  auto last = Send(uint64_t{3}, kBoth);
  middle.cancellation->Cancel();
  timers_.Run();
  EXPECT_EQ(start.code(), StatusCode::kCancelled);
  EXPECT_EQ(failures(FailureReason::kCanceled), 2u);
  Send(uint64_t{1}, kEnd);
  Finish();
  Finish();
  EXPECT_EQ(Running(), "3");
}

TEST_F(SequenceModelTest, FreesTheSlotOfACancelledSequence) {
  Start(1, "direct { max_queue_delay_microseconds: 5000 minimum_slot_utilization: 1 }", 2);
  auto one = Send(uint64_t{1}, kStart);
  one.cancellation->Cancel();
  timers_.Run();
  EXPECT_EQ(model_->sequences()->counts().active, 0u);
  SequenceClient gone;
  gone.cancellation->Cancel();
  Send(gone, uint64_t{3}, kStart);
  EXPECT_EQ(gone.code(), StatusCode::kCancelled);
  EXPECT_EQ(model_->sequences()->counts().active, 0u);
}

TEST_F(SequenceModelTest, LosesTheSequencesOfADeadInstanceAlone) {
  Start(2, "", 2);
  auto lost = Send(uint64_t{1}, kStart);
  auto kept = Send(uint64_t{2}, kStart);
  auto idle = Send(uint64_t{3}, kStart);
  FinishAll();
  auto runs = Send(uint64_t{1});
  auto queued = Send(uint64_t{1});
  instance(0).Die();
  EXPECT_EQ(runs.error(), "the instance died");
  EXPECT_EQ(queued.sink->status(), UnavailableError(Lost("1")));
  EXPECT_EQ(Send(uint64_t{1}).sink->status(), UnavailableError(Lost("1")));
  EXPECT_EQ(Send(uint64_t{3}).error(), Lost("3"));
  auto goes_on = Send(uint64_t{2});
  EXPECT_EQ(Running(1), "2");
  auto anew = Send(uint64_t{1}, kStart);
  Finish(1);
  EXPECT_EQ(Running(1), "-,1");
  Finish(1);
  instance(0).Revive();
  EXPECT_TRUE(Send(uint64_t{1}).waits());
  EXPECT_TRUE(Send(uint64_t{4}, kStart).waits());
  EXPECT_EQ(Running(0), "4");
}

TEST_F(SequenceModelTest, MovesWhatHasNotBegunToAnotherInstance) {
  Start(2, "direct { max_queue_delay_microseconds: 5000 minimum_slot_utilization: 1 }", 2);
  auto one = Send(uint64_t{1}, kStart);
  auto two = Send(uint64_t{2}, kStart);
  instance(0).Die();
  EXPECT_EQ(Running(1), "2,1");
  EXPECT_TRUE(one.waits());
}

TEST_F(SequenceModelTest, RunsUnstartedSequencesElsewhere) {
  Start(2, "", 1);
  auto one = Send(uint64_t{1}, kStart);
  auto two = Send(uint64_t{1});
  instance(0).DieUnannounced();
  EXPECT_EQ(one.error(), "the instance died") << "its running execution is the one that began";
  EXPECT_TRUE(two.waits()) << "without a word of the death the turn has not ended";
  instance(0).listener_->OnAvailability(instance(0), false);
  EXPECT_EQ(two.error(), Lost("1"));
  auto three = Send(uint64_t{3}, kStart);
  EXPECT_EQ(Running(1), "3");
  // Handed over, and never begun.
  auto execution = instance(1).Take();
  std::vector<std::unique_ptr<Execution>> back;
  back.push_back(std::move(execution));
  instance(0).Revive();
  instance(1).listener_->OnAvailability(instance(1), false);
  EXPECT_EQ(instance(0).inside(), 0u);
  instance(1).listener_->OnUnstarted(instance(1), std::move(back));
  EXPECT_EQ(Running(0), "3");
  EXPECT_TRUE(three.waits());
}

TEST_F(SequenceModelTest, EndsAnOutageThatLasts) {
  Start(1, "", 1);
  instance().Die();
  auto one = Send(uint64_t{1}, kStart);
  timers_.Advance(4 * kSecond);
  EXPECT_TRUE(one.waits()) << "it cannot be idle while nothing runs";
  timers_.Advance(kSecond);
  EXPECT_EQ(
      one.error(),
      "no instance of model 'm' was available for 5000 ms (--outage-wait-ms): instances are restarting");
}

TEST_F(SequenceModelTest, BoundsWhatWaits) {
  Start(1, "", 1, false, {}, {.max_queue_size = 2});
  auto runs = Send(uint64_t{1}, kStart);
  auto one = Send(uint64_t{1});
  auto two = Send(uint64_t{2}, kStart);
  SequenceClient three;
  Send(three, uint64_t{3}, kStart, 1, 1, "r7");
  EXPECT_EQ(three.sink->status(), UnavailableError("[request id: r7] Exceeds maximum queue size"));
  EXPECT_EQ(failures(FailureReason::kRejected), 1u);
  EXPECT_EQ(model_->sequences()->counts().active, 2u);
}

TEST_F(SequenceModelTest, FeedsTheStateBack) {
  const int32_t zero = 0;
  Tensor initial{"IN_STATE", DataType::kInt32, {1, 1}, CopyToHeap(std::as_bytes(std::span(&zero, 1)))};
  Start(1, kState, 2, false, {initial});
  const auto answer = [](int32_t value) {
    InferenceResponse response;
    response.outputs.push_back({"X", DataType::kFp32, {1}, HeapAllocator().Allocate(4).value()});
    response.outputs.push_back(
        {"OUT_STATE", DataType::kInt32, {1, 1}, CopyToHeap(std::as_bytes(std::span(&value, 1)))});
    return response;
  };
  const auto state = [this](size_t row = 0) {
    return ValueOf<int32_t>(*instance().running().requests[row], "IN_STATE");
  };
  auto one = Send(uint64_t{1}, kStart);
  EXPECT_EQ(state(), 0);
  EXPECT_EQ(instance().running().requests[0]->requested_outputs,
            (std::vector<std::string>{"X", "OUT_STATE"}));
  auto two = Send(uint64_t{1});
  Finish(0, answer(5));
  ASSERT_EQ(one.sink->responses[0].outputs.size(), 1u);
  EXPECT_EQ(one.sink->responses[0].outputs[0].name, "X") << "the state is not the client's";
  EXPECT_EQ(state(), 5);
  SequenceClient three;
  Send(three, uint64_t{1}, kMiddle, 1, 1, "", {"X"});
  Finish();
  EXPECT_EQ(state(), 5) << "a response without it changes nothing";
  EXPECT_EQ(instance().running().requests[0]->requested_outputs,
            (std::vector<std::string>{"X", "OUT_STATE"}));
  InferenceResponse wrong = answer(6);
  wrong.outputs[1].type = DataType::kFp32;
  Finish(0, wrong);
  EXPECT_EQ(three.sink->status(), InternalError("model 'm' returned state 'OUT_STATE' as FP32 [1,1], but its "
                                                "configuration says INT32 [1,-1]"));
  auto other = Send(uint64_t{2}, kStart);
  EXPECT_EQ(Running(), "-,2");
  EXPECT_EQ(state(0), 0);
  EXPECT_EQ(state(1), 0) << "each sequence has its own";
  Finish(0, answer(8));
  auto again = Send(uint64_t{1}, kStart);
  EXPECT_EQ(state(), 0);
}

TEST_F(SequenceModelTest, GivesAModelBackWhatItKeepsWhereItHasNotGotIt) {
  saves_sequences_ = true;
  Start(1, "oldest { max_candidate_sequences: 4 }");
  const auto answer = [](const std::string& state) {
    InferenceResponse response;
    response.outputs.push_back({"X", DataType::kFp32, {1}, HeapAllocator().Allocate(4).value()});
    response.outputs.push_back({std::string(kSequenceStateTensor),
                                DataType::kUint8,
                                {1, static_cast<int64_t>(state.size())},
                                CopyToHeap(std::as_bytes(std::span(state)))});
    return response;
  };
  // The state that the running request brings; "-" for none.
  const auto given = [&](size_t row = 0) -> std::string {
    const InferenceRequest& request = *instance().running().requests[row];
    EXPECT_TRUE(request.requested_outputs.empty()) << "outputs are the client's business";
    if (request.inputs.back().name != kSequenceStateTensor) return "-";
    return std::string(request.inputs.back().data.text());
  };
  auto one = Send(uint64_t{1}, kStart);
  EXPECT_EQ(given(), "-");
  Finish(0, answer("first"));
  ASSERT_EQ(one.sink->responses.size(), 1u);
  ASSERT_EQ(one.sink->responses[0].outputs.size(), 1u) << "the state is not the client's";
  auto two = Send(uint64_t{1});
  EXPECT_EQ(given(), "-") << "it has it";
  Finish(0, answer("second"));

  auto bad = Send(uint64_t{1});
  InferenceResponse failed;
  failed.status = InternalError("no");
  Finish(0, failed);
  EXPECT_EQ(bad.error(), "no");
  auto three = Send(uint64_t{1});
  EXPECT_EQ(given(), "second") << "what it has made of the step that failed is not known";
  Finish(0, InferenceResponse());
  EXPECT_EQ(three.sink->status(), InternalError("model 'm' answered without the result of save_sequence"));

  auto four = Send(uint64_t{1});
  EXPECT_EQ(given(), "second");
  Finish(0, answer(""));
  auto other = Send(std::string("other"), kStart);
  Finish(0, answer("of the other"));
  std::vector<SavedSequence> saved = model_->sequences()->Save();
  ASSERT_EQ(saved.size(), 2u);
  auto last = Send(uint64_t{1}, kEnd);
  EXPECT_EQ(given(), "-");
  Finish(0, InferenceResponse());
  EXPECT_TRUE(last.sink->status().ok()) << "what ends is not saved";

  Stop();
  Start(1, "direct { }", 4);
  EXPECT_EQ(model_->sequences()->Restore(std::move(saved)), 2u);
  auto next = Send(std::string("other"));
  EXPECT_EQ(Running(), "-,other");
  EXPECT_EQ(given(1), "of the other");
  Finish(0, answer("of the other still"));
  auto empty = Send(uint64_t{1});
  EXPECT_EQ(given(), "") << "no bytes are a state too";
  Finish(0, answer("x"));
  instance().Die();
  instance().Revive();
  EXPECT_EQ(Send(uint64_t{1}).error(), Lost("1"));
}

TEST_F(SequenceModelTest, WaitsForTheAnswerThatCarriesTheState) {
  const int32_t zero = 0;
  Tensor initial{"IN_STATE", DataType::kInt32, {1, 1}, CopyToHeap(std::as_bytes(std::span(&zero, 1)))};
  Start(1, kState, 2, false, {initial});
  auto one = Send(uint64_t{1}, kStart);
  auto two = Send(uint64_t{1});
  auto execution = instance().Take();
  instance().listener_->OnExecuted(instance(), 1, 1, {});
  instance().listener_->OnDelivered(instance());
  EXPECT_EQ(instance().inside(), 0u) << "user code has returned, and answers later";
  instance().listener_->OnResponse(instance(), *execution->requests[0], InferenceResponse(), true, {});
  EXPECT_EQ(Running(), "1");
}

TEST_F(SequenceModelTest, GoesOnWhileADecoupledModelStillAnswers) {
  Start(1, "", 1, true);
  auto one = Send(uint64_t{1}, kStart);
  auto two = Send(uint64_t{1}, kEnd);
  auto execution = instance().Take();
  instance().listener_->OnExecuted(instance(), 1, 1, {});
  EXPECT_EQ(Running(), "1");
  EXPECT_EQ(instance().running().requests[0]->sequence_end, true);
  Finish();
  EXPECT_FALSE(two.waits());
  EXPECT_EQ(model_->sequences()->counts().active, 0u);
  instance().listener_->OnResponse(instance(), *execution->requests[0], std::nullopt, true, {});
  EXPECT_FALSE(one.waits());
}

TEST_F(SequenceModelTest, RunsAnIterativeRequestAgainUntilItIsReleased) {
  Start(1, std::string("iterative_sequence: true ") + kControls, 1);
  auto one = Send(uint64_t{0}, kEnd);
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_EQ(instance().inside(), 1u);
    const InferenceRequest& running = *instance().running().requests[0];
    EXPECT_EQ(running.inputs.size(), 5u);
    EXPECT_EQ(running.sequence_start, turn == 0);
    EXPECT_FALSE(running.sequence_end) << "the model never sees END";
    EXPECT_NE(std::get<uint64_t>(running.correlation_id), 0u);
    EXPECT_EQ(Controls(0).substr(0, 3), turn == 0 ? "110" : "010");
    if (turn == 2) break;
    auto execution = instance().Take();
    instance().listener_->OnExecuted(instance(), 1, 1, {});
    instance().listener_->OnRescheduled(instance(), std::move(execution->requests[0]));
    EXPECT_EQ(instance().inside(), 0u);
    instance().listener_->OnDelivered(instance());
  }
  Finish();
  EXPECT_TRUE(one.sink->ended);
  EXPECT_EQ(model_->sequences()->counts().active, 0u);
  EXPECT_EQ(stats().execution_count, 3u);
  EXPECT_EQ(stats().success.count, 1u);
}

TEST_F(SequenceModelTest, LetsNewIterativeRequestsJoinThoseThatGoOn) {
  Start(1, "iterative_sequence: true oldest { max_candidate_sequences: 4 }", 4);
  auto one = Send(uint64_t{11});
  auto two = Send(uint64_t{12});
  EXPECT_EQ(Running(), "11");
  timers_.Advance(kMs);
  auto execution = instance().Take();
  instance().listener_->OnExecuted(instance(), 1, 1, {});
  instance().listener_->OnRescheduled(instance(), std::move(execution->requests[0]));
  instance().listener_->OnDelivered(instance());
  EXPECT_EQ(Running(), "12,11");
  one.cancellation->Cancel();
  execution = instance().Take();
  instance().listener_->OnExecuted(instance(), 2, 2, {});
  for (auto& request : execution->requests) {
    instance().listener_->OnRescheduled(instance(), std::move(request));
  }
  instance().listener_->OnDelivered(instance());
  EXPECT_EQ(one.code(), StatusCode::kCancelled);
  EXPECT_EQ(Running(), "12");
}

TEST_F(SequenceModelTest, RefusesToRescheduleWithoutIterativeSequences) {
  Start(1, "", 1);
  auto one = Send(uint64_t{1}, kStart);
  auto execution = instance().Take();
  instance().listener_->OnExecuted(instance(), 1, 1, {});
  instance().listener_->OnRescheduled(instance(), std::move(execution->requests[0]));
  EXPECT_EQ(
      one.sink->status(),
      InternalError("Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is "
                    "not configured to handle such a flag."));
}

TEST_F(SequenceModelTest, StopsWithoutWaitingForIdleSequences) {
  Start(1, "", 1);
  auto one = Send(uint64_t{1}, kStart);
  Finish();
  model_->gate().Close();
  model_->Stop(timers_.NowNs());
  EXPECT_EQ(model_->sequences()->counts().active, 1u) << "for who looks at them afterwards";
  EXPECT_EQ(backend_->stop_deadline_ns_, timers_.NowNs());
  model_.reset();
}

TEST_F(SequenceModelTest, FailsWhatIsLeftAtTheDeadlineOfAStop) {
  Start(1, "", 1);
  auto runs = Send(uint64_t{1}, kStart);
  auto queued = Send(uint64_t{1});
  auto waits = Send(uint64_t{2}, kStart);
  model_->gate().Close();
  model_->Stop(0);
  EXPECT_EQ(runs.error(), "stopped by force");
  EXPECT_EQ(queued.error(), "Server exiting or model 'm' being unloaded: the request did not run in time");
  EXPECT_EQ(waits.code(), StatusCode::kUnavailable);
  model_.reset();
}

TEST_F(SequenceModelTest, SequencesBeginElsewhereWhileAnInstanceIsReplaced) {
  Start(2, kControls, 1);
  auto one = Send(uint64_t{1}, kStart);
  ExecutionListener& listener = *instance(0).listener_;
  EXPECT_EQ(Running(0), "1");
  EXPECT_EQ(listener.OnReplacing(instance(0), false), 1u);
  auto two = Send(uint64_t{2}, kStart);
  EXPECT_EQ(Running(1), "2");
  auto three = Send(uint64_t{3}, kBoth);
  Finish(0);
  EXPECT_EQ(Running(0), "none") << "three waits for the other instance";
  // A sequence that has begun there may continue.
  auto last = Send(uint64_t{1}, kEnd);
  EXPECT_EQ(Running(0), "1");
  Finish(0);
  EXPECT_EQ(listener.OnReplacing(instance(0), true), 0u);
  EXPECT_TRUE(three.waits());
  listener.OnReplaced(instance(0));
  EXPECT_EQ(Running(0), "3");
  FinishAll();
  EXPECT_TRUE(three.sink->status().ok());
}

}  // namespace
}  // namespace braid
