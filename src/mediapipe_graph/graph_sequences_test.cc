// Sessions of graphs with stateful models.
#include "mediapipe_graph/graph_sequences.h"

#include <future>

#include "mediapipe_graph/testing/graph_fixture.h"
#include "pipeline/testing/fake_stateful.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class GraphSequencesTest : public GraphFixture {
 protected:
  std::shared_ptr<FakeStateful> AddStateful(const std::string& name, bool allowed = true) {
    auto model = std::make_shared<FakeStateful>(name, allowed);
    catalog_.Publish(model);
    return model;
  }
  static std::string Session(const std::string& servable) {
    return "node { calculator: 'OpenVINOModelServerSessionCalculator' output_side_packet: 'SESSION:" +
           servable +
           "' node_options { [type.googleapis.com/mediapipe.OpenVINOModelServerSessionCalculatorOptions] { "
           "servable_name: '" +
           servable + "' } } } ";
  }
  static std::string Infer(const std::string& session, const std::string& from, const std::string& to) {
    return "node { calculator: 'OpenVINOInferenceCalculator' input_side_packet: 'SESSION:" + session +
           "' input_stream: 'IN:" + from + "' output_stream: 'OUT:" + to + "' } ";
  }
  static std::string Between(const std::string& nodes) {
    return "input_stream: 'OVTENSOR:in' output_stream: 'OVTENSOR:out' " + nodes;
  }
  // in -> ma -> out
  static std::string One() { return Between(Session("ma") + Infer("ma", "in", "out")); }
  // in -> ma -> mb -> out
  static std::string Two() {
    return Between(Session("ma") + Session("mb") + Infer("ma", "in", "mid") + Infer("mb", "mid", "out"));
  }
  // in -> ma -> ma -> out
  static std::string Twice() {
    return Between(Session("ma") + Infer("ma", "in", "mid") + Infer("ma", "mid", "out"));
  }
  // in -> ma -> the test's node -> out
  static std::string ThenTest() {
    return Between(Session("ma") + Infer("ma", "in", "mid") +
                   "node { calculator: 'TestCalculator' input_stream: 'mid' output_stream: 'out' }");
  }
  // The node passes its input on, or fails when the input is `sum`.
  static void FailAt(int32_t sum) {
    TestCalculator::process = [sum](graph::Context& context) {
      if (Int32Values(context.Input(0).Get<OvTensor>().tensor)[0] == sum) return InternalError("broken");
      context.Output(0, context.Input(0));
      return OkStatus();
    };
  }

  static InferenceResponse Ask(const std::shared_ptr<GraphServable>& graph, const Turn& turn, int32_t x = 1) {
    KeptResponses kept;
    auto request = Request(graph, {Int32Tensor("in", {x})});
    Name(*request, turn);
    request->sink = &kept;
    graph->Infer(std::move(request));
    return std::move(kept.Wait());
  }
  static Status AskStatus(const std::shared_ptr<GraphServable>& graph, const Turn& turn) {
    return Ask(graph, turn).status;
  }
  using GraphFixture::AskStatus;
  static int32_t Out(const InferenceResponse& response) {
    EXPECT_TRUE(response.status.ok()) << response.status;
    EXPECT_EQ(response.outputs.size(), 1u);
    return response.outputs.empty() ? -1 : Int32Values(response.outputs[0])[0];
  }
  // Returns the parameter, if there is one.
  static std::optional<ParameterValue> IdIn(const InferenceResponse& response) {
    for (const auto& [name, value] : response.parameters) {
      if (name == "sequence_id") return value;
    }
    return std::nullopt;
  }
  static Status PushTurn(ServableStream& stream, const Turn& turn, int32_t x = 1) {
    InferenceRequest message;
    message.model_name = "g";
    message.inputs.push_back(Int32Tensor("in", {x}));
    Name(message, turn);
    return stream.Push(message);
  }
};

// ---- the model's consent ----

TEST_F(GraphSequencesTest, AGraphOverAModelThatForbidsItIsNotLoaded) {
  AddStateful("ma", false);
  const Status status = Make(One()).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "Failed to initialize mediapipe graph - graph 'g': 'ma' is a stateful model, which sessions of "
            "graphs cannot call (\"allow_in_pipelines\": true in the model's entry allows it)");
}

TEST_F(GraphSequencesTest, AModelThatComesLaterIsRefusedToRequests) {
  const auto graph = Serve(One());
  EXPECT_FALSE(graph->has_sequences());
  AddStateful("ma", false);
  const Status status = AskStatus(graph, StartOf(7));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      status.message(),
      HasSubstr("OpenVINOModelServerSessionCalculator failed to load the model 'ma': 'ma' is a stateful "
                "model, which sessions of graphs cannot call (\"allow_in_pipelines\": true"));
  AddStateful("ma");
  EXPECT_TRUE(graph->has_sequences());
  EXPECT_TRUE(AskStatus(graph, StartOf(7)).ok());
}

