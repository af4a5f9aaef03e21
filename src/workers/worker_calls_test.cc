#include "workers/worker_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/clock.h"
#include "ipc/arena.h"
#include "workers/testing/holding_servable.h"

namespace braid {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// The test plays the worker: it owns the other end of the channel.
class WorkerCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    Channel::WorkerEnd end;
    auto channel = Channel::CreateServerEnd({}, end);
    ASSERT_TRUE(channel.ok()) << channel.status();
    channel_ = std::move(channel).value();
    auto worker = Channel::OpenWorkerEnd(std::move(end));
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = std::move(worker).value();
    memory_ = std::make_shared<WorkerMemory>(channel_, arena_);
    calls_ = std::make_shared<WorkerCalls>(channel_, memory_, catalog_);
    catalog_.Publish(callee_);
    catalog_.Publish(stream_);
  }

  static CallMessage Call(uint64_t id, std::string_view model = "callee") {
    CallMessage call;
    call.model_name = model;
    call.request.id = id;
    return call;
  }
  Status Begin(const CallMessage& call) { return calls_->Begin(call, nullptr, nullptr, 0); }

  // Returns the worker's next response, which points into `message_`.
  ResponseMessage Receive() {
    ResponseMessage response;
    if (worker_->Receive(message_, 0) != Channel::Outcome::kMessage) {
      // In the server, the receiving thread does this when the worker reports free space.
      channel_->Flush();
      EXPECT_EQ(worker_->Receive(message_, 10 * kSecond), Channel::Outcome::kMessage);
    }
    EXPECT_TRUE(Decode(message_, response, MessageType::kCallResponse));
    return response;
  }
  bool NothingCame() { return worker_->Receive(message_, 0) == Channel::Outcome::kTimeout; }

  std::string ErrorOf(const CallMessage& call) {
    EXPECT_TRUE(Begin(call).ok());
    const ResponseMessage response = Receive();
    EXPECT_TRUE(response.final);
    EXPECT_NE(response.code, StatusCode::kOk);
    EXPECT_EQ(calls_->pending(), 0u);
    return std::string(response.error);
  }

  SegmentIds ids_;
  Arena arena_{ids_, Arena::Options()};
  Catalog catalog_;
  std::shared_ptr<HoldingServable> callee_ = std::make_shared<HoldingServable>("callee");
  std::shared_ptr<HoldingServable> stream_ = std::make_shared<HoldingServable>("stream", true);
  std::shared_ptr<Channel> channel_;
  std::unique_ptr<Channel> worker_;
  std::shared_ptr<WorkerMemory> memory_;
  std::shared_ptr<WorkerCalls> calls_;
  std::vector<std::byte> message_;
};

TEST_F(WorkerCallsTest, PassesTheRequestOn) {
  const std::vector<std::byte> bytes = {std::byte{1}, std::byte{2}};
  CallMessage call = Call(7);
  call.request.request_id = "id 1";
  call.request.correlation_id = std::string_view("sequence");
  call.request.flags = 3;
  call.request.timeout_us = 500;
  call.request.parameters_json = R"({"b":true,"a":-5,"s":"text","u":18446744073709551615})";
  call.request.requested_outputs = {"X"};
  TensorMessage tensor;
  tensor.name = "A";
  tensor.type = DataType::kUint8;
  tensor.shape = {2};
  tensor.bytes = bytes;
  call.request.inputs = {tensor};
  auto chain = std::make_shared<const CallChain>();
  ASSERT_TRUE(calls_->Begin(call, chain, nullptr, 0).ok());

  ASSERT_EQ(callee_->held(), 1u);
  const InferenceRequest& request = callee_->front();
  EXPECT_EQ(request.id, "id 1");
  EXPECT_EQ(std::get<std::string>(request.correlation_id), "sequence");
  EXPECT_TRUE(request.sequence_start);
  EXPECT_TRUE(request.sequence_end);
  EXPECT_EQ(request.timeout_us, 500u);
  EXPECT_EQ(request.priority, 0u);
  const Parameters parameters = {{"b", true},
                                 {"a", int64_t{-5}},
                                 {"s", std::string("text")},
                                 {"u", std::numeric_limits<uint64_t>::max()}};
  EXPECT_EQ(request.parameters, parameters);
  EXPECT_EQ(request.requested_outputs, std::vector<std::string>{"X"});
  EXPECT_EQ(request.call_chain, chain);
  ASSERT_EQ(request.inputs.size(), 1u);
  EXPECT_EQ(request.inputs[0].name, "A");
  EXPECT_EQ(request.inputs[0].data.text(), "\x01\x02");

  InferenceResponse answer;
  answer.parameters = {{"p", int64_t{3}}};
  answer.outputs = {{"X", DataType::kUint8, {2}, CopyToHeap(bytes)}};
  callee_->Take()->Respond(std::move(answer), true);
  const ResponseMessage response = Receive();
  EXPECT_EQ(response.request_id, 7u);
  EXPECT_TRUE(response.final);
  EXPECT_EQ(response.code, StatusCode::kOk);
  EXPECT_EQ(response.parameters_json, R"({"p":3})");
  ASSERT_EQ(response.outputs.size(), 1u);
  EXPECT_EQ(response.outputs[0].name, "X");
  EXPECT_EQ(response.outputs[0].bytes.size(), 2u);
  EXPECT_EQ(calls_->pending(), 0u);
}

