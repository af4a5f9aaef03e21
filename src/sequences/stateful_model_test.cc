#include "sequences/scheduled_model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <map>

#include "sequences/testing/stateful_harness.h"
#include "serving/faults.h"

namespace braid {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class StatefulModelTest : public ::testing::Test, protected StatefulHarness {
 protected:
  static std::string Text(braid::Fault code) { return FaultError(code).message(); }
  const std::string missing_ = Text(Fault::kSequenceMissing);
  const std::string exists_ = Text(Fault::kSequenceAlreadyExists);
  const std::string terminated_ = Text(Fault::kSequenceTerminated);
  const std::string too_many_ = Text(Fault::kMaxSequenceNumberReached);
  static constexpr char kStopped[] =
      "Server exiting or model 'm' being unloaded: the request did not run in time";
  static constexpr char kCancelled[] = "Request cancelled while it waited for model 'm'";
};

// --- What a client sees --------------------------------------------------------------------------

TEST_F(StatefulModelTest, TheStateGoesFromRequestToRequest) {
  Start(2);
  const StatefulClient start = Ask(uint64_t{7}, kStart, 1);
  EXPECT_EQ(start.sum(), 1);
  EXPECT_EQ(start.id(), 7u);
  ASSERT_EQ(start.outputs().size(), 3u);
  EXPECT_EQ(start.outputs()[0].name, "X");
  EXPECT_EQ(start.outputs()[1].name, "Y");
  EXPECT_EQ(start.outputs()[2].name, "sequence_id");
  EXPECT_EQ(start.outputs()[2].type, DataType::kUint64);
  EXPECT_EQ(start.outputs()[2].shape, Shape(1, 1));
  EXPECT_EQ(start.sink->responses.back().model_name, "m");
  EXPECT_EQ(start.sink->responses.back().model_version, 3);
  Ask(uint64_t{8}, kStart, 100);
  EXPECT_EQ(Ask(uint64_t{7}, kMiddle, 2).sum(), 3);
  EXPECT_EQ(Ask(uint64_t{8}, kMiddle, 100).sum(), 200);
  const StatefulClient end = Ask(uint64_t{7}, kEnd, 4);
  EXPECT_EQ(end.sum(), 7);
  EXPECT_EQ(end.id(), 7u);
  EXPECT_EQ(Ask(uint64_t{7}).error(), missing_);
  EXPECT_EQ(Ask(uint64_t{7}, kStart, 5).sum(), 5) << "it begins afresh";
  EXPECT_EQ(counts().started, 3u);
  EXPECT_EQ(counts().ended, 1u);
  EXPECT_EQ(counts().active, 2u);
  EXPECT_EQ(counts().rejected, 1u);
}

TEST_F(StatefulModelTest, TheTwoInputsNameTheSequence) {
  Start(1);
  const auto send = [&](uint64_t id, std::optional<uint32_t> control) {
    StatefulClient client;
    auto request = Make(client, uint64_t{0}, kMiddle);
    if (id != 0) {
      request->inputs.push_back(
          {"sequence_id", DataType::kUint64, Shape(1, 1), CopyToHeap(std::as_bytes(std::span(&id, 1)))});
    }
    if (control) {
      request->inputs.push_back({"sequence_control_input", DataType::kUint32, Shape(1, 1),
                                 CopyToHeap(std::as_bytes(std::span(&*control, 1)))});
    }
    model_->Infer(std::move(request));
    if (client.waits()) Finish();
    return client;
  };
  EXPECT_EQ(send(0, 1).id(), 1u);
  EXPECT_EQ(send(1, 0).sum(), 2);
  EXPECT_EQ(send(1, std::nullopt).sum(), 3);
  EXPECT_EQ(send(1, 2).sum(), 4);
  EXPECT_EQ(send(1, 2).error(), missing_);
  EXPECT_EQ(send(0, 2).error(), Text(Fault::kSequenceIdNotProvided));
  EXPECT_EQ(send(1, 3).error(), Text(Fault::kInvalidSequenceControlInput));
}

TEST_F(StatefulModelTest, TextsNameNoSequence) {
  Start(1);
  const StatefulClient client = Send(std::string("one"), kStart);
  EXPECT_EQ(client.sink->status(),
            InvalidArgumentError("a sequence of a stateful model needs a numeric id, not 'one'"));
  EXPECT_EQ(Send(std::string(), kMiddle).error(), Text(Fault::kSequenceIdNotProvided));
  EXPECT_EQ(Ask(std::string(), kStart).id(), 1u);
}

TEST_F(StatefulModelTest, ChecksTheRequestBeforeTheSequence) {
  Start(1);
  StatefulClient client;
  auto request = Make(client, uint64_t{1}, kStart);
  request->inputs[0].shape = {1, 1};
  model_->Infer(std::move(request));
  EXPECT_EQ(client.error(),
            "Invalid number of shape dimensions - Expected: (1); Actual: (1,1); input name: A");
  EXPECT_EQ(counts().started, 0u);
  EXPECT_EQ(counts().rejected, 0u);
  EXPECT_EQ(client.sink->responses.back().model_name, "");
}

TEST_F(StatefulModelTest, GivesTheOutputsThatWereAskedFor) {
  Start(1);
  const auto names = [&](std::vector<std::string> wanted, unsigned flags) {
    StatefulClient client;
    auto request = Make(client, uint64_t{1}, flags);
    request->requested_outputs = std::move(wanted);
    model_->Infer(std::move(request));
    if (client.waits()) Finish();
    if (!client.ok()) return client.error();
    std::string names;
    for (const Tensor& output : client.outputs()) names += output.name + " ";
    return names;
  };
  EXPECT_EQ(names({"Y"}, kStart), "Y ");
  EXPECT_EQ(names({"sequence_id"}, kMiddle), "sequence_id ");
  EXPECT_EQ(names({"sequence_id", "X"}, kMiddle), "X sequence_id ");
  EXPECT_EQ(names({"sum"}, kMiddle), "requested output 'sum' is not an output of 'm'");
  EXPECT_EQ(names({"sequence_id", "sequence_id"}, kMiddle),
            "output 'sequence_id' is requested more than once");
  EXPECT_EQ(Ask(uint64_t{1}).sum(), 4);
}

TEST_F(StatefulModelTest, RefusalsAreCounted) {
  Start(1);
  EXPECT_EQ(Ask(uint64_t{1}).sink->status(), FaultError(Fault::kSequenceMissing));
  Ask(uint64_t{1}, kStart);
  EXPECT_EQ(Ask(uint64_t{1}, kStart).sink->status(), FaultError(Fault::kSequenceAlreadyExists));
  EXPECT_EQ(counts().rejected, 2u);
  EXPECT_EQ(failures(FailureReason::kRejected), 2u);
  EXPECT_EQ(stats().success.count, 1u);
  EXPECT_EQ(stats().execution_count, 1u);
  EXPECT_EQ(model_->gate().inside(), 0u);
}

TEST_F(StatefulModelTest, LooksAtTheCapacityFirst) {
  stateful_.max_sequences = 2;
  Start(1);
  Ask(uint64_t{1}, kStart);
  Ask(uint64_t{2}, kStart);
  EXPECT_EQ(Ask(uint64_t{3}, kStart).error(), too_many_);
  EXPECT_EQ(Ask(uint64_t{1}, kStart).error(), too_many_);
  EXPECT_EQ(Ask(uint64_t{0}, kStart).sink->status(), FaultError(Fault::kMaxSequenceNumberReached));
  Ask(uint64_t{1}, kEnd);
  EXPECT_EQ(Ask(uint64_t{3}, kStart).id(), 3u);
}

TEST_F(StatefulModelTest, GivesIds) {
  Start(1);
  EXPECT_EQ(Ask(uint64_t{0}, kStart).id(), 1u);
  Ask(uint64_t{1}, kEnd);
  EXPECT_EQ(Ask(uint64_t{0}, kStart).id(), 1u);
  EXPECT_EQ(Ask(uint64_t{0}, kStart).id(), 2u);
  EXPECT_EQ(Ask(uint64_t{0}, kStart).id(), 3u);
  EXPECT_EQ(Ask(uint64_t{3}).sum(), 2);
}

// --- Turns ---------------------------------------------------------------------------------------

TEST_F(StatefulModelTest, AnEndThatRunsKeepsTheId) {
  Start(2);
  Ask(uint64_t{5}, kStart);
  const StatefulClient end = Send(uint64_t{5}, kEnd);
  EXPECT_EQ(Send(uint64_t{5}, kStart).sink->status(), FaultError(Fault::kSequenceTerminated));
  EXPECT_EQ(Send(uint64_t{5}).sink->status(), FaultError(Fault::kSequenceMissing));
  EXPECT_EQ(Send(uint64_t{5}, kEnd).error(), missing_);
  // The id is free before the client can know that the sequence has ended.
  StatefulClient again;
  end.sink->on_response = [&] { model_->Infer(Make(again, uint64_t{5}, kStart, 9)); };
  Finish();
  EXPECT_TRUE(end.ok());
  for (size_t i = 0; i < 2; ++i) {
    if (instance(i).inside() > 0) Finish(i);
  }
  EXPECT_EQ(again.sum(), 9);
}

TEST_F(StatefulModelTest, RequestsOfASequenceRunOneAtATime) {
  Start(2);
  Ask(uint64_t{1}, kStart, 1);
  const StatefulClient first = Send(uint64_t{1}, kMiddle, 2);
  const StatefulClient second = Send(uint64_t{1}, kMiddle, 4);
  const StatefulClient third = Send(uint64_t{1}, kEnd, 8);
  EXPECT_EQ(model_->pending_requests(), 2);
  const StatefulClient other = Send(uint64_t{2}, kStart, 100);
  EXPECT_EQ(Running(0), 1u);
  EXPECT_EQ(Running(1), 2u);
  Finish(0);
  EXPECT_EQ(first.sum(), 3);
  EXPECT_TRUE(second.waits());
  Finish(0);
  EXPECT_EQ(second.sum(), 7);
  Finish(0);
  EXPECT_EQ(third.sum(), 15);
  Finish(1);
  EXPECT_EQ(other.sum(), 100);
  EXPECT_EQ(model_->pending_requests(), 0);
  EXPECT_EQ(counts().active, 1u);
  EXPECT_EQ(model_->gate().inside(), 0u);
}

TEST_F(StatefulModelTest, TheQueueBeginsWhereTheRequestCame) {
  Start(1);
  Ask(uint64_t{1}, kStart);
  Send(uint64_t{1});
  Send(uint64_t{1});
  const uint64_t before = stats().queue.ns;
  timers_.Advance(kSecond);
  Finish();
  EXPECT_EQ(stats().queue.ns - before, 0u);
  Finish();
  EXPECT_EQ(stats().queue.ns - before, static_cast<uint64_t>(kSecond)) << "it waited for its turn";
  EXPECT_EQ(stats().success.count, 3u);
}

TEST_F(StatefulModelTest, ResponsesOfASequenceLeaveInTheirOrder) {
  Start(2);
  Ask(uint64_t{1}, kStart);
  const StatefulClient first = Send(uint64_t{1});
  StatefulClient second;
  first.sink->on_response = [&] {
    model_->Infer(Make(second, uint64_t{1}, kMiddle));
    EXPECT_EQ(instance(0).inside() + instance(1).inside(), 0u) << "the first is still being delivered";
  };
  Finish();
  EXPECT_EQ(instance(0).inside() + instance(1).inside(), 1u);
  Finish(Running(0) != 0 ? 0 : 1);
  EXPECT_EQ(second.sum(), 3);
}

TEST_F(StatefulModelTest, ALongQueueDoesNotDeepenTheStack) {
  Start(1);
  Ask(uint64_t{1}, kStart, 0);
  std::vector<StatefulClient> clients;
  const auto* base = static_cast<const char*>(__builtin_frame_address(0));
  ptrdiff_t deepest = 0;
  instance().answer_ = [&](const InferenceRequest& request) {
    const auto* here = static_cast<const char*>(__builtin_frame_address(0));
    deepest = std::max(deepest, std::abs(base - here));
    // The others come while the first runs on its caller's thread, and would run there too.
    for (int i = 0; clients.size() < 2000; ++i) clients.push_back(Send(uint64_t{1}));
    return Sum(request);
  };
  instance().runs_here_ = true;
  EXPECT_EQ(Send(uint64_t{1}).sum(), 1);
  EXPECT_EQ(clients[6].sum(), 8);
  EXPECT_TRUE(clients[7].waits()) << "a thread has other clients to look after";
  while (instance().inside() > 0) Finish();
  EXPECT_EQ(clients.back().sum(), 2001);
  EXPECT_LT(deepest, 32 << 10);
}

TEST_F(StatefulModelTest, ALongQueueThatFailsDoesNotDeepenTheStack) {
  Start(1);
  Ask(uint64_t{1}, kStart, 0);
  std::vector<StatefulClient> clients;
  for (int i = 0; i < 2000; ++i) clients.push_back(Send(uint64_t{1}));
  const auto* base = static_cast<const char*>(__builtin_frame_address(0));
  ptrdiff_t deepest = 0;
  for (StatefulClient& client : clients) {
    client.sink->on_response = [&] {
      const auto* here = static_cast<const char*>(__builtin_frame_address(0));
      deepest = std::max(deepest, std::abs(base - here));
    };
  }
  instance().Die();
  EXPECT_EQ(clients[0].error(), "the instance died");
  timers_.Advance(60 * kSecond);
  EXPECT_EQ(
      clients[1].error(),
      "no instance of model 'm' was available for 5000 ms (--outage-wait-ms): instances are restarting");
  EXPECT_EQ(clients.back().error(), clients[1].error());
  EXPECT_LT(deepest, 32 << 10);
  instance().Revive();
  EXPECT_EQ(Ask(uint64_t{1}).sum(), 1) << "the state is as it was";
}

// A client whose next request runs within the answer to an end needs only the stack of one request.
TEST_F(StatefulModelTest, RequestsThatRunOnTheirCallersThreadDoNotDeepenTheStack) {
  Start(1);
  instance().runs_here_ = true;
  EXPECT_EQ(Send(uint64_t{1}, kStart, 0).sum(), 0);
  int depth = 0;
  int deepest = 0;
  std::deque<StatefulClient> clients(1);
  std::function<void()> next = [&] {
    if (clients.size() >= 500) return;
    deepest = std::max(deepest, ++depth);
    StatefulClient& client = clients.emplace_back();
    client.sink->on_response = next;
    model_->Infer(Make(client, uint64_t{1}, kMiddle));
    --depth;
  };
  clients.front().sink->on_response = next;
  model_->Infer(Make(clients.front(), uint64_t{1}, kMiddle));
  while (instance().inside() > 0) Finish();
  EXPECT_EQ(clients.size(), 500u);
  EXPECT_EQ(clients.back().sum(), 500);
  EXPECT_EQ(deepest, 1);
}

TEST_F(StatefulModelTest, OnlySoManyWait) {
  InstancePool::Options options;
  options.max_queue_size = 2;
  Start(1, options);
  Ask(uint64_t{1}, kStart);
  Send(uint64_t{1});
  Send(uint64_t{1});
  Send(uint64_t{1});
  const StatefulClient client = Send(uint64_t{1}, kEnd);
  EXPECT_EQ(
      client.error(),
      "[request id: <id_unknown>] Exceeds maximum queue size: 2 requests wait for sequences of model 'm', "
      "the server's limit for one model");
  EXPECT_EQ(client.code(), StatusCode::kUnavailable);
  Finish();
  Finish();
  Finish();
  EXPECT_EQ(Ask(uint64_t{1}).sum(), 5) << "it has not ended";
}

// --- Failures ------------------------------------------------------------------------------------

TEST_F(StatefulModelTest, NothingIsLeftOfAFailedStart) {
  Start(1);
  const StatefulClient start = Send(uint64_t{1}, kStart);
  const StatefulClient step = Send(uint64_t{1});
  const StatefulClient end = Send(uint64_t{1}, kEnd);
  Fail();
  EXPECT_EQ(start.error(), "the backend has failed");
  EXPECT_EQ(step.sink->status(), FaultError(Fault::kSequenceMissing));
  EXPECT_EQ(end.error(), missing_);
  EXPECT_EQ(counts().lost, 1u);
  EXPECT_EQ(counts().rejected, 2u);
  EXPECT_EQ(failures(FailureReason::kBackend), 1u);
  EXPECT_EQ(failures(FailureReason::kRejected), 2u);
  EXPECT_EQ(Ask(uint64_t{1}, kStart, 3).sum(), 3);
}

TEST_F(StatefulModelTest, AFailedStepLeavesTheStateAsItWas) {
  Start(1);
  Ask(uint64_t{1}, kStart, 1);
  const StatefulClient step = Send(uint64_t{1}, kMiddle, 10);
  const StatefulClient next = Send(uint64_t{1}, kMiddle, 2);
  Fail();
  Finish();
  EXPECT_EQ(step.error(), "the backend has failed");
  EXPECT_EQ(next.sum(), 3);
}

TEST_F(StatefulModelTest, AFailedEndCanBeSentAgain) {
  Start(1);
  Ask(uint64_t{1}, kStart, 1);
  const StatefulClient end = Send(uint64_t{1}, kEnd, 10);
  Fail();
  EXPECT_EQ(end.error(), "the backend has failed");
  EXPECT_EQ(Ask(uint64_t{1}, kStart).error(), exists_);
  EXPECT_EQ(Ask(uint64_t{1}, kMiddle, 1).sum(), 2);
  EXPECT_EQ(Ask(uint64_t{1}, kEnd, 1).sum(), 3);
  EXPECT_EQ(counts().ended, 1u);
}

TEST_F(StatefulModelTest, ASequenceMayBeOneRequest) {
  Start(1);
  const StatefulClient only = Send(uint64_t{0}, kBoth, 4);
  EXPECT_EQ(Send(uint64_t{1}).error(), missing_);
  EXPECT_EQ(Send(uint64_t{1}, kStart).error(), terminated_);
  Finish();
  EXPECT_EQ(only.sum(), 4);
  EXPECT_EQ(only.id(), 1u);
  EXPECT_EQ(counts().ended, 1u);
  Send(uint64_t{1}, kBoth);
  Fail();
  EXPECT_EQ(counts().lost, 1u);
  EXPECT_EQ(counts().active, 0u);
}

TEST_F(StatefulModelTest, StatesThatAreNotTheModelsAreAnError) {
  Start(1);
  Ask(uint64_t{1}, kStart, 1);
  const StatefulClient few = Send(uint64_t{1});
  FinishWith([](const InferenceRequest&) { return InferenceResponse(); });
  EXPECT_EQ(few.error(), "model 'm' returned invalid states: there are 0 states, but the model has 1");
  EXPECT_EQ(few.code(), StatusCode::kInternal);
  EXPECT_TRUE(few.outputs().empty());
  const StatefulClient other = Send(uint64_t{1}, kEnd);
  FinishWith([](const InferenceRequest& request) {
    InferenceResponse response = Sum(request);
    response.outputs.back().type = DataType::kInt32;
    return response;
  });
  EXPECT_EQ(other.error(),
            "model 'm' returned invalid states: state 'sum' is INT32 [1], but the model has FP32 [1]");
  EXPECT_EQ(stats().success.count, 1u);
  EXPECT_EQ(failures(FailureReason::kBackend), 2u);
  EXPECT_EQ(Ask(uint64_t{1}, kMiddle, 1).sum(), 2);
}

TEST_F(StatefulModelTest, AnInstanceThatDiesTakesNoStateAlong) {
  Start(2);
  Ask(uint64_t{1}, kStart, 1);
  const StatefulClient step = Send(uint64_t{1}, kMiddle, 10);
  const StatefulClient next = Send(uint64_t{1}, kMiddle, 2);
  instance(0).Die();
  EXPECT_EQ(step.error(), "the instance died");
  EXPECT_EQ(Running(1), 1u);
  Finish(1);
  EXPECT_EQ(next.sum(), 3);
  instance(0).Revive();
  EXPECT_EQ(Ask(uint64_t{1}, kEnd, 1).sum(), 4);
}

TEST_F(StatefulModelTest, WhatAnInstanceNeverBeganRunsElsewhere) {
  Start(2);
  Ask(uint64_t{1}, kStart, 1);
  Ask(uint64_t{2}, kStart, 1);
  const StatefulClient one = Send(uint64_t{1}, kMiddle, 1);
  instance(0).listener_->OnUnstarted(instance(0), [&] {
    std::vector<std::unique_ptr<Execution>> executions;
    executions.push_back(instance(0).Take());
    return executions;
  }());
  EXPECT_EQ(Running(1), 1u);
  Finish(1);
  EXPECT_EQ(one.sum(), 2) << "its state went along, once";
}

// --- Cancellations -------------------------------------------------------------------------------

class StatefulCancellation : public StatefulModelTest {
 protected:
  // One instance, which is busy with another request.
  void Occupy() {
    Start(1);
    Ask(uint64_t{1}, kStart, 1);
    Ask(uint64_t{99}, kStart, 1);
  }
  StatefulClient Block() { return Send(uint64_t{99}); }
  void Cancel(const StatefulClient& client) {
    client.cancellation->Cancel();
    EXPECT_TRUE(client.waits()) << "not within the cancellation";
    Tick();
    EXPECT_EQ(client.error(), kCancelled);
    EXPECT_EQ(client.code(), StatusCode::kCancelled);
  }
};

TEST_F(StatefulCancellation, AStepThatWaitsForItsTurnIsSkipped) {
  Occupy();
  const StatefulClient first = Send(uint64_t{1}, kMiddle, 2);
  const StatefulClient second = Send(uint64_t{1}, kMiddle, 10);
  const StatefulClient third = Send(uint64_t{1}, kMiddle, 4);
  Cancel(second);
  Finish();
  Finish();
  EXPECT_EQ(first.sum(), 3);
  EXPECT_EQ(third.sum(), 7);
  EXPECT_EQ(failures(FailureReason::kCanceled), 1u);
}

TEST_F(StatefulCancellation, AStepThatWaitsForAnInstanceIsSkipped) {
  Occupy();
  Block();
  const StatefulClient step = Send(uint64_t{1}, kMiddle, 10);
  const StatefulClient next = Send(uint64_t{1}, kMiddle, 1);
  Cancel(step);
  Finish();
  Finish();
  EXPECT_EQ(next.sum(), 2);
}

TEST_F(StatefulCancellation, AStartThatWaitsForAnInstanceLeavesNothing) {
  Occupy();
  Block();
  const StatefulClient start = Send(uint64_t{2}, kStart);
  const StatefulClient step = Send(uint64_t{2});
  Cancel(start);
  EXPECT_EQ(step.error(), missing_);
  EXPECT_EQ(counts().lost, 1u);
  EXPECT_EQ(counts().active, 2u);
}

TEST_F(StatefulCancellation, AnEndThatWaitsForItsTurnEndsTheSequence) {
  Occupy();
  const StatefulClient first = Send(uint64_t{1}, kMiddle, 2);
  const StatefulClient second = Send(uint64_t{1}, kMiddle, 4);
  const StatefulClient end = Send(uint64_t{1}, kEnd, 10);
  Cancel(end);
  EXPECT_EQ(Send(uint64_t{1}).error(), missing_);
  EXPECT_EQ(Send(uint64_t{1}, kStart).error(), terminated_);
  Finish();
  EXPECT_EQ(counts().ended, 0u);
  Finish();
  EXPECT_EQ(second.sum(), 7);
  EXPECT_EQ(counts().ended, 1u);
  EXPECT_EQ(Ask(uint64_t{1}, kStart, 5).sum(), 5);
}

TEST_F(StatefulCancellation, AnEndThatWaitsForAnInstanceEndsTheSequence) {
  Occupy();
  Block();
  const StatefulClient end = Send(uint64_t{1}, kEnd);
  Cancel(end);
  EXPECT_EQ(counts().ended, 1u);
  EXPECT_EQ(Send(uint64_t{1}).error(), missing_);
}

TEST_F(StatefulCancellation, WhatRunsIsTheBackends) {
  Occupy();
  const StatefulClient end = Send(uint64_t{1}, kEnd, 10);
  end.cancellation->Cancel();
  Tick();
  EXPECT_TRUE(end.waits());
  FinishWith([](const InferenceRequest&) {
    InferenceResponse response;
    response.status = CancelledError("stopped in the middle");
    return response;
  });
  EXPECT_EQ(end.error(), "stopped in the middle");
  EXPECT_EQ(counts().ended, 0u) << "it ran and failed";
  EXPECT_EQ(Ask(uint64_t{1}, kMiddle, 1).sum(), 2);
}

TEST_F(StatefulCancellation, AClientMayHaveGoneBeforeItsRequestComes) {
  Occupy();
  StatefulClient gone;
  gone.cancellation->Cancel();
  const StatefulClient step = Send(uint64_t{1}, kMiddle, 1);
  model_->Infer(Make(gone, uint64_t{1}, kMiddle));
  EXPECT_EQ(gone.error(), kCancelled);
  StatefulClient end;
  end.cancellation->Cancel();
  model_->Infer(Make(end, uint64_t{1}, kEnd));
  EXPECT_EQ(end.error(), kCancelled);
  Finish();
  EXPECT_EQ(step.sum(), 2);
  EXPECT_EQ(counts().ended, 1u);
}

// --- The cleaner, and dropped sequences ----------------------------------------------------------

TEST_F(StatefulModelTest, TheCleanerEndsWhatNobodyUses) {
  Start(1);
  Ask(uint64_t{1}, kStart);
  Ask(uint64_t{2}, kStart);
  keeper().CleanUp();
  Ask(uint64_t{2});
  keeper().CleanUp();
  EXPECT_EQ(Ask(uint64_t{1}).sink->status(), FaultError(Fault::kSequenceMissing));
  EXPECT_EQ(Ask(uint64_t{2}).sum(), 3);
  EXPECT_EQ(counts().expired, 1u);
  EXPECT_EQ(Ask(uint64_t{0}, kStart).id(), 1u) << "the id is free again";
}

TEST_F(StatefulModelTest, TheCleanerLeavesAModelAloneThatSaysSo) {
  stateful_.idle_cleanup = false;
  Start(1);
  Ask(uint64_t{1}, kStart);
  for (int i = 0; i < 3; ++i) keeper().CleanUp();
  EXPECT_EQ(Ask(uint64_t{1}).sum(), 2);
}

TEST_F(StatefulModelTest, ASequenceCanBeDropped) {
  Start(1);
  Ask(uint64_t{1}, kStart, 1);
  const StatefulClient step = Send(uint64_t{1}, kMiddle, 1);
  const StatefulClient waiting = Send(uint64_t{1}, kMiddle, 1);
  keeper().Drop(uint64_t{1});
  keeper().Drop(uint64_t{2});
  keeper().Drop(std::string("1"));
  EXPECT_EQ(waiting.sink->status(), FaultError(Fault::kSequenceMissing));
  EXPECT_EQ(counts().lost, 1u);
  EXPECT_EQ(counts().active, 0u);
  EXPECT_EQ(Send(uint64_t{1}).error(), missing_);
  const StatefulClient start = Send(uint64_t{1}, kStart, 50);
  Finish();
  EXPECT_EQ(step.sum(), 2) << "what runs is answered";
  Finish();
  EXPECT_EQ(start.sum(), 50);
  EXPECT_EQ(Ask(uint64_t{1}, kMiddle, 1).sum(), 51) << "and leaves the new sequence alone";
}

// --- Restarts of a model -------------------------------------------------------------------------

std::vector<SavedSequence> Saved(std::initializer_list<std::pair<uint64_t, float>> sequences) {
  std::vector<SavedSequence> saved;
  for (const auto& [id, sum] : sequences) saved.push_back({id, {FloatTensor("sum", sum)}});
  return saved;
}

TEST_F(StatefulModelTest, SavesWhatStandsBetweenRequests) {
  Start(2);
  EXPECT_TRUE(keeper().savable());
  EXPECT_EQ(keeper().identity(), "m/3");
  Ask(uint64_t{1}, kStart, 1);
  const uint64_t changes = keeper().changes();
  Send(uint64_t{1}, kMiddle, 2);
  Send(uint64_t{2}, kStart, 1);
  EXPECT_EQ(keeper().changes(), changes);
  auto saved = keeper().Save();
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].id, CorrelationId(uint64_t{1}));
  EXPECT_EQ(ValueIn<float>(saved[0].states, "sum"), 1);
  Finish(0);
  EXPECT_GT(keeper().changes(), changes);
  saved = keeper().Save();
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(ValueIn<float>(saved[0].states, "sum"), 3);
  Send(uint64_t{1}, kEnd);
  EXPECT_TRUE(keeper().Save().empty()) << "its last request has come";
  Fail(0);
  EXPECT_EQ(keeper().Save().size(), 1u) << "and has failed";
  Finish(1);
}

