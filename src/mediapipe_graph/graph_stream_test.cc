// Streams to graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "mediapipe_graph/message_ids.h"
#include "mediapipe_graph/testing/graph_fixture.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class GraphStreamTest : public GraphFixture {
 protected:
  // Two inputs, each with its own output.
  static constexpr const char* kTwo = R"(
    input_stream: "a" input_stream: "b" output_stream: "x" output_stream: "y"
    node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "x" }
    node { calculator: "PassThroughCalculator" input_stream: "b" output_stream: "y" })";
  static Tensor One(const std::string& name, int32_t value) { return Int32Tensor(name, {value}); }
};

TEST_F(GraphStreamTest, EachPacketIsAResponse) {
  const auto graph = Serve(kPass);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(stream->wants_input());
  EXPECT_TRUE(Push(*stream, {One("in", 1)}, "first").ok());
  EXPECT_TRUE(Push(*stream, {One("in", 2)}, "second").ok());
  EXPECT_TRUE(Push(*stream, {One("in", 3)}).ok());
  EXPECT_THAT(kept.Texts(), ElementsAre("out@0=1 first", "out@1=2 second", "out@2=3 "));
  EXPECT_FALSE(kept.ended());
  stream->CloseInputs();
  EXPECT_TRUE(kept.WaitEnd().ok());
  EXPECT_EQ(graph->runs(), 0U);
  EXPECT_EQ(graph->gate().inside(), 0U);
  EXPECT_EQ(graph->statistics().Snapshot().success.count, 1U);
  // Late messages are ignored.
  EXPECT_TRUE(Push(*stream, {One("in", 1)}).ok());
  stream->CloseInputs();
  stream->Cancel();
  EXPECT_EQ(kept.size(), 3U);
}

TEST_F(GraphStreamTest, TimesAreTheClientsOrOneMore) {
  const auto graph = Serve(kPass);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(Push(*stream, {One("in", 1)}, "", At(100)).ok());
  EXPECT_TRUE(Push(*stream, {One("in", 2)}).ok());
  EXPECT_TRUE(Push(*stream, {One("in", 3)}, "", At(200)).ok());
  EXPECT_TRUE(Push(*stream, {One("in", 4)}).ok());
  EXPECT_THAT(kept.Texts(), ElementsAre("out@100=1 ", "out@101=2 ", "out@200=3 ", "out@201=4 "));
  stream->CloseInputs();
  EXPECT_TRUE(kept.WaitEnd().ok());
}

TEST_F(GraphStreamTest, MessagesCarryAnySubsetOfInputs) {
  const auto graph = Serve(kTwo);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(Push(*stream, {}).ok());
  EXPECT_TRUE(Push(*stream, {One("b", 1)}).ok());
  EXPECT_TRUE(Push(*stream, {One("b", 3), One("a", 2)}).ok());
  EXPECT_THAT(kept.Texts(), UnorderedElementsAre("y@1=1 ", "x@2=2 ", "y@2=3 "));
  stream->CloseInputs();
  EXPECT_TRUE(kept.WaitEnd().ok());
}

