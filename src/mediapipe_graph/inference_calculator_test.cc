// OpenVINOModelServerSessionCalculator and OpenVINOInferenceCalculator, with fake servables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "mediapipe_graph/testing/graph_fixture.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class InferenceGraphTest : public GraphFixture {
 protected:
  static std::string SessionNode(const std::string& servable, const std::string& name = "session",
                                 const std::string& more = "") {
    return "node { calculator: 'OpenVINOModelServerSessionCalculator' output_side_packet: 'SESSION:" + name +
           "' node_options { [type.googleapis.com / mediapipe.OpenVINOModelServerSessionCalculatorOptions]: "
           "{ "
           "servable_name: '" +
           servable + "' " + more + " } } } ";
  }
  static std::string InferenceNode(const std::string& streams, const std::string& options,
                                   const std::string& name = "session") {
    return "node { name: 'infer' calculator: 'OpenVINOInferenceCalculator' input_side_packet: 'SESSION:" +
           name + "' " + streams +
           " node_options { [type.googleapis.com / mediapipe.OpenVINOInferenceCalculatorOptions]: { " +
           options + " } } } ";
  }
  // in -> servable (IN -> OUT) -> out
  static std::string Chain(const std::string& servable) {
    return "input_stream: 'OVTENSOR:in' output_stream: 'OVTENSOR:out' " + SessionNode(servable) +
           InferenceNode("input_stream: 'OVTENSOR:in' output_stream: 'OVTENSOR:out'", kInOut);
  }
  // The same with such a graph as the servable.
  static std::string ChainToGraph(const std::string& servable) {
    return "input_stream: 'OVTENSOR:in' output_stream: 'OVTENSOR:out' " + SessionNode(servable) +
           InferenceNode("input_stream: 'OVTENSOR:in' output_stream: 'OVTENSOR:out'",
                         "tag_to_input_tensor_names { key: 'OVTENSOR' value: 'in' } "
                         "tag_to_output_tensor_names { key: 'OVTENSOR' value: 'out' }");
  }
  static constexpr const char* kInOut =
      "tag_to_input_tensor_names { key: 'OVTENSOR' value: 'IN' } tag_to_output_tensor_names { key: "
      "'OVTENSOR' "
      "value: 'OUT' }";

  static FakeStep::Behaviour Plus(int32_t number) {
    return [number](std::unique_ptr<InferenceRequest> request) {
      std::vector<int32_t> values = Int32Values(request->inputs[0]);
      for (int32_t& value : values) value += number;
      request->Respond(FakeStep::Response({Int32Tensor("OUT", values)}), true);
    };
  }
  static FakeStep::Behaviour Refuse(const std::string& text) {
    return [text](std::unique_ptr<InferenceRequest> request) { request->Fail(InternalError(text)); };
  }
  static std::string Failed(const std::string& text) {
    return "Mediapipe execution failed. MP status - INTERNAL: CalculatorGraph::Run() failed: "
           "\nCalculator::Process() for node \"infer\" failed: " +
           text;
  }
};

TEST_F(InferenceGraphTest, AsksTheServableByItsOwnNames) {
  AddStep("m", [](std::unique_ptr<InferenceRequest> request) {
    EXPECT_EQ(request->model_name, "m");
    EXPECT_EQ(request->id, "id");
    EXPECT_THAT(request->requested_outputs, ElementsAre("OUT"));
    EXPECT_EQ(request->inputs[0].name, "IN");
    Plus(10)(std::move(request));
  });
  const InferenceResponse response = Ask(Serve(Chain("m")), {Int32Tensor("in", {1, 2})}, At(4));
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(response.outputs[0].name, "out");
  EXPECT_THAT(Int32Values(response.outputs[0]), ElementsAre(11, 12));
  EXPECT_EQ(KeptStream::TimeOf(response), 4);
}