TEST_F(StatefulModelTest, AStepCanBeTakenBack) {
  Start(1);
  EXPECT_EQ(keeper().Mark(uint64_t{1}), nullptr);
  Ask(uint64_t{1}, kStart, 1);
  EXPECT_EQ(keeper().Mark(std::string("1")), nullptr);
  const TakeBackSteps take_back = keeper().Mark(uint64_t{1});
  ASSERT_NE(take_back, nullptr);
  EXPECT_EQ(Ask(uint64_t{1}, kMiddle, 10).sum(), 11);
  take_back(1);
  EXPECT_EQ(Ask(uint64_t{1}, kMiddle, 2).sum(), 3);
  EXPECT_EQ(Ask(uint64_t{1}, kMiddle, 2).sum(), 5);
  take_back(1);
  EXPECT_EQ(Ask(uint64_t{1}, kEnd, 2).sum(), 7) << "others have gone on from there";
  take_back(1);
  EXPECT_EQ(Ask(uint64_t{1}).error(), missing_);
}

TEST_F(StatefulModelTest, SequencesGoOnAfterARestore) {
  stateful_.max_sequences = 3;
  Start(1);
  Ask(uint64_t{2}, kStart, 7);
  auto saved = Saved({{1, 10}, {2, 20}, {0, 1}, {3, 30}, {4, 40}});
  saved[3].states[0].shape = {2};
  EXPECT_EQ(keeper().Restore(std::move(saved)), 2u);
  EXPECT_EQ(Ask(uint64_t{1}, kMiddle, 1).sum(), 11);
  EXPECT_EQ(Ask(uint64_t{2}, kMiddle, 1).sum(), 8);
  EXPECT_EQ(Ask(uint64_t{3}).error(), missing_);
  EXPECT_EQ(Ask(uint64_t{4}, kEnd, 1).sum(), 41);
  EXPECT_EQ(counts().restored, 2u);
  EXPECT_EQ(counts().active, 2u);
}