TEST_F(WorkerCallsTest, TheTimeOutCountsFromTheCallWithinReason) {
  const int64_t begun = SteadyNowNs();
  const auto counts_from = [&](int64_t called_ns) {
    CallMessage call = Call(1);
    call.called_ns = called_ns;
    EXPECT_TRUE(calls_->Begin(call, nullptr, nullptr, begun).ok());
    auto request = callee_->Take();
    const int64_t since = request->start_ns;
    request->Respond(InferenceResponse(), true);
    Receive();
    return since;
  };
  const int64_t called = SteadyNowNs();
  EXPECT_EQ(counts_from(called), called);
  // A time from the worker is clamped to the possible range.
  EXPECT_EQ(counts_from(0), begun);
  EXPECT_EQ(counts_from(INT64_MIN), begun);
  const int64_t before = SteadyNowNs();
  const int64_t future = counts_from(INT64_MAX);
  EXPECT_GE(future, before);
  EXPECT_LE(future, SteadyNowNs());
}

TEST_F(WorkerCallsTest, LargeTensorsAreNotCopiedOnTheirWayIn) {
  SegmentIds worker_ids;
  Arena worker_arena(worker_ids, Arena::Options());
  Buffer input = worker_arena.Allocate(1 << 20).value();
  std::memset(input.mutable_data(), 5, input.size());
  const Segment& segment = *dynamic_cast<SegmentBlock*>(input.owner())->segment();
  ASSERT_TRUE(worker_->SendSegment(segment, segment.id()).ok());
  CallMessage call = Call(1);
  TensorMessage tensor;
  tensor.name = "A";
  tensor.type = DataType::kUint8;
  tensor.shape = {1 << 20};
  tensor.place = Place::kSenderMemory;
  tensor.handle = {segment.id(), static_cast<uint64_t>(input.data() - segment.base()), input.size()};
  call.request.inputs = {tensor};
  ASSERT_TRUE(Begin(call).ok());

  // The worker and the callee see the same memory.
  std::memset(input.mutable_data(), 6, input.size());
  const Buffer seen = callee_->front().inputs[0].data;
  ASSERT_EQ(seen.size(), input.size());
  EXPECT_EQ(seen.data()[0], std::byte{6});
  EXPECT_EQ(seen.data()[seen.size() - 1], std::byte{6});

  Buffer output = arena_.Allocate(2 << 20).value();
  callee_->Answer({{"X", DataType::kUint8, {2 << 20}, output}});
  const ResponseMessage response = Receive();
  ASSERT_EQ(response.outputs.size(), 1u);
  EXPECT_NE(response.outputs[0].place, Place::kInline);
  EXPECT_EQ(response.outputs[0].handle.size, output.size());
}

TEST_F(WorkerCallsTest, SaysWhyACallIsNotAccepted) {
  EXPECT_EQ(ErrorOf(Call(1, "nobody")),
            "Model nobody - Error when running inference: Request for unknown model: 'nobody' is not found");
  CallMessage call = Call(2);
  call.model_version = 9;
  EXPECT_EQ(
      ErrorOf(call),
      "Model callee - Error when running inference: Request for unknown model: 'callee' version 9 is not "
      "found");
  catalog_.SetState("away", 1, VersionState::kUnavailable, "unloaded");
  EXPECT_EQ(
      ErrorOf(Call(3, "away")),
      "Model away - Error when running inference: Failed for execute the inference request. Model 'away' "
      "is not ready.");
  EXPECT_EQ(
      ErrorOf(Call(4, "stream")),
      "Model stream - Error when running inference: Model stream is using the decoupled. The current BLS "
      "request call doesn't support models using the decoupled transaction policy. Please use "
      "'decoupled=True' argument to the 'exec' or 'async_exec' calls for decoupled models.'");
}

TEST_F(WorkerCallsTest, ErrorsOfTheCalleeComeAsTheyAre) {
  ASSERT_TRUE(Begin(Call(1)).ok());
  callee_->Take()->Fail(UnavailableError("Request timeout expired"));
  const ResponseMessage response = Receive();
  EXPECT_EQ(response.code, StatusCode::kUnavailable);
  EXPECT_EQ(response.error, "Request timeout expired");
}