TEST_F(GraphSequencesTest, AModelThatComesDuringAStreamIsRefusedToItsMessages) {
  AddStateful("ma");
  const auto graph = Serve(One());
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(PushTurn(*stream, StartOf(7)).ok());
  AddStateful("ma", false);
  EXPECT_TRUE(PushTurn(*stream, StartOf(8)).ok());
  EXPECT_THAT(kept.WaitEnd().message(), HasSubstr("'ma' is a stateful model"));
}

// ---- requests ----

TEST_F(GraphSequencesTest, TheSequenceGoesToAllSessions) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  const auto graph = Serve(Two());
  InferenceResponse response = Ask(graph, StartOf(7), 5);
  EXPECT_EQ(Out(response), 5);
  EXPECT_EQ(IdIn(response), ParameterValue(int64_t{7}));
  EXPECT_EQ(Out(Ask(graph, MiddleOf(7), 2)), 12);
  EXPECT_EQ(Out(Ask(graph, EndOf(7), 1)), 20);
  EXPECT_THAT(a->sums(), IsEmpty());
  EXPECT_THAT(b->sums(), IsEmpty());
  EXPECT_THAT(AskStatus(graph, MiddleOf(7)).message(),
              HasSubstr("inference of 'ma' failed: Sequence with provided ID does not exist"));
  EXPECT_THAT(AskStatus(graph, Turn()).message(),
              HasSubstr("inference of 'ma' failed: Sequence ID has not been provided in request inputs"));
}

TEST_F(GraphSequencesTest, ParametersNameTheSequence) {
  const auto a = AddStateful("ma");
  const auto graph = Serve("# OVMS_GRAPH_QUEUE_MAX_SIZE: 2\n" + One());
  const auto ask = [&graph](Parameters parameters) {
    return GraphFixture::Ask(graph, {Int32Tensor("in", {1})}, std::move(parameters));
  };
  EXPECT_EQ(Out(ask({{"sequence_id", int64_t{7}}, {"sequence_start", true}})), 1);
  InferenceResponse response = ask({{"sequence_id", uint64_t{7}}, {"sequence_start", false}});
  EXPECT_EQ(Out(response), 2);
  EXPECT_EQ(IdIn(response), ParameterValue(int64_t{7}));
  EXPECT_EQ(Out(ask({{"sequence_end", true}, {"sequence_id", int64_t{7}}})), 3);
  EXPECT_THAT(a->sums(), IsEmpty());
  EXPECT_EQ(
      ask({{"sequence_id", 7.5}}).status,
      InvalidArgumentError("parameter 'sequence_id' names the sequence for the stateful models of the graph: "
                           "expected a number or a text"));
  EXPECT_THAT(ask({{"sequence_start", int64_t{1}}}).status.message(), HasSubstr("expected true or false"));
  EXPECT_THAT(ask({{"sequence_id", std::string("seven")}, {"sequence_start", true}}).status.message(),
              HasSubstr("needs a numeric id, not 'seven'"));
  // Without sequences they are ordinary parameters.
  const auto plain = Serve("# OVMS_GRAPH_QUEUE_MAX_SIZE: 2\n" + std::string(kPass), "plain");
  EXPECT_THAT(AskStatus(plain, {Int32Tensor("in", {1})}, {{"sequence_id", int64_t{7}}}).message(),
              HasSubstr("Input side packets are not supported for graphs with queue enabled"));
}

TEST_F(GraphSequencesTest, ParametersMayBeSidePacketsToo) {
  AddStateful("ma");
  const auto graph = Serve("input_side_packet: 'sequence_id' " + One());
  EXPECT_EQ(Out(GraphFixture::Ask(graph, {Int32Tensor("in", {1})},
                                  {{"sequence_id", int64_t{7}}, {"sequence_start", true}})),
            1);
  EXPECT_EQ(GraphFixture::AskStatus(graph, {Int32Tensor("in", {1})}, {{"sequence_id", uint64_t{7}}}).code(),
            StatusCode::kUnsupported);
}

TEST_F(GraphSequencesTest, TheServersIdIsTold) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  const auto graph = Serve(Two());
  const auto id = IdIn(Ask(graph, {0, true, false}));
  ASSERT_TRUE(id.has_value());
  const auto number = static_cast<uint64_t>(std::get<int64_t>(*id));
  EXPECT_NE(number, 0u);
  EXPECT_THAT(a->sums(), ElementsAre(Pair(number, 1)));
  EXPECT_THAT(b->sums(), ElementsAre(Pair(number, 1)));
  EXPECT_EQ(IdIn(Ask(graph, StartOf(UINT64_MAX))), ParameterValue(UINT64_MAX));
}