TEST_F(StatefulModelTest, RequestsWaitForTheRestore) {
  Start(1);
  keeper().HoldUntilRestored(timers_.NowNs() + kSecond);
  const StatefulClient step = Send(uint64_t{1}, kMiddle, 1);
  const StatefulClient start = Send(uint64_t{1}, kStart);
  const StatefulClient other = Send(uint64_t{2}, kStart, 5);
  const StatefulClient end = Send(uint64_t{1}, kEnd, 1);
  const StatefulClient gone = Send(uint64_t{1});
  EXPECT_EQ(model_->pending_requests(), 5);
  EXPECT_EQ(counts().rejected, 0u);
  gone.cancellation->Cancel();
  Tick();
  EXPECT_EQ(gone.error(), kCancelled);
  EXPECT_EQ(keeper().Restore(Saved({{1, 10}})), 1u);
  EXPECT_EQ(start.error(), exists_);
  EXPECT_EQ(timers_.size(), 0u);
  Finish();
  Finish();
  Finish();
  EXPECT_EQ(step.sum(), 11);
  EXPECT_EQ(end.sum(), 12);
  EXPECT_EQ(other.sum(), 5);
  EXPECT_EQ(model_->pending_requests(), 0);
}

TEST_F(StatefulModelTest, RequestsDoNotWaitForEverForTheRestore) {
  Start(1);
  keeper().HoldUntilRestored(timers_.NowNs() + kSecond);
  const StatefulClient step = Send(uint64_t{1});
  const StatefulClient start = Send(uint64_t{1}, kStart, 3);
  timers_.Advance(kSecond - 1);
  EXPECT_TRUE(step.waits());
  timers_.Advance(1);
  EXPECT_EQ(step.error(), missing_);
  Finish();
  EXPECT_EQ(start.sum(), 3);
  EXPECT_EQ(keeper().Restore(Saved({{1, 10}, {2, 20}})), 1u) << "late, but better than not";
  EXPECT_EQ(Ask(uint64_t{2}).sum(), 21);
  EXPECT_EQ(Ask(uint64_t{1}).sum(), 4);
}