TEST_F(InferenceGraphTest, BytesAreNotCopiedOnTheirWay) {
  const std::byte* seen = nullptr;
  const auto step = AddStep("m", [&seen](std::unique_ptr<InferenceRequest> request) {
    seen = request->inputs[0].data.data();
    Tensor output = std::move(request->inputs[0]);
    output.name = "OUT";
    request->Respond(FakeStep::Response({std::move(output)}), true);
  });
  const auto graph = Serve(Chain("m"));
  Tensor in = Int32Tensor("in", {1});
  const auto* bytes = in.data.data();
  const InferenceResponse response = Ask(graph, {std::move(in)});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(seen, bytes);
  EXPECT_EQ(response.outputs[0].data.data(), bytes);
  // Inputs are allocated in the servable's memory.
  const int before = step->allocator.allocations;
  EXPECT_TRUE(graph->input_allocator().Allocate(16).ok());
  EXPECT_EQ(step->allocator.allocations, before + 1);
}

TEST_F(InferenceGraphTest, SeveralStreamsAndVectors) {
  AddStep("m",
          [](std::unique_ptr<InferenceRequest> request) {
            ASSERT_EQ(request->inputs.size(), 2U);
            EXPECT_EQ(request->inputs[0].name, "A");
            EXPECT_EQ(request->inputs[1].name, "B");
            request->Respond(FakeStep::Response({Int32Tensor("X", {Int32Values(request->inputs[0])[0]}),
                                                 Int32Tensor("Y", {Int32Values(request->inputs[1])[0]})}),
                             true);
          },
          {"A", "B"}, {"X", "Y"});
  // Without names in the options, tags are the names.
  const auto graph =
      Serve("input_stream: 'A:a' input_stream: 'B:b' output_stream: 'X:x' output_stream: 'Y:y' " +
            SessionNode("m") +
            InferenceNode("input_stream: 'B:b' input_stream: 'A:a' output_stream: 'Y:y' "
                          "output_stream: 'X:x'",
                          ""));
  const InferenceResponse response = Ask(graph, {Int32Tensor("a", {1}), Int32Tensor("b", {2})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(Int32Values(response.outputs[0]), ElementsAre(1));
  EXPECT_THAT(Int32Values(response.outputs[1]), ElementsAre(2));

  // The outputs of one node are a vector, which is the next node's input in another order.
  const auto vectors = Serve(
      "input_stream: 'A:a' input_stream: 'B:b' output_stream: 'X:x' " + SessionNode("m") +
          InferenceNode("input_stream: 'A:a' input_stream: 'B:b' output_stream: 'OVTENSORS:both'",
                        "output_order_list: 'Y' output_order_list: 'X'") +
          "node { calculator: 'OpenVINOInferenceCalculator' input_side_packet: 'SESSION:session' "
          "input_stream: 'OVTENSORS:both' output_stream: 'X:x' node_options { "
          "[type.googleapis.com/mediapipe.OpenVINOInferenceCalculatorOptions] { input_order_list: ['A', "
          "'B'] } } }",
      "vectors");
  const InferenceResponse turned = Ask(vectors, {Int32Tensor("a", {1}), Int32Tensor("b", {2})});
  ASSERT_TRUE(turned.status.ok()) << turned.status;
  EXPECT_THAT(Int32Values(turned.outputs[0]), ElementsAre(2));
}

TEST_F(InferenceGraphTest, AStreamWithoutATagIsTheOnlyTensor) {
  AddStep("m", Plus(1));
  const auto graph = Serve("input_stream: 'in' output_stream: 'out' " + SessionNode("m") +
                           InferenceNode("input_stream: 'in' output_stream: 'out'", ""));
  const InferenceResponse response = Ask(graph, {Int32Tensor("in", {1})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(Int32Values(response.outputs[0]), ElementsAre(2));
}

TEST_F(InferenceGraphTest, TheServableHasToBeThereWhenARunBegins) {
  const auto graph = Serve(Chain("m"));
  const Status status = AskStatus(graph, {Int32Tensor("in", {1})});
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), StartsWith("Failed to start mediapipe graph - FAILED_PRECONDITION: "));
  EXPECT_THAT(status.message(),
              HasSubstr("OpenVINOModelServerSessionCalculator failed to load the model 'm': "));
  AddStep("m", Plus(1));
  EXPECT_TRUE(AskStatus(graph, {Int32Tensor("in", {1})}).ok());
}

TEST_F(InferenceGraphTest, FaultsOfTheServableAreTheNodes) {
  const auto graph = Serve(Chain("m"));
  AddStep("m", Refuse("out of luck"));
  const Status status = AskStatus(graph, {Int32Tensor("in", {1})});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), Failed("inference of 'm' failed: out of luck"));
  AddStep("m", [](std::unique_ptr<InferenceRequest> request) {
    request->Respond(FakeStep::Response({Int32Tensor("OTHER", {1})}), true);
  });
  EXPECT_EQ(AskStatus(graph, {Int32Tensor("in", {1})}).message(),
            Failed("inference of 'm' failed: output 'OUT' is missing; the outputs are: 'OTHER'"));
  AddStep("m", [](std::unique_ptr<InferenceRequest> request) { request->Respond(std::nullopt, true); });
  EXPECT_EQ(AskStatus(graph, {Int32Tensor("in", {1})}).message(),
            Failed("inference of 'm' failed: it sent no answer"));
  AddStep("m", [](std::unique_ptr<InferenceRequest> request) {
    request->Respond(FakeStep::Response({Int32Tensor("OUT", {1})}), false);
    request->Respond(FakeStep::Response({Int32Tensor("OUT", {2})}), true);
  });
  EXPECT_EQ(AskStatus(graph, {Int32Tensor("in", {1})}).message(),
            Failed("inference of 'm' failed: it sent more than one answer"));
}

