// Unary requests to graphs.
#include "mediapipe_graph/graph_servable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "mediapipe_graph/testing/graph_fixture.h"
#include "serving/faults.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class GraphServableTest : public GraphFixture {};

TEST_F(GraphServableTest, PassesATensorThroughByItsMemory) {
  const auto graph = Serve(kPass);
  Tensor in = Int32Tensor("in", {1, 2, 3});
  const auto* bytes = in.data.data();
  const InferenceResponse response = Ask(graph, {std::move(in)});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(response.model_name, "g");
  EXPECT_EQ(response.model_version, 1);
  ASSERT_EQ(response.outputs.size(), 1U);
  EXPECT_EQ(response.outputs[0].name, "out");
  EXPECT_EQ(response.outputs[0].type, DataType::kInt32);
  EXPECT_EQ(response.outputs[0].shape, Shape{3});
  EXPECT_EQ(response.outputs[0].data.data(), bytes);
  ASSERT_EQ(response.parameters.size(), 1U);
  EXPECT_EQ(response.parameters[0].first, "OVMS_MP_TIMESTAMP");
  EXPECT_EQ(std::get<int64_t>(response.parameters[0].second), 0);
  const StatisticsSnapshot statistics = graph->statistics().Snapshot();
  EXPECT_EQ(statistics.success.count, 1U);
  EXPECT_EQ(statistics.fail.count, 0U);
  EXPECT_EQ(statistics.execution_count, 1U);
  EXPECT_EQ(graph->api_counters().current_graphs(), 0);
  EXPECT_EQ(graph->api_counters().graph_errors(), 0U);
}

TEST_F(GraphServableTest, PassesEveryKindOfStream) {
  for (const std::string tag : {"OVTENSOR", "OVMS_PY_TENSOR", "TENSOR", "TFTENSOR", "IMAGE", "SOMETHING"}) {
    const std::string name = "graph_" + std::to_string(served_.size());
    const auto graph = Serve("input_stream: '" + tag + ":in' output_stream: '" + tag +
                                 ":out' node { calculator: 'PassThroughCalculator' input_stream: 'in' "
                                 "output_stream: 'out' }",
                             name);
    Tensor in = Int32Tensor("in", {1, 2, 3});
    in.type = DataType::kUint8;
    in.shape = {2, 2, 3};
    const InferenceResponse response = Ask(graph, {std::move(in)});
    ASSERT_TRUE(response.status.ok()) << tag << response.status;
    EXPECT_THAT(Int32Values(response.outputs[0]), ElementsAre(1, 2, 3)) << tag;
    EXPECT_EQ(response.outputs[0].shape, (Shape{2, 2, 3}));
  }
}

TEST_F(GraphServableTest, PassesWholeMessages) {
  const auto graph = Serve(R"(input_stream: "REQUEST:in" output_stream: "RESPONSE:out"
      node { calculator: "MessageCalculator" input_stream: "in" output_stream: "out" })");
  Tensor custom = Int32Tensor("b", {5});
  custom.type = DataType::kCustom;
  custom.custom_type = "mine";
  const InferenceResponse response =
      Ask(graph, {Int32Tensor("a", {1}), custom}, {{"key", std::string("value")}});
  ASSERT_TRUE(response.status.ok()) << response.status;
  ASSERT_EQ(response.outputs.size(), 2U);
  EXPECT_EQ(response.outputs[0].name, "a");
  EXPECT_EQ(TypeName(response.outputs[1]), "mine");
  EXPECT_THAT(response.parameters,
              ElementsAre(std::pair<std::string, ParameterValue>("key", std::string("value")),
                          std::pair<std::string, ParameterValue>("id", std::string("id")),
                          std::pair<std::string, ParameterValue>("OVMS_MP_TIMESTAMP", int64_t{0})));
}

TEST_F(GraphServableTest, TimestampsAreTheClients) {
  const auto graph = Serve(kPass);
  const InferenceResponse response = Ask(graph, {Int32Tensor("in", {1})}, At(-17));
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(KeptStream::TimeOf(response), -17);
  EXPECT_EQ(AskStatus(graph, {Int32Tensor("in", {1})}, {{"OVMS_MP_TIMESTAMP", std::string("1")}}).message(),
            "Malformed packet timestamp - Invalid timestamp format in request parameter OVMS_MP_TIMESTAMP. "
            "Should be int64");
  const Status status = AskStatus(graph, {Int32Tensor("in", {1})}, At(INT64_MAX - 2));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "Malformed packet timestamp - Timestamp::PostStream()");
  EXPECT_EQ(AskStatus(graph, {Int32Tensor("in", {1})}, At(INT64_MIN)).message(),
            "Malformed packet timestamp - Timestamp::Unset()");
}