TEST_F(GraphStreamTest, ErrorsOfAMessageDoNotEndTheStream) {
  const auto graph = Serve(kTwo);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  Tensor small = One("b", 1);
  small.data = Buffer();
  const Status first = Push(*stream, {One("a", 1), small});
  EXPECT_EQ(first.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(first.message(),
            "Invalid content size of tensor proto - Expected: 4 bytes; Actual: 0 bytes; input name: b");
  EXPECT_EQ(Push(*stream, {One("NONEXISTING", 1)}).message(), "Unexpected input - NONEXISTING is unexpected");
  EXPECT_EQ(Push(*stream, {One("a", 1)}, "", {{"OVMS_MP_TIMESTAMP", true}}).message(),
            "Malformed packet timestamp - Invalid timestamp format in request parameter OVMS_MP_TIMESTAMP. "
            "Should be int64");
  EXPECT_TRUE(Push(*stream, {}).ok());
  EXPECT_TRUE(Push(*stream, {One("a", 5)}).ok());
  // The input before the faulty one has entered the graph.
  EXPECT_THAT(kept.Texts(), ElementsAre("x@0=1 ", "x@3=5 "));
  stream->CloseInputs();
  EXPECT_TRUE(kept.WaitEnd().ok());
}

TEST_F(GraphStreamTest, AFailingNodeEndsTheStreamAtOnce) {
  TestCalculator::process = [](graph::Context& context) -> Status {
    if (context.input_timestamp() == graph::Timestamp(1)) return InternalError("it is broken");
    context.Output(0, context.Input(0));
    return OkStatus();
  };
  const auto graph = Serve(kTest);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(Push(*stream, {One("in", 1)}).ok());
  EXPECT_FALSE(kept.ended());
  EXPECT_TRUE(Push(*stream, {One("in", 2)}).ok());
  const Status status = kept.WaitEnd();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "Mediapipe execution failed. MP status - INTERNAL: CalculatorGraph::Run() failed: "
            "\nCalculator::Process() for node \"test\" failed: it is broken");
  EXPECT_EQ(kept.size(), 1U);
  EXPECT_EQ(graph->api_counters().graph_errors(), 1U);
  EXPECT_TRUE(Push(*stream, {One("in", 3)}).ok());
}

TEST_F(GraphStreamTest, TimesThatGoBackEndTheStream) {
  const auto graph = Serve(kPass);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(Push(*stream, {One("in", 1)}, "", At(5)).ok());
  EXPECT_TRUE(Push(*stream, {One("in", 2)}, "", At(5)).ok());
  const Status status = kept.WaitEnd();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), StartsWith("Mediapipe execution failed. MP status - INVALID_ARGUMENT: "));
  EXPECT_THAT(status.message(), HasSubstr("Current minimum expected timestamp is 6 but received 5"));
}

TEST_F(GraphStreamTest, TimesEndWithTheGreatest) {
  const auto graph = Serve(kPass);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(Push(*stream, {One("in", 1)}, "", At(graph::Timestamp::Max().value())).ok());
  EXPECT_EQ(Push(*stream, {One("in", 1)}).message(),
            "Malformed packet timestamp - Timestamp::OneOverPostStream()");
  stream->CloseInputs();
  EXPECT_TRUE(kept.WaitEnd().ok());
}

TEST_F(GraphStreamTest, SidePacketsAreTheFirstMessages) {
  TestCalculator::process = [](graph::Context& context) {
    const auto number = static_cast<int32_t>(context.InputSidePacket(0).Get<int64_t>());
    context.Output(0, graph::Packet::Of(OvTensor{Int32Tensor("", {number})}, context.input_timestamp()));
    return OkStatus();
  };
  const auto graph = Serve(R"(input_stream: "in" output_stream: "out" input_side_packet: "number"
    node { calculator: "TestCalculator" input_stream: "in" output_stream: "out"
           input_side_packet: "NUMBER:number" })");
  KeptStream kept;
  const auto stream = Open(graph, kept, {{"number", int64_t{7}}});
  EXPECT_TRUE(Push(*stream, {One("in", 1)}, "", {{"number", int64_t{8}}}).ok());
  EXPECT_THAT(kept.Texts(), ElementsAre("out@0=7 "));
  stream->CloseInputs();
  EXPECT_TRUE(kept.WaitEnd().ok());

  // A stream that cannot begin returns the error at once and does not call the sink.
  KeptStream silent;
  auto first = Request(graph, {});
  auto refused = graph->OpenStream(*first, silent);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), StartsWith("Failed to start mediapipe graph - "));
  EXPECT_FALSE(silent.ended());
  first = Request(graph, {}, {{"py", true}});
  EXPECT_THAT(graph->OpenStream(*first, silent).status().message(), HasSubstr("py is special reserved name"));
  EXPECT_FALSE(silent.ended());
}