TEST_F(InferenceGraphTest, CancellationIsPassedOn) {
  const auto step = AddStep("m", nullptr);
  const auto graph = Serve(Chain("m"));
  KeptResponses kept;
  auto request = Request(graph, {Int32Tensor("in", {1})});
  request->sink = &kept;
  const auto cancellation = request->cancellation;
  graph->Infer(std::move(request));
  auto asked = step->Take();
  ASSERT_NE(asked, nullptr);
  auto cancelled = std::make_shared<std::promise<void>>();
  asked->cancellation->SetListener([cancelled] { cancelled->set_value(); });
  cancellation->Cancel();
  ASSERT_EQ(cancelled->get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_FALSE(kept.ended());
  asked->Fail(CancelledError("cancelled"));
  EXPECT_EQ(kept.Wait().status.code(), StatusCode::kCancelled);
}

TEST_F(InferenceGraphTest, StreamsKeepNothingLoaded) {
  const auto first = AddStep("m", Plus(1));
  const auto graph = Serve(Chain("m"));
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(Push(*stream, {Int32Tensor("in", {1})}).ok());
  EXPECT_EQ(first->gate().inside(), 0U);
  AddStep("m", Plus(2));
  EXPECT_TRUE(Push(*stream, {Int32Tensor("in", {1})}).ok());
  EXPECT_THAT(kept.Texts(), ElementsAre("out@0=2 ", "out@1=3 "));
  stream->CloseInputs();
  EXPECT_TRUE(kept.WaitEnd().ok());
}

TEST_F(InferenceGraphTest, GraphsAskGraphs) {
  AddStep("m", Plus(1));
  Serve(Chain("m"), "inner");
  const InferenceResponse response = Ask(Serve(ChainToGraph("inner")), {Int32Tensor("in", {1})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(Int32Values(response.outputs[0]), ElementsAre(2));
}

TEST_F(InferenceGraphTest, GraphsThatAskThemselvesFail) {
  const auto a = Serve(ChainToGraph("b"), "a");
  Serve(ChainToGraph("a"), "b");
  const Status status = AskStatus(a, {Int32Tensor("in", {1})});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("graph 'a' would wait for itself: a -> b -> a"));
  const auto self = Serve(ChainToGraph("self"), "self");
  EXPECT_THAT(AskStatus(self, {Int32Tensor("in", {1})}).message(),
              HasSubstr("graph 'self' would wait for itself: self -> self"));
}

TEST_F(InferenceGraphTest, SessionsNameAServable) {
  EXPECT_THAT(Make(Chain("")).status().message(), HasSubstr("servable_name is missing"));
  const std::string streams = "input_stream: 'in' output_stream: 'out' ";
  const std::string pass =
      "node { calculator: 'PassThroughCalculator' input_stream: 'in' output_stream: 'out' } ";
  EXPECT_THAT(
      Make(streams + pass +
           "node { calculator: 'OpenVINOModelServerSessionCalculator' output_side_packet: 'SESSION:s' }")
          .status()
          .message(),
      HasSubstr("servable_name is missing"));
  // Also as the extension in `options`.
  AddStep("m", Plus(5));
  const auto graph = Serve(streams +
                           "node { calculator: 'OpenVINOModelServerSessionCalculator' output_side_packet: "
                           "'SESSION:session' options { "
                           "[mediapipe.OpenVINOModelServerSessionCalculatorOptions.ext] { servable_name: 'm' "
                           "servable_version: 'x' } } } " +
                           InferenceNode("input_stream: 'in' output_stream: 'out'", ""));
  EXPECT_THAT(Int32Values(Ask(graph, {Int32Tensor("in", {1})}).outputs.at(0)), ElementsAre(6));
  // An explicit version.
  const auto versioned = Serve("input_stream: 'in' output_stream: 'out' " +
                                   SessionNode("m", "session", "servable_version: '7'") +
                                   InferenceNode("input_stream: 'in' output_stream: 'out'", ""),
                               "versioned");
  EXPECT_EQ(AskStatus(versioned, {Int32Tensor("in", {1})}).code(), StatusCode::kFailedPrecondition);
}

TEST_F(InferenceGraphTest, OptionsAreCheckedWhenTheGraphIsLoaded) {
  const auto fault = [this](const std::string& streams, const std::string& options) {
    return Make("input_stream: 'in' output_stream: 'out' " + SessionNode("m") +
                InferenceNode(streams, options))
        .status()
        .message();
  };
  const std::string one = "input_stream: 'OVTENSOR:in' output_stream: 'OVTENSOR:out'";
  EXPECT_THAT(fault(one, std::string(kInOut) + " input_order_list: 'IN'"),
              HasSubstr("tag_to_input_tensor_names and input_order_list are both set"));
  EXPECT_THAT(fault(one, "output_order_list: 'OUT'"),
              HasSubstr("output_order_list is set, but no output stream carries a vector"));
  EXPECT_THAT(fault("input_stream: 'OVTENSORS:in' output_stream: 'OVTENSOR:out'", ""),
              HasSubstr("input_stream 'in' carries a vector, but input_order_list is not set"));
  EXPECT_THAT(fault(one, "tag_to_input_tensor_names { key: 'OTHER' value: 'IN' }"),
              HasSubstr("tag_to_input_tensor_names has the key 'OTHER', which is not the tag of a stream"));
  EXPECT_THAT(fault("input_stream: 'TFLITE_TENSOR:in' output_stream: 'OVTENSOR:out'", ""),
              HasSubstr("streams tagged TFLITE_TENSOR are not supported"));
  // A key may be the prefix of tags.
  AddStep("m", Plus(1));
  EXPECT_TRUE(Make("input_stream: 'OVTENSOR1:in' output_stream: 'OVTENSOR:out' " + SessionNode("m") +
                   InferenceNode("input_stream: 'OVTENSOR1:in' output_stream: 'OVTENSOR:out'", kInOut))
                  .ok());
}

}  // namespace
}  // namespace braid