TEST_F(GraphServableTest, InputsAreTheGraphs) {
  const auto graph = Serve(R"(input_stream: "a" input_stream: "b" output_stream: "x" output_stream: "y"
      node { calculator: "PassThroughCalculator" input_stream: "a" input_stream: "b" output_stream: "x"
             output_stream: "y" })");
  const Status unexpected = AskStatus(graph, {Int32Tensor("c", {1})});
  EXPECT_EQ(unexpected.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(unexpected.message(), "Unexpected input - c is unexpected");
  EXPECT_EQ(AskStatus(graph, {Int32Tensor("a", {1})}).message(),
            "Invalid number of inputs - Not all input packets created");
  EXPECT_EQ(AskStatus(graph, {}).message(), "Invalid number of inputs - Not all input packets created");
  EXPECT_EQ(AskStatus(graph, {Int32Tensor("a", {1}), Int32Tensor("a", {1})}).message(),
            "Unexpected input - a is given more than once");
  Tensor small = Int32Tensor("b", {1});
  small.shape = {2};
  EXPECT_EQ(AskStatus(graph, {Int32Tensor("a", {1}), small}).message(),
            "Invalid content size of tensor proto - Expected: 8 bytes; Actual: 4 bytes; input name: b");
  const InferenceResponse response = Ask(graph, {Int32Tensor("b", {2}), Int32Tensor("a", {1})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(response.outputs[0].name, "x");
  EXPECT_THAT(Int32Values(response.outputs[0]), ElementsAre(1));
  EXPECT_THAT(Int32Values(response.outputs[1]), ElementsAre(2));
}

TEST_F(GraphServableTest, AFailingNodeIsAnExecutionError) {
  TestCalculator::process = [](graph::Context&) { return InternalError("it is broken"); };
  const auto graph = Serve(kTest);
  const Status status = AskStatus(graph, {Int32Tensor("in", {1})});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.fault(), Fault::kGraphExecutionError);
  EXPECT_EQ(status.message(),
            "Mediapipe execution failed. MP status - INTERNAL: CalculatorGraph::Run() failed: "
            "\nCalculator::Process() for node \"test\" failed: it is broken");
  EXPECT_EQ(graph->statistics().Snapshot().fail.count, 1U);
  EXPECT_EQ(graph->statistics().Snapshot().failures[static_cast<int>(FailureReason::kBackend)], 1U);
  EXPECT_EQ(graph->api_counters().graph_errors(), 1U);
  // The next request has a new run.
  TestCalculator::process = [](graph::Context& context) {
    context.Output(0, context.Input(0));
    return OkStatus();
  };
  EXPECT_TRUE(AskStatus(graph, {Int32Tensor("in", {1})}).ok());
}

TEST_F(GraphServableTest, AMissingOutputIsAnExecutionError) {
  TestCalculator::process = [](graph::Context&) { return OkStatus(); };
  EXPECT_EQ(AskStatus(Serve(kTest), {Int32Tensor("in", {1})}).message(),
            "Mediapipe execution failed. MP status - Unknown error during mediapipe execution");
}

TEST_F(GraphServableTest, TheFirstPacketOfEachOutputIsTheResponse) {
  TestCalculator::process = [](graph::Context& context) {
    for (int i = 0; i < 3; ++i) {
      context.Output(0, graph::Packet::Of(OvTensor{Int32Tensor("", {i})},
                                          graph::Timestamp(context.input_timestamp().value() + i)));
    }
    return OkStatus();
  };
  const InferenceResponse response = Ask(Serve(kTest), {Int32Tensor("in", {1})}, At(5));
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(Int32Values(response.outputs[0]), ElementsAre(0));
  EXPECT_EQ(KeptStream::TimeOf(response), 5);
}

TEST_F(GraphServableTest, AGraphThatNeverEndsIsEndedWhenItHasAnswered) {
  // Cycles forever through its back edge.
  TestCalculator::process = [](graph::Context& context) {
    const graph::Packet& given = context.Input(0).empty() ? context.Input(1) : context.Input(0);
    context.Output(0, given);
    context.Output(1, given.At(given.timestamp().NextAllowedInStream()));
    return OkStatus();
  };
  const auto graph = Serve(R"(input_stream: "in" output_stream: "out"
    node { name: "test" calculator: "TestCalculator" input_stream: "A:in" input_stream: "LOOP:loop"
      input_stream_info { tag_index: "LOOP:0" back_edge: true }
      input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" }
      output_stream: "A:out" output_stream: "LOOP:loop" })");
  const InferenceResponse response = Ask(graph, {Int32Tensor("in", {4})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(Int32Values(response.outputs[0]), ElementsAre(4));
}

TEST_F(GraphServableTest, CancellationEndsTheRun) {
  HeldCalls held;
  const auto graph = Serve(kTest);
  KeptResponses kept;
  auto request = Request(graph, {Int32Tensor("in", {1})});
  request->sink = &kept;
  const auto cancellation = request->cancellation;
  graph->Infer(std::move(request));
  held.WaitFor(1);
  EXPECT_FALSE(kept.ended());
  EXPECT_EQ(graph->runs(), 1U);
  EXPECT_EQ(graph->api_counters().current_graphs(), 1);
  cancellation->Cancel();
  EXPECT_EQ(kept.Wait().status.code(), StatusCode::kCancelled);
  EXPECT_EQ(held.cancelled(), 1);
  EXPECT_EQ(graph->statistics().Snapshot().failures[static_cast<int>(FailureReason::kCanceled)], 1U);
  EXPECT_EQ(graph->api_counters().current_graphs(), 0);
  EXPECT_EQ(graph->api_counters().graph_errors(), 0U);
}

TEST_F(GraphServableTest, ARequestThatWasCancelledBeforeItCameEnds) {
  HeldCalls held;
  const auto graph = Serve(kTest);
  for (int i = 0; i < 50; ++i) {
    KeptResponses kept;
    auto request = Request(graph, {Int32Tensor("in", {1})});
    request->sink = &kept;
    request->cancellation->Cancel();
    graph->Infer(std::move(request));
    EXPECT_EQ(kept.Wait().status.code(), StatusCode::kCancelled);
  }
}

TEST_F(GraphServableTest, ATimeoutEndsTheRun) {
  HeldCalls held;
  const auto graph = Serve(kTest);
  KeptResponses kept;
  auto request = Request(graph, {Int32Tensor("in", {1})});
  request->sink = &kept;
  request->start_ns = timers_.NowNs();
  request->timeout_us = 1000;
  graph->Infer(std::move(request));
  held.WaitFor(1);
  timers_.Advance(999'999);
  EXPECT_FALSE(kept.ended());
  timers_.Advance(1);
  const Status status = kept.Wait().status;
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "Request timeout expired");
}

TEST_F(GraphServableTest, SidePacketsAreTheParameters) {
  TestCalculator::process = [](graph::Context& context) {
    const auto& ports = context.contract().input_side_packets();
    const auto text = context.InputSidePacket(ports.Find("TEXT")).Get<std::string>();
    const auto number = context.InputSidePacket(ports.Find("NUMBER")).Get<int64_t>();
    const auto flag = context.InputSidePacket(ports.Find("FLAG")).Get<bool>();
    EXPECT_EQ(text, "hello");
    context.Output(0, graph::Packet::Of(OvTensor{Int32Tensor("", {static_cast<int32_t>(number), flag})},
                                        context.input_timestamp()));
    return OkStatus();
  };
  const auto graph = Serve(R"(input_stream: "in" output_stream: "out" input_side_packet: "text"
    input_side_packet: "number" input_side_packet: "flag"
    node { name: "test" calculator: "TestCalculator" input_stream: "in" output_stream: "out"
      input_side_packet: "TEXT:text" input_side_packet: "NUMBER:number" input_side_packet: "FLAG:flag" })");
  const Parameters all{
      {"text", std::string("hello")}, {"number", int64_t{7}}, {"flag", true}, {"other", false}};
  const InferenceResponse response = Ask(graph, {Int32Tensor("in", {1})}, all);
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(Int32Values(response.outputs[0]), ElementsAre(7, 1));

  const Status missing = AskStatus(graph, {Int32Tensor("in", {1})}, {{"text", std::string("hello")}});
  EXPECT_EQ(missing.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(missing.message(), StartsWith("Failed to start mediapipe graph - FAILED_PRECONDITION: "));
  EXPECT_EQ(
      AskStatus(graph, {Int32Tensor("in", {1})}, {{"py", int64_t{1}}}).message(),
      "Failed to initialize mediapipe graph - Incoming input side packet: py is special reserved name and "
      "cannot be used");
  const Status kind = AskStatus(graph, {Int32Tensor("in", {1})}, {{"number", 1.5}});
  EXPECT_EQ(kind.code(), StatusCode::kUnsupported);
  EXPECT_THAT(kind.message(), StartsWith("Functionality not implemented - parameter 'number': "));
}

TEST_F(GraphServableTest, AnOutputOfAnotherTypeIsAnError) {
  const auto graph = Serve(R"(input_stream: "OVTENSOR:in" output_stream: "IMAGE:out"
    node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" })");
  const Status status = AskStatus(graph, {Int32Tensor("in", {1})});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "Mediapipe execution failed. MP status - INTERNAL: output_stream 'out' with the tag 'IMAGE' "
            "carries braid::ImageFrame; its packet has braid::OvTensor");
}

TEST_F(GraphServableTest, AQueueLetsSoManyRunAndTheOthersWaitInOrder) {
  HeldCalls held;
  const auto graph = Serve(std::string("# OVMS_GRAPH_QUEUE_MAX_SIZE: 2\n") + kTest);
  std::vector<std::unique_ptr<KeptResponses>> kept;
  for (int i = 0; i < 4; ++i) {
    auto request = Request(graph, {Int32Tensor("in", {i})});
    request->sink = kept.emplace_back(std::make_unique<KeptResponses>()).get();
    graph->Infer(std::move(request));
  }
  EXPECT_EQ(held.size(), 2U);
  EXPECT_EQ(graph->pending_requests(), 2);
  EXPECT_EQ(graph->api_counters().current_graphs(), 2);
  held.Finish();
  EXPECT_THAT(Int32Values(kept[0]->Wait().outputs[0]), ElementsAre(0));
  held.WaitFor(2);
  EXPECT_EQ(graph->pending_requests(), 1);
  for (int i = 1; i < 4; ++i) {
    held.WaitFor(1);
    held.Finish();
    EXPECT_THAT(Int32Values(kept[static_cast<size_t>(i)]->Wait().outputs[0]), ElementsAre(i));
  }
  EXPECT_EQ(graph->pending_requests(), 0);
}

TEST_F(GraphServableTest, WhoWaitsInTheQueueCanBeCancelledAndTimedOut) {
  HeldCalls held;
  const auto graph = Serve(std::string("# OVMS_GRAPH_QUEUE_MAX_SIZE: 1\n") + kTest);
  KeptResponses first;
  auto request = Request(graph, {Int32Tensor("in", {0})});
  request->sink = &first;
  graph->Infer(std::move(request));
  KeptResponses cancelled;
  request = Request(graph, {Int32Tensor("in", {1})});
  request->sink = &cancelled;
  const auto cancellation = request->cancellation;
  graph->Infer(std::move(request));
  KeptResponses late;
  request = Request(graph, {Int32Tensor("in", {2})});
  request->sink = &late;
  request->start_ns = timers_.NowNs();
  request->timeout_us = 5;
  graph->Infer(std::move(request));
  EXPECT_EQ(graph->pending_requests(), 2);
  cancellation->Cancel();
  EXPECT_EQ(cancelled.Wait().status.code(), StatusCode::kCancelled);
  timers_.Advance(5000);
  EXPECT_EQ(late.Wait().status.message(), "Request timeout expired");
  EXPECT_EQ(graph->pending_requests(), 0);
  held.Finish();
  EXPECT_TRUE(first.Wait().status.ok());
}

TEST_F(GraphServableTest, AQueueTakesNoSidePackets) {
  const auto graph = Serve(std::string("# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO\n") + kPass);
  EXPECT_TRUE(AskStatus(graph, {Int32Tensor("in", {1})}, At(3)).ok());
  const Status status = AskStatus(graph, {Int32Tensor("in", {1})}, {{"other", true}});
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      status.message(),
      "Failed to initialize mediapipe graph - Input side packets are not supported for graphs with queue "
      "enabled");
}

TEST_F(GraphServableTest, StopEndsWhatIsLeftAtTheDeadline) {
  HeldCalls held;
  const auto graph = Serve(kTest);
  KeptResponses kept;
  auto request = Request(graph, {Int32Tensor("in", {1})});
  request->sink = &kept;
  graph->Infer(std::move(request));
  graph->gate().Close();
  graph->Stop(SteadyNowNs());
  const Status status = kept.Wait().status;
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "Server exiting or graph 'g' being unloaded: the run did not end in time");
  served_.clear();
}

TEST_F(GraphServableTest, ManyThreadsAskAtOnce) {
  TestCalculator::process = [](graph::Context& context) {
    std::vector<int32_t> values = Int32Values(context.Input(0).Get<OvTensor>().tensor);
    context.Output(0,
                   graph::Packet::Of(OvTensor{Int32Tensor("", {values[0] * 2})}, context.input_timestamp()));
    return OkStatus();
  };
  const auto graph = Serve(std::string("# OVMS_GRAPH_QUEUE_MAX_SIZE: 2\n") + kTest);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&graph, t] {
      for (int i = 0; i < 200; ++i) {
        const InferenceResponse response = Ask(graph, {Int32Tensor("in", {t * 1000 + i})});
        ASSERT_TRUE(response.status.ok()) << response.status;
        ASSERT_THAT(Int32Values(response.outputs[0]), ElementsAre(2 * (t * 1000 + i)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(graph->statistics().Snapshot().success.count, 800U);
}

}  // namespace
}  // namespace braid
