// Servable::structure() of ensembles and pipelines, with its counts.
#include "pipeline/testing/pipeline_fixture.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::vector<std::string> Names(const ServableStructure& structure) {
  std::vector<std::string> names;
  for (const StructureNode& node : structure.nodes) names.push_back(node.name);
  return names;
}

const StructureNode& NodeOf(const ServableStructure& structure, const std::string& name) {
  for (const StructureNode& node : structure.nodes) {
    if (node.name == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  static const StructureNode none;
  return none;
}

// Returns "from.port -> to.port" and the number of tensors that have passed.
std::vector<std::pair<std::string, uint64_t>> Passed(const ServableStructure& structure) {
  std::vector<std::pair<std::string, uint64_t>> passed;
  for (const StructureEdge& edge : structure.edges) {
    passed.emplace_back(structure.nodes[edge.from].name + "." + edge.from_port + " -> " +
                            structure.nodes[edge.to].name + "." + edge.to_port,
                        edge.passed);
  }
  return passed;
}

// "started/ended/failed" by node.
std::vector<std::pair<std::string, std::string>> Counts(const ServableStructure& structure) {
  std::vector<std::pair<std::string, std::string>> counts;
  for (const StructureNode& node : structure.nodes) {
    counts.emplace_back(node.name, std::to_string(node.started) + "/" + std::to_string(node.ended) + "/" +
                                       std::to_string(node.failed));
  }
  return counts;
}

class StructureTest : public PipelineFixture {};

TEST_F(StructureTest, OfAPipelineIsInTheWordsOfItsDefinition) {
  AddSame("split", 2);
  AddPlus("plus", {-1}, 1);
  AddSame("join", 2);
  auto entry = Entry(
      {"x"}, {"out=c/z", "same=request/x"},
      {Cutting(Dl("a", "split", {"IN=request/x"}, {"OUT=pieces"}), -1),
       Dl("b", "plus", {"IN=a/pieces"}, {"OUT=y"}), Gathering(Dl("c", "join", {"IN=b/y"}, {"OUT=z"}), "a")});
  entry.nodes[1].version = 1;
  const auto structure = PipelineFixture::Serve(entry)->structure();
  ASSERT_TRUE(structure);
  EXPECT_THAT(Names(*structure), ElementsAre("request", "a", "b", "c", "response"));
  EXPECT_EQ(structure->nodes[0].kind, StructureNodeKind::kRequest);
  EXPECT_EQ(structure->nodes[1].kind, StructureNodeKind::kModel);
  EXPECT_EQ(structure->nodes[1].runs, "split");
  EXPECT_EQ(structure->nodes[1].version, -1);
  EXPECT_EQ(structure->nodes[1].note, "demultiply_count: 0");
  EXPECT_EQ(structure->nodes[2].version, 1);
  EXPECT_EQ(structure->nodes[2].note, "");
  EXPECT_EQ(structure->nodes[3].note, "gather_from_node: a");
  EXPECT_EQ(structure->nodes[4].kind, StructureNodeKind::kResponse);
  EXPECT_THAT(Passed(*structure),
              ElementsAre(Pair("request.x -> a.IN", 0), Pair("a.pieces -> b.IN", 0), Pair("b.y -> c.IN", 0),
                          Pair("c.z -> response.out", 0), Pair("request.x -> response.same", 0)));
}

TEST_F(StructureTest, ADemultiplexedNodeCountsOnceAShard) {
  AddSame("split", 2);
  AddPlus("plus", {-1}, 1);
  AddSame("join", 2);
  auto p = PipelineFixture::Serve(Entry(
      {"x"}, {"out=c/z"},
      {Cutting(Dl("a", "split", {"IN=request/x"}, {"OUT=pieces"}), 3),
       Dl("b", "plus", {"IN=a/pieces"}, {"OUT=y"}), Gathering(Dl("c", "join", {"IN=b/y"}, {"OUT=z"}), "a")}));
  for (int i = 0; i < 4; ++i) Run(p, {Ints("x", {3, 2}, {1, 2, 3, 4, 5, 6})});
  const auto structure = *p->structure();
  EXPECT_THAT(Counts(structure),
              ElementsAre(Pair("request", "4/4/0"), Pair("a", "4/4/0"), Pair("b", "12/12/0"),
                          Pair("c", "4/4/0"), Pair("response", "4/4/0")));
  EXPECT_THAT(Passed(structure), ElementsAre(Pair("request.x -> a.IN", 4), Pair("a.pieces -> b.IN", 12),
                                             Pair("b.y -> c.IN", 12), Pair("c.z -> response.out", 4)));
  for (const StructureNode& node : structure.nodes) {
    EXPECT_EQ(node.total_ns > 0, node.name != "response") << node.name;
  }
}

TEST_F(StructureTest, WhatTheResponseGathersCountsByPieces) {
  AddPlus("plus", {-1}, 1);
  auto entry = Entry({"x"}, {"out=b/y"}, {Dl("b", "plus", {"IN=request/x"}, {"OUT=y"})});
  entry.demultiply_count = 2;
  auto p = PipelineFixture::Serve(entry);
  EXPECT_EQ(p->structure()->nodes[0].note, "demultiply_count: 2");
  Run(p, {Ints("x", {2, 3}, {1, 2, 3, 4, 5, 6})});
  const auto structure = *p->structure();
  EXPECT_THAT(Counts(structure),
              ElementsAre(Pair("request", "1/1/0"), Pair("b", "2/2/0"), Pair("response", "1/1/0")));
  EXPECT_THAT(Passed(structure), ElementsAre(Pair("request.x -> b.IN", 2), Pair("b.y -> response.out", 2)));
}

TEST_F(StructureTest, BehindANodeThatFailsNothingStarts) {
  AddPlus("plus", {-1}, 1);
  AddModel("bad", {Spec("IN")}, {Spec("OUT")})->set_behaviour([](std::unique_ptr<InferenceRequest> request) {
    request->Fail(InternalError("bad luck"));
  });
  auto p = PipelineFixture::Serve(
      Entry({"x"}, {"out=c/y"},
            {Dl("a", "plus", {"IN=request/x"}, {"OUT=y"}), Dl("b", "bad", {"IN=a/y"}, {"OUT=y"}),
             Dl("c", "plus", {"IN=b/y"}, {"OUT=y"})}));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Failure(p, {Ints("x", {1}, {1})}).ok());
  const auto structure = *p->structure();
  EXPECT_THAT(Counts(structure), ElementsAre(Pair("request", "3/3/3"), Pair("a", "3/3/0"), Pair("b", "3/3/3"),
                                             Pair("c", "0/0/0"), Pair("response", "0/0/0")));
  EXPECT_THAT(Passed(structure), ElementsAre(Pair("request.x -> a.IN", 3), Pair("a.y -> b.IN", 3),
                                             Pair("b.y -> c.IN", 0), Pair("c.y -> response.out", 0)));
}

TEST_F(StructureTest, WhatIsCancelledEndsAndHasNotFailed) {
  auto slow = AddModel("slow", {Spec("IN")}, {Spec("OUT")});
  auto p = PipelineFixture::Serve(Entry({"x"}, {"out=a/y"}, {Dl("a", "slow", {"IN=request/x"}, {"OUT=y"})}));
  KeepingSink sink;
  auto request = Request(p, sink, {Ints("x", {1}, {1})});
  auto cancellation = request->cancellation;
  p->Infer(std::move(request));
  EXPECT_THAT(Counts(*p->structure()),
              ElementsAre(Pair("request", "1/0/0"), Pair("a", "1/0/0"), Pair("response", "0/0/0")));
  cancellation->Cancel();
  slow->Take()->Fail(InternalError("given up"));
  EXPECT_TRUE(sink.ended());
  EXPECT_THAT(Counts(*p->structure()),
              ElementsAre(Pair("request", "1/1/0"), Pair("a", "1/1/0"), Pair("response", "0/0/0")));
}

TEST_F(StructureTest, WhatAnotherNodesFailureCancelsHasNotFailed) {
  auto slow = AddModel("slow", {Spec("IN")}, {Spec("OUT")});
  auto other = AddModel("other", {Spec("IN")}, {Spec("OUT")});
  auto p = PipelineFixture::Serve(
      Entry({"x"}, {"out=a/y", "more=b/y"},
            {Dl("a", "slow", {"IN=request/x"}, {"OUT=y"}), Dl("b", "other", {"IN=request/x"}, {"OUT=y"})}));
  KeepingSink sink;
  Send(p, sink, {Ints("x", {1}, {1})});
  slow->Take()->Fail(InternalError("first"));
  EXPECT_TRUE(sink.ended());
  // The other node still runs and is cancelled.
  EXPECT_THAT(Counts(*p->structure()), ElementsAre(Pair("request", "1/1/1"), Pair("a", "1/1/1"),
                                                   Pair("b", "1/0/0"), Pair("response", "0/0/0")));
  auto late = other->Take();
  EXPECT_TRUE(late->cancelled());
  late->Fail(CancelledError("cancelled"));
  EXPECT_THAT(Counts(*p->structure()), ElementsAre(Pair("request", "1/1/1"), Pair("a", "1/1/1"),
                                                   Pair("b", "1/1/0"), Pair("response", "0/0/0")));
}

TEST_F(StructureTest, ANewPipelineCountsAnew) {
  AddPlus("plus", {-1}, 1);
  const auto entry = Entry({"x"}, {"out=a/y"}, {Dl("a", "plus", {"IN=request/x"}, {"OUT=y"})});
  auto before = PipelineFixture::Serve(entry);
  Run(before, {Ints("x", {1}, {1})});
  auto after = PipelineFixture::Serve(entry);
  EXPECT_EQ(NodeOf(*before->structure(), "a").ended, 1u);
  EXPECT_EQ(NodeOf(*after->structure(), "a").started, 0u);
}

TEST_F(StructureTest, OfAnEnsembleHasTheNamesOfItsModels) {
  AddStep("double", Plus(1));
  AddStep("stream", Plus(1), true);
  auto e = EnsembleFixture::Serve(StepText("double", "X", "T") + StepText("double", "T", "U") +
                                  StepText("stream", "U", "Y"));
  const auto structure = *e->structure();
  EXPECT_THAT(Names(structure), ElementsAre("request", "double_1", "double_2", "stream", "response"));
  EXPECT_EQ(structure.nodes[1].runs, "double");
  EXPECT_EQ(structure.nodes[3].note, "decoupled");
  EXPECT_THAT(Passed(structure),
              ElementsAre(Pair("request.X -> double_1.IN", 0), Pair("double_1.OUT -> double_2.IN", 0),
                          Pair("double_2.OUT -> stream.IN", 0), Pair("stream.OUT -> response.Y", 0)));
}

// One execution answers three times: the nodes behind it run for each answer.
TEST_F(StructureTest, BehindADecoupledStepNodesCountForEachAnswer) {
  AddStep(
      "stream",
      [](std::unique_ptr<InferenceRequest> request) {
        for (int i = 0; i < 3; ++i) request->Respond(FakeStep::Response({Int32Tensor("OUT", {i})}), false);
        request->Respond(std::nullopt, true);
      },
      true);
  AddStep("after", Plus(1));
  auto e = EnsembleFixture::Serve(StepText("stream", "X", "T") + StepText("after", "T", "Y"));
  for (int i = 0; i < 2; ++i) {
    KeepingSink sink;
    Ask(e, sink);
    EXPECT_EQ(sink.responses().size(), 3u);
  }
  const auto structure = *e->structure();
  EXPECT_THAT(Counts(structure), ElementsAre(Pair("request", "2/2/0"), Pair("stream", "2/2/0"),
                                             Pair("after", "6/6/0"), Pair("response", "6/6/0")));
  EXPECT_THAT(Passed(structure),
              ElementsAre(Pair("request.X -> stream.IN", 2), Pair("stream.OUT -> after.IN", 6),
                          Pair("after.OUT -> response.Y", 6)));
}

// An output that the client does not request does not pass.
TEST_F(StructureTest, OnlyWantedOutputsPassToTheResponse) {
  AddStep("a", Plus(1));
  AddStep("b", Plus(1));
  auto e = EnsembleFixture::Serve(StepText("a", "X", "Y") + StepText("b", "X", "Z"), {"Y", "Z"});
  KeepingSink sink;
  auto request = Request(e, sink, {Int32Tensor("X", {1})});
  request->requested_outputs = {"Z"};
  e->Infer(std::move(request));
  EXPECT_THAT(Passed(*e->structure()),
              ElementsAre(Pair("request.X -> a.IN", 1), Pair("request.X -> b.IN", 1),
                          Pair("a.OUT -> response.Y", 0), Pair("b.OUT -> response.Z", 1)));
}

TEST_F(StructureTest, AnOptionalInputThatIsMissingDoesNotPass) {
  std::vector<TensorSpec> inputs{Spec("A"), Spec("B")};
  inputs[0].optional = true;
  auto step = std::make_shared<FakeStep>("m", inputs, std::vector{Spec("OUT")});
  step->set_behaviour([](std::unique_ptr<InferenceRequest> request) {
    request->Respond(FakeStep::Response({Int32Tensor("OUT", {1})}), true);
  });
  catalog_.Publish(step);
  auto e = EnsembleFixture::Make(
      "step { model_name: 'm' input_map { key: 'A' value: 'X' } input_map { key: 'B' value: 'W' } "
      "output_map { key: 'OUT' value: 'Y' } }",
      {"Y"}, {"X", "W"});
  ASSERT_TRUE(e.ok()) << e.status();
  const_cast<TensorSpec&>((*e)->info().inputs[0]).optional = true;
  KeepingSink sink;
  (*e)->Infer(Request(*e, sink, {Int32Tensor("W", {1})}));
  EXPECT_TRUE(sink.status().ok()) << sink.status();
  EXPECT_THAT(
      Passed(*(*e)->structure()),
      ElementsAre(Pair("request.X -> m.A", 0), Pair("request.W -> m.B", 1), Pair("m.OUT -> response.Y", 1)));
}

}  // namespace
}  // namespace braid