TEST_F(WorkerCallsTest, RefusesOutputsThatAreNoArrays) {
  const auto error_of = [this](Tensor output) {
    EXPECT_TRUE(Begin(Call(1)).ok());
    std::vector<Tensor> outputs;
    outputs.push_back(std::move(output));
    callee_->Answer(std::move(outputs));
    return std::string(Receive().error);
  };
  const std::vector<std::byte> bytes(6);
  EXPECT_EQ(error_of({"X", DataType::kFp32, {2}, CopyToHeap(bytes)}),
            "output 'X' has 6 bytes, which do not fit its datatype FP32 and shape [2]");
  EXPECT_EQ(error_of({"X", DataType::kInt8, {-6}, CopyToHeap(bytes)}),
            "output 'X' has 6 bytes, which do not fit its datatype INT8 and shape [-6]");
  EXPECT_EQ(error_of({"X", DataType::kCustom, {6}, CopyToHeap(bytes), "pickle"}),
            "output 'X' has the datatype 'pickle', which Python models do not support");
}

TEST_F(WorkerCallsTest, AnyNumberOfResponsesInOrder) {
  CallMessage call = Call(1, "stream");
  call.decoupled = true;
  ASSERT_TRUE(Begin(call).ok());
  auto request = stream_->Take();
  for (int i = 0; i < 3; ++i) {
    InferenceResponse response;
    response.parameters = {{"i", int64_t{i}}};
    request->Respond(std::move(response), false);
  }
  request->Respond(std::nullopt, true);
  for (int i = 0; i < 3; ++i) {
    const ResponseMessage response = Receive();
    EXPECT_FALSE(response.final);
    EXPECT_EQ(response.parameters_json, "{\"i\":" + std::to_string(i) + "}");
  }
  const ResponseMessage last = Receive();
  EXPECT_TRUE(last.final);
  EXPECT_FALSE(last.has_response);
}

TEST_F(WorkerCallsTest, CancellingStopsAllButTheEnd) {
  CallMessage call = Call(1, "stream");
  call.decoupled = true;
  ASSERT_TRUE(Begin(call).ok());
  auto request = stream_->Take();
  EXPECT_FALSE(request->cancelled());
  calls_->Cancel({1});
  EXPECT_TRUE(request->cancelled());
  request->Respond(InferenceResponse(), false);
  EXPECT_TRUE(NothingCame());
  request->Fail(CancelledError("stopped"));
  const ResponseMessage last = Receive();
  EXPECT_TRUE(last.final);
  EXPECT_EQ(last.code, StatusCode::kCancelled);
  calls_->Cancel({1});   // has ended
  calls_->Cancel({99});  // never existed
}

TEST_F(WorkerCallsTest, ADeadWorkersCallsAreCancelledAndTheirResponsesDropped) {
  ASSERT_TRUE(Begin(Call(1)).ok());
  ASSERT_TRUE(Begin(Call(2)).ok());
  calls_->Abandon();
  memory_->Abandon();
  std::weak_ptr<WorkerCalls> gone = calls_;
  calls_.reset();
  EXPECT_FALSE(gone.expired());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(callee_->front().cancelled());
    callee_->Answer({{"X", DataType::kUint8, {4096}, arena_.Allocate(4096).value()}});
  }
  EXPECT_TRUE(gone.expired());
  EXPECT_TRUE(NothingCame());
}

TEST_F(WorkerCallsTest, TenThousandPendingCallsAreFineAndTooManyAreRefused) {
  uint64_t id = 1;
  for (; id <= WorkerCalls::kMostPending; ++id) ASSERT_TRUE(Begin(Call(id)).ok());
  EXPECT_EQ(callee_->held(), WorkerCalls::kMostPending);
  EXPECT_TRUE(NothingCame());
  ASSERT_TRUE(Begin(Call(id)).ok());
  const ResponseMessage refused = Receive();
  EXPECT_EQ(refused.request_id, id);
  EXPECT_EQ(refused.code, StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.error), testing::HasSubstr("65536 pending calls"));
  while (callee_->held() > 0) callee_->Answer();
  for (uint64_t i = 1; i < id; ++i) ASSERT_EQ(Receive().request_id, i);
  EXPECT_EQ(calls_->pending(), 0u);
}

TEST_F(WorkerCallsTest, ANameForTwoCallsBreaksTheRules) {
  ASSERT_TRUE(Begin(Call(1)).ok());
  EXPECT_EQ(Begin(Call(1)).code(), StatusCode::kInvalidArgument);
  callee_->Answer();
}

}  // namespace
}  // namespace braid