TEST_F(StatefulModelTest, OnlySoManyWaitForTheRestore) {
  InstancePool::Options options;
  options.max_queue_size = 1;
  Start(1, options);
  keeper().HoldUntilRestored(timers_.NowNs() + kSecond);
  Send(uint64_t{1});
  EXPECT_EQ(Send(uint64_t{1}).code(), StatusCode::kUnavailable);
  StatefulClient gone;
  gone.cancellation->Cancel();
  model_->Infer(Make(gone, uint64_t{1}, kMiddle));
  EXPECT_EQ(gone.error(), kCancelled);
}

TEST_F(StatefulModelTest, StopAnswersAllAndKeepsWhatCanBeSaved) {
  Start(1);
  Ask(uint64_t{1}, kStart, 1);
  Ask(uint64_t{2}, kStart, 5);
  const StatefulClient running = Send(uint64_t{1}, kMiddle, 10);
  const StatefulClient queued = Send(uint64_t{2}, kEnd, 10);
  const StatefulClient waiting = Send(uint64_t{1}, kMiddle, 10);
  const StatefulClient end = Send(uint64_t{1}, kEnd, 10);
  const StatefulClient cancelled = Send(uint64_t{2});
  EXPECT_EQ(cancelled.error(), missing_);
  model_->gate().Close();
  model_->Stop(0);
  EXPECT_EQ(running.error(), "stopped by force");
  for (const StatefulClient* client : {&queued, &waiting, &end}) EXPECT_EQ(client->error(), kStopped);
  EXPECT_EQ(model_->gate().inside(), 0u);
  std::map<uint64_t, float> sums;
  for (const SavedSequence& saved : keeper().Save()) {
    sums[std::get<uint64_t>(saved.id)] = ValueIn<float>(saved.states, "sum");
  }
  EXPECT_EQ(sums, (std::map<uint64_t, float>{{1, 1}, {2, 5}})) << "none of what failed has happened";
}