TEST_F(GraphStreamTest, CancelEndsTheStreamWhateverItDoes) {
  HeldCalls held;
  const auto graph = Serve(kTest);
  for (int at = 0; at < 5; ++at) {
    KeptStream kept;
    const auto stream = Open(graph, kept);
    for (int32_t i = 0; i < std::min(at, 2); ++i) EXPECT_TRUE(Push(*stream, {One("in", i)}).ok());
    if (at >= 3) stream->SetPaused(true);
    if (at >= 4) stream->CloseInputs();
    stream->Cancel();
    EXPECT_EQ(kept.WaitEnd().code(), StatusCode::kCancelled) << at;
    EXPECT_EQ(kept.size(), 0U);
    EXPECT_EQ(graph->gate().inside(), 0U);
  }
  EXPECT_EQ(held.cancelled(), 4);
  EXPECT_EQ(graph->api_counters().graph_errors(), 0U);
}

TEST_F(GraphStreamTest, AStreamThatIsLetGoOfEnds) {
  HeldCalls held;
  const auto graph = Serve(kTest);
  KeptStream kept;
  auto stream = Open(graph, kept);
  EXPECT_TRUE(Push(*stream, {One("in", 1)}).ok());
  stream.reset();
  EXPECT_EQ(kept.WaitEnd().code(), StatusCode::kCancelled);
  EXPECT_EQ(graph->runs(), 0U);
}

TEST_F(GraphStreamTest, WhilePausedNothingIsBegun) {
  const auto graph = Serve(kPass);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  stream->SetPaused(true);
  EXPECT_TRUE(Push(*stream, {One("in", 1)}).ok());
  EXPECT_TRUE(Push(*stream, {One("in", 2)}).ok());
  EXPECT_EQ(kept.size(), 0U);
  stream->SetPaused(false);
  EXPECT_THAT(kept.Texts(), ElementsAre("out@0=1 ", "out@1=2 "));
  stream->SetPaused(true);
  stream->CloseInputs();
  EXPECT_FALSE(kept.ended());
  stream->SetPaused(false);
  EXPECT_TRUE(kept.WaitEnd().ok());
}

TEST_F(GraphStreamTest, HalfCloseDrainsWhatIsUnderWay) {
  HeldCalls held;
  const auto graph = Serve(kTest);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(Push(*stream, {One("in", 1)}).ok());
  EXPECT_TRUE(Push(*stream, {One("in", 2)}).ok());
  stream->CloseInputs();
  EXPECT_FALSE(kept.ended());
  held.Finish();
  held.WaitFor(1);
  held.Finish();
  EXPECT_TRUE(kept.WaitEnd().ok());
  EXPECT_THAT(kept.Texts(), ElementsAre("out@0=1 ", "out@1=2 "));
}

TEST_F(GraphStreamTest, InputIsNotWantedWhileItWaits) {
  HeldCalls held;
  const auto graph = Serve(std::string("max_queue_size: 2 ").append(kTest));
  KeptStream kept;
  const auto stream = Open(graph, kept);
  int pushed = 0;
  while (stream->wants_input() && pushed < 10) {
    EXPECT_TRUE(Push(*stream, {One("in", ++pushed)}).ok());
  }
  EXPECT_EQ(pushed, 3);
  EXPECT_EQ(kept.wants(), 0);
  held.Finish();
  held.WaitFor(1);
  EXPECT_TRUE(stream->wants_input());
  EXPECT_EQ(kept.wants(), 1);
  stream->Cancel();
  EXPECT_EQ(kept.WaitEnd().code(), StatusCode::kCancelled);
}

TEST_F(GraphStreamTest, StreamsWaitForASlotToo) {
  HeldCalls held;
  const auto graph = Serve(std::string("# OVMS_GRAPH_QUEUE_MAX_SIZE: 1\n").append(kTest));
  KeptStream first_kept;
  const auto first = Open(graph, first_kept);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_EQ(graph->pending_requests(), 1);
  EXPECT_TRUE(stream->wants_input());
  EXPECT_TRUE(Push(*stream, {One("in", 1)}).ok());
  EXPECT_FALSE(stream->wants_input());
  EXPECT_TRUE(Push(*stream, {One("in", 2)}).ok());
  stream->CloseInputs();
  KeptStream third_kept;
  const auto third = Open(graph, third_kept);
  third->Cancel();
  EXPECT_EQ(third_kept.WaitEnd().code(), StatusCode::kCancelled);
  EXPECT_EQ(held.size(), 0U);
  first->CloseInputs();
  EXPECT_TRUE(first_kept.WaitEnd().ok());
  for (int i = 0; i < 2; ++i) {
    held.WaitFor(1);
    held.Finish();
  }
  EXPECT_TRUE(kept.WaitEnd().ok());
  EXPECT_THAT(kept.Texts(), ElementsAre("out@0=1 ", "out@1=2 "));
}