TEST_F(GraphSequencesTest, OtherModelsAreToldAndNothingIsSaidOfIt) {
  AddStep("ma", [](std::unique_ptr<InferenceRequest> request) {
    EXPECT_EQ(request->correlation_id, CorrelationId(uint64_t{7}));
    EXPECT_TRUE(request->sequence_start);
    EXPECT_FALSE(request->sequence_end);
    request->Respond(FakeStep::Response({Int32Tensor("OUT", {3})}), true);
  });
  const InferenceResponse response = Ask(Serve(One()), StartOf(7));
  EXPECT_EQ(Out(response), 3);
  EXPECT_EQ(IdIn(response), std::nullopt);
}

TEST_F(GraphSequencesTest, ASessionThatAsksTwiceBeginsOnce) {
  const auto a = AddStateful("ma");
  const auto graph = Serve(Twice());
  EXPECT_EQ(Out(Ask(graph, StartOf(7), 1)), 2);  // 1, and 1 more
  EXPECT_EQ(Out(Ask(graph, MiddleOf(7), 1)), 6);
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 6)));
}

TEST_F(GraphSequencesTest, ASessionThatAsksTwiceCannotEnd) {
  const auto a = AddStateful("ma");
  const auto graph = Serve(Twice());
  Ask(graph, StartOf(7));
  const Status status = AskStatus(graph, EndOf(7));
  EXPECT_THAT(status.message(), HasSubstr("the message ends its sequence but calls 'ma' more than once."));
  EXPECT_THAT(a->sums(), IsEmpty());
  EXPECT_TRUE(AskStatus(graph, StartOf(7)).ok());
}

// ---- failures ----

TEST_F(GraphSequencesTest, AStartThatFailsLeavesNothing) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  const auto graph = Serve(Two());
  b->FailNext(InternalError("broken"));
  EXPECT_FALSE(AskStatus(graph, StartOf(7)).ok());
  EXPECT_THAT(a->sums(), IsEmpty());
  EXPECT_THAT(a->dropped(), ElementsAre(7));
  EXPECT_THAT(b->dropped(), IsEmpty());
  EXPECT_TRUE(AskStatus(graph, StartOf(7)).ok());
  EXPECT_THAT(AskStatus(graph, StartOf(7)).message(), HasSubstr("Sequence with provided ID already exists"));
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 1)));
}

TEST_F(GraphSequencesTest, AnEndThatFailsIsOneForAllOrNone) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  const auto graph = Serve(Two());
  Ask(graph, StartOf(7));
  a->FailNext(InternalError("broken"));
  EXPECT_FALSE(AskStatus(graph, EndOf(7)).ok());
  EXPECT_THAT(b->sums(), ElementsAre(Pair(7, 1)));
  b->FailNext(InternalError("broken"));
  EXPECT_FALSE(AskStatus(graph, EndOf(7)).ok());
  EXPECT_THAT(a->sums(), IsEmpty());
  EXPECT_THAT(b->sums(), IsEmpty());
}

TEST_F(GraphSequencesTest, ACancelledStartLeavesNothing) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  const auto graph = Serve(Two());
  b->Hold();
  KeptResponses kept;
  auto request = Request(graph, {Int32Tensor("in", {1})});
  Name(*request, StartOf(7));
  request->sink = &kept;
  const auto cancellation = request->cancellation;
  graph->Infer(std::move(request));
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 1)));
  auto cancelled = std::make_shared<std::promise<void>>();
  b->WhenCancelled([cancelled] { cancelled->set_value(); });
  cancellation->Cancel();
  ASSERT_EQ(cancelled->get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_FALSE(kept.ended());
  b->LetGo();
  EXPECT_EQ(kept.Wait().status.code(), StatusCode::kCancelled);
  EXPECT_THAT(a->sums(), IsEmpty());
  EXPECT_THAT(b->sums(), IsEmpty());
}

TEST_F(GraphSequencesTest, AStepThatFailsChangesNothing) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  const auto graph = Serve(Two());
  Ask(graph, StartOf(7));
  b->FailNext(InternalError("broken"));
  EXPECT_FALSE(AskStatus(graph, MiddleOf(7)).ok());
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 1)));
  EXPECT_EQ(Out(Ask(graph, MiddleOf(7))), 3);
}

TEST_F(GraphSequencesTest, ASessionThatHasAskedTwiceIsTakenBackAsAWhole) {
  const auto a = AddStateful("ma");
  const auto graph =
      Serve(Between(Session("ma") + Infer("ma", "in", "mid") + Infer("ma", "mid", "late") +
                    "node { calculator: 'TestCalculator' input_stream: 'late' output_stream: 'out' }"));
  FailAt(6);
  EXPECT_EQ(Out(Ask(graph, StartOf(7))), 2);
  EXPECT_FALSE(AskStatus(graph, MiddleOf(7)).ok());
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 2)));
}

