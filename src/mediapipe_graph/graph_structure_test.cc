// Servable::structure() of graphs, with its counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mediapipe_graph/testing/graph_fixture.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class GraphStructureTest : public GraphFixture {
 protected:
  // in -> infer (a session of "m") -> pass -> out.
  static constexpr const char* kSession = R"(
    input_stream: "OVTENSOR:in" output_stream: "OVTENSOR:out"
    node { name: "session" calculator: "OpenVINOModelServerSessionCalculator" output_side_packet: "SESSION:s"
      node_options { [type.googleapis.com / mediapipe.OpenVINOModelServerSessionCalculatorOptions]: {
        servable_name: "m" servable_version: "1" } } }
    node { name: "infer" calculator: "OpenVINOInferenceCalculator" input_side_packet: "SESSION:s"
      input_stream: "OVTENSOR:in" output_stream: "OVTENSOR:scores"
      node_options { [type.googleapis.com / mediapipe.OpenVINOInferenceCalculatorOptions]: {
        tag_to_input_tensor_names { key: "OVTENSOR" value: "IN" }
        tag_to_output_tensor_names { key: "OVTENSOR" value: "OUT" } } } }
    node { calculator: "PassThroughCalculator" input_stream: "scores" output_stream: "out" })";

  static std::vector<std::pair<std::string, std::string>> Counts(const ServableStructure& structure) {
    std::vector<std::pair<std::string, std::string>> counts;
    for (const StructureNode& node : structure.nodes) {
      counts.emplace_back(node.name, std::to_string(node.started) + "/" + std::to_string(node.ended) + "/" +
                                         std::to_string(node.failed));
    }
    return counts;
  }
  static std::vector<std::pair<std::string, uint64_t>> Passed(const ServableStructure& structure) {
    std::vector<std::pair<std::string, uint64_t>> passed;
    for (const StructureEdge& edge : structure.edges) {
      passed.emplace_back(structure.nodes[edge.from].name + " " + edge.from_port + " -> " +
                              structure.nodes[edge.to].name + " " + edge.to_port,
                          edge.passed);
    }
    return passed;
  }
};

TEST_F(GraphStructureTest, ASessionStandsAtTheNodeThatAsksIt) {
  AddStep("m", [](std::unique_ptr<InferenceRequest> request) {
    request->Respond(FakeStep::Response({Int32Tensor("OUT", {5})}), true);
  });
  const auto graph = Serve(kSession);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Ask(graph, {Int32Tensor("in", {1})}).status.ok());
  const ServableStructure structure = *graph->structure();
  ASSERT_EQ(structure.nodes.size(), 4u);
  EXPECT_EQ(structure.nodes[1].kind, StructureNodeKind::kModel);
  EXPECT_EQ(structure.nodes[1].runs, "m");
  EXPECT_EQ(structure.nodes[1].version, 1);
  EXPECT_EQ(structure.nodes[1].note, "SESSION:s");
  EXPECT_EQ(structure.nodes[2].kind, StructureNodeKind::kCalculator);
  EXPECT_EQ(structure.nodes[2].runs, "PassThroughCalculator");
  EXPECT_THAT(Counts(structure),
              ElementsAre(Pair("request", "3/3/0"), Pair("infer", "3/3/0"),
                          Pair("PassThroughCalculator", "3/3/0"), Pair("response", "3/3/0")));
  EXPECT_THAT(Passed(structure), ElementsAre(Pair("request OVTENSOR:in -> infer OVTENSOR:in", 3),
                                             Pair("infer OVTENSOR:scores -> PassThroughCalculator scores", 3),
                                             Pair("PassThroughCalculator out -> response OVTENSOR:out", 3)));
  for (size_t i = 0; i < 3; ++i) EXPECT_GT(structure.nodes[i].total_ns, 0u) << i;
}

TEST_F(GraphStructureTest, AModelThatFailsIsTheFailureOfItsNode) {
  AddStep("m", [](std::unique_ptr<InferenceRequest> request) { request->Fail(InternalError("bad luck")); });
  const auto graph = Serve(kSession);
  EXPECT_FALSE(AskStatus(graph, {Int32Tensor("in", {1})}).ok());
  EXPECT_THAT(Counts(*graph->structure()),
              ElementsAre(Pair("request", "1/1/1"), Pair("infer", "1/1/1"),
                          Pair("PassThroughCalculator", "0/0/0"), Pair("response", "0/0/0")));
}

TEST_F(GraphStructureTest, AStreamIsOneRequestWithManyResponses) {
  const auto graph = Serve(kPass);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Push(*stream, {Int32Tensor("in", {i})}).ok());
  EXPECT_THAT(Counts(*graph->structure()),
              ElementsAre(Pair("request", "1/0/0"), Pair("PassThroughCalculator", "3/3/0"),
                          Pair("response", "3/3/0")));
  stream->CloseInputs();
  EXPECT_TRUE(kept.WaitEnd().ok());
  EXPECT_EQ(graph->structure()->nodes[0].ended, 1u);
}

TEST_F(GraphStructureTest, WhatAClientGivesUpHasNotFailed) {
  HeldCalls held;
  const auto graph = Serve(kTest);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(Push(*stream, {Int32Tensor("in", {1})}).ok());
  held.WaitFor(1);
  stream->Cancel();
  EXPECT_EQ(kept.WaitEnd().code(), StatusCode::kCancelled);
  EXPECT_THAT(Counts(*graph->structure()),
              ElementsAre(Pair("request", "1/1/0"), Pair("test", "1/1/0"), Pair("response", "0/0/0")));
}

TEST_F(GraphStructureTest, NodesAndPortsAreInTheWordsOfTheFile) {
  const auto graph = Serve(R"(input_stream: "OVTENSOR1:a" input_stream: "OVTENSOR2:b"
      output_stream: "OVTENSOR1:x" output_stream: "OVTENSOR2:y"
      node { calculator: "PassThroughCalculator" input_stream: "T:0:a" input_stream: "T:1:b"
             output_stream: "T:0:c" output_stream: "T:1:y" }
      node { calculator: "PassThroughCalculator" input_stream: "c" output_stream: "x" })");
  EXPECT_THAT(Passed(*graph->structure()),
              ElementsAre(Pair("request OVTENSOR1:a -> PassThroughCalculator_1 T:a", 0),
                          Pair("request OVTENSOR2:b -> PassThroughCalculator_1 T:1:b", 0),
                          Pair("PassThroughCalculator_1 T:c -> PassThroughCalculator_2 c", 0),
                          Pair("PassThroughCalculator_2 x -> response OVTENSOR1:x", 0),
                          Pair("PassThroughCalculator_1 T:1:y -> response OVTENSOR2:y", 0)));
}

}  // namespace
}  // namespace braid