TEST_F(GraphStreamTest, StopEndsStreamsAtTheDeadline) {
  const auto graph = Serve(kPass);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(Push(*stream, {One("in", 1)}).ok());
  graph->gate().Close();
  graph->Stop(SteadyNowNs());
  EXPECT_EQ(kept.WaitEnd().code(), StatusCode::kUnavailable);
  served_.clear();
}

// A sink that calls the stream from within each response.
class Asking final : public StreamSink {
 public:
  void Respond(InferenceResponse response, const std::string&) override {
    ++responses;
    const int32_t value = Int32Values(response.outputs[0])[0];
    if (value == 20) {
      stream->CloseInputs();
      return;
    }
    InferenceRequest message;
    message.model_name = std::string("g");
    message.inputs = {Int32Tensor("in", {value + 1})};
    EXPECT_TRUE(stream->Push(message).ok());
  }
  void OnWantsInput() override {}
  void End(Status status) override {
    end = std::move(status);
    stream.reset();
  }
  std::shared_ptr<ServableStream> stream;
  int responses = 0;
  std::optional<Status> end;
};

TEST_F(GraphStreamTest, TheSinkMayCallTheStreamFromWithin) {
  const auto graph = Serve(kPass);
  Asking sink;
  auto first = Request(graph, {});
  sink.stream = *graph->OpenStream(*first, sink);
  const auto keep = sink.stream;
  EXPECT_TRUE(Push(*keep, {One("in", 1)}).ok());
  ASSERT_TRUE(sink.end.has_value());
  EXPECT_TRUE(sink.end->ok());
  EXPECT_EQ(sink.responses, 20);
}

TEST_F(GraphStreamTest, ClientsVanishAtAnyTime) {
  TestCalculator::process = [](graph::Context& context) {
    context.Output(0, context.Input(0));
    return OkStatus();
  };
  const auto graph = Serve(std::string("# OVMS_GRAPH_QUEUE_MAX_SIZE: 2\n").append(kTest));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&graph, t] {
      for (int i = 0; i < 100; ++i) {
        KeptStream kept;
        auto stream = Open(graph, kept);
        std::thread feeder([stream] {
          for (int32_t k = 0; k < 20; ++k) EXPECT_TRUE(Push(*stream, {One("in", k)}).ok());
          stream->CloseInputs();
        });
        if (i % 3 == 0) {
          stream->SetPaused(true);
          stream->SetPaused(false);
        }
        if (i % 2 == t % 2) stream->Cancel();
        feeder.join();
        stream.reset();
        const Status status = kept.WaitEnd();
        EXPECT_TRUE(status.ok() || status.code() == StatusCode::kCancelled) << status;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(graph->runs(), 0U);
  EXPECT_EQ(graph->gate().inside(), 0U);
}

TEST(MessageIds, PacketsBelongToTheMessageBeforeThem) {
  MessageIds ids;
  EXPECT_EQ(ids.Find(0), "");
  ids.Add(0, "a");
  ids.Add(10, "b");
  ids.Add(20, "");
  EXPECT_EQ(ids.Find(-1), "");
  EXPECT_EQ(ids.Find(0), "a");
  EXPECT_EQ(ids.Find(9), "a");
  EXPECT_EQ(ids.Find(10), "b");
  EXPECT_EQ(ids.Find(20), "");
  ids.Add(30, "");
  EXPECT_EQ(ids.size(), 3U);
  for (int64_t i = 0; i < 10000; ++i) ids.Add(100 + i, std::to_string(i));
  EXPECT_EQ(ids.size(), MessageIds::kMost);
  EXPECT_EQ(ids.Find(100 + 9999), "9999");
}

}  // namespace
}  // namespace braid