TEST_F(GraphSequencesTest, GraphsBehindGraphsTakeBackToo) {
  const auto a = AddStateful("ma");
  Serve(One(), "inner");
  const auto graph =
      Serve(Between(Session("inner") +
                    "node { calculator: 'OpenVINOInferenceCalculator' input_side_packet: 'SESSION:inner' "
                    "input_stream: 'IN:in' output_stream: 'OUT:mid' node_options { "
                    "[type.googleapis.com/mediapipe.OpenVINOInferenceCalculatorOptions] { "
                    "tag_to_input_tensor_names { key: 'IN' value: 'in' } tag_to_output_tensor_names { key: "
                    "'OUT' value: 'out' } } } } "
                    "node { calculator: 'TestCalculator' input_stream: 'mid' output_stream: 'out' }"));
  FailAt(1);
  EXPECT_TRUE(graph->has_sequences());
  EXPECT_FALSE(AskStatus(graph, StartOf(7)).ok());
  EXPECT_THAT(a->sums(), IsEmpty());
  FailAt(0);
  EXPECT_TRUE(AskStatus(graph, StartOf(7)).ok());
  FailAt(2);
  EXPECT_FALSE(AskStatus(graph, MiddleOf(7)).ok());
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 1)));
}

TEST_F(GraphSequencesTest, GraphsThatAskThemselvesAreNoTrap) {
  const std::string self = Between(Session("g") + Infer("g", "in", "out"));
  const auto graph = Serve(self);
  EXPECT_FALSE(graph->has_sequences());
  graph->DropSequence(uint64_t{7});
}

// ---- streams ----

TEST_F(GraphSequencesTest, EachMessageHasASequenceOfItsOwn) {
  const auto a = AddStateful("ma");
  const auto graph = Serve(One());
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(PushTurn(*stream, StartOf(7), 1).ok());
  EXPECT_TRUE(PushTurn(*stream, StartOf(8), 10).ok());
  EXPECT_TRUE(PushTurn(*stream, MiddleOf(7), 2).ok());
  EXPECT_TRUE(PushTurn(*stream, EndOf(8), 20).ok());
  EXPECT_THAT(kept.Texts(), ElementsAre("out@0=1 ", "out@1=10 ", "out@2=3 ", "out@3=30 "));
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 3)));
  stream->CloseInputs();
  EXPECT_TRUE(kept.WaitEnd().ok());
  // A sequence belongs to the model, not to the stream.
  EXPECT_EQ(Out(Ask(graph, MiddleOf(7), 4)), 7);
}

TEST_F(GraphSequencesTest, MessagesThatWaitAreNotMixedUp) {
  const auto a = AddStateful("ma");
  const auto graph = Serve(One());
  KeptStream kept;
  const auto stream = Open(graph, kept);
  a->Hold();
  EXPECT_TRUE(PushTurn(*stream, StartOf(7), 1).ok());
  EXPECT_TRUE(PushTurn(*stream, MiddleOf(7), 2).ok());
  EXPECT_TRUE(PushTurn(*stream, EndOf(7), 3).ok());
  EXPECT_TRUE(a->LetGo());
  EXPECT_TRUE(a->LetGo());
  EXPECT_TRUE(a->LetGo());
  EXPECT_THAT(kept.Texts(), ElementsAre("out@0=1 ", "out@1=3 ", "out@2=6 "));
  EXPECT_THAT(a->sums(), IsEmpty());
}

TEST_F(GraphSequencesTest, AMessageWithoutASequenceHasNotTheOneBefore) {
  AddStateful("ma");
  const auto graph = Serve(One());
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(PushTurn(*stream, StartOf(7)).ok());
  EXPECT_TRUE(PushTurn(*stream, Turn()).ok());
  EXPECT_THAT(kept.WaitEnd().message(), HasSubstr("Sequence ID has not been provided"));
}

TEST_F(GraphSequencesTest, AStreamThatFailsTakesBackWhatItHasNotAnswered) {
  const auto a = AddStateful("ma");
  const auto graph = Serve(ThenTest());
  FailAt(50);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(PushTurn(*stream, StartOf(7), 1).ok());
  EXPECT_THAT(kept.Texts(), ElementsAre("out@0=1 "));
  EXPECT_TRUE(PushTurn(*stream, StartOf(8), 50).ok());
  EXPECT_FALSE(kept.WaitEnd().ok());
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 1)));
  EXPECT_THAT(a->dropped(), ElementsAre(8));
}

}  // namespace
}  // namespace braid