TEST_F(StatefulModelTest, StopEndsWhatWaitsForTheRestore) {
  Start(1);
  keeper().HoldUntilRestored(timers_.NowNs() + kSecond);
  const StatefulClient step = Send(uint64_t{1});
  const StatefulClient gone = Send(uint64_t{1});
  gone.cancellation->Cancel();
  model_->gate().Close();
  model_->Stop(0);
  EXPECT_EQ(step.error(), kStopped);
  EXPECT_EQ(gone.error(), kCancelled);
  EXPECT_EQ(keeper().Restore(Saved({{1, 10}})), 0u);
}

TEST_F(StatefulModelTest, SaysWhatTheBackendSays) {
  Start(1);
  backend_->readiness_ = {false, "an instance is being restarted"};
  EXPECT_FALSE(model_->readiness().ready);
  std::string reason;
  model_->CheckReadiness([&](const Readiness& readiness) { reason = readiness.reason; });
  EXPECT_EQ(reason, "an instance is being restarted");
}

TEST_F(StatefulModelTest, ABackendThatDoesNotStartIsAnError) {
  ServableInfo info;
  info.name = "m";
  info.stateful = StatefulSpec{};
  info.config = std::make_shared<const inference::ModelConfig>();
  auto backend = std::make_unique<FakeBackendModel>(1);
  backend->start_status_ = UnavailableError("no device");
  auto model = StartModel(std::move(info), std::move(backend), timers_, log_, {}, {});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().message(), "no device");
}

}  // namespace
}  // namespace braid
