#include "pipeline/graph.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

NodeSpec MakeNode(std::string name, std::vector<std::string> inputs, std::vector<std::string> outputs,
                  bool many = false) {
  NodeSpec node{"'" + name + "'", {}, {}, many};
  for (const auto& tensor : inputs) node.inputs.push_back({tensor, tensor, false});
  for (const auto& tensor : outputs) node.outputs.push_back({tensor, tensor, false});
  return node;
}

std::string Fault(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                  const std::vector<NodeSpec>& nodes) {
  return Graph::Build(inputs, outputs, nodes).status().message();
}

TEST(Graph, EveryTensorHasOneProducer) {
  EXPECT_EQ(Fault({"x"}, {"y"}, {MakeNode("a", {"x"}, {"y"}), MakeNode("b", {"x"}, {"y"})}),
            "tensor 'y' is made twice: by step 'a' and by step 'b'");
  EXPECT_EQ(Fault({"x"}, {"x"}, {MakeNode("a", {"x"}, {"x"})}),
            "tensor 'x' is made twice: by the inputs and by step 'a'");
  EXPECT_EQ(Fault({"x"}, {"y"}, {MakeNode("a", {"z"}, {"y"})}),
            "input 'z' of step 'a' takes tensor 'z', which is neither an input nor made by any step");
  EXPECT_EQ(Fault({"x"}, {"z"}, {MakeNode("a", {"x"}, {"y"})}), "output 'z' is not made by any step");
}

TEST(Graph, NamesTheStepsOfACycle) {
  EXPECT_EQ(
      Fault({"x"}, {"c"},
            {MakeNode("before", {"x"}, {"w"}), MakeNode("a", {"w", "c"}, {"a"}), MakeNode("b", {"a"}, {"b"}),
             MakeNode("c", {"b"}, {"c"}), MakeNode("after", {"c"}, {"d"})}),
      "these steps wait for each other: 'a' -> 'b' -> 'c' -> 'a'");
  EXPECT_EQ(Fault({}, {"a"}, {MakeNode("a", {"a"}, {"a"})}), "these steps wait for each other: 'a' -> 'a'");
}

TEST(Graph, WhatLiesBehindManyAnswersIsInTheirScope) {
  auto graph = Graph::Build({"x"}, {"z"},
                            {MakeNode("join", {"x", "s", "p"}, {"z"}), MakeNode("stream", {"x"}, {"s"}, true),
                             MakeNode("plain", {"x"}, {"p"})});
  ASSERT_TRUE(graph.ok());
  const auto& nodes = (*graph)->nodes();
  ASSERT_EQ((*graph)->scopes().size(), 2u);
  EXPECT_EQ(nodes[0].scope, nodes[1].opens);
  EXPECT_EQ(nodes[1].scope, Graph::kRoot);
  EXPECT_EQ(nodes[2].scope, Graph::kRoot);
  EXPECT_TRUE((*graph)->Within(nodes[0].scope, Graph::kRoot));
  EXPECT_FALSE((*graph)->Within(Graph::kRoot, nodes[0].scope));
}

TEST(Graph, RefusesToJoinStreamsThatAreNotOneWithinTheOther) {
  const std::vector<NodeSpec> streams = {MakeNode("a", {"x"}, {"s"}, true),
                                         MakeNode("b", {"x"}, {"t"}, true)};
  EXPECT_EQ(
      Fault({"x"}, {"s", "t"}, streams),
      "the response joins the responses of step 'a' and of step 'b', which both may respond any number of "
      "times; which responses belong together is not defined");
  auto joined = streams;
  joined.push_back(MakeNode("c", {"s", "t"}, {"u"}));
  EXPECT_EQ(Fault({"x"}, {"u"}, joined).substr(0, 46), "step 'c' joins the responses of step 'a' and o");
  EXPECT_TRUE(Graph::Build({"x"}, {"s"}, streams).ok());
  // One after the other is well.
  EXPECT_TRUE(
      Graph::Build({"x"}, {"s", "t"}, {MakeNode("a", {"x"}, {"s"}, true), MakeNode("b", {"s"}, {"t"}, true)})
          .ok());
}

TEST(Graph, GathersFromTheScopeOfADemultiplexer) {
  GraphSpec spec{
      .inputs = {"x"},
      .outputs = {{"out", "b", false}, {"whole", "g", false}},
      .nodes = {MakeNode("a", {"x"}, {"a"}), MakeNode("b", {"a"}, {"b"}), MakeNode("g", {"b"}, {"g"})},
      .gather_outputs = true};
  spec.nodes[0].demultiply = 3;
  spec.nodes[2].gather_from = 0;
  auto graph = Graph::Build(spec);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ((*graph)->scopes().size(), 2u);
  EXPECT_EQ((*graph)->nodes()[1].scope, 1u);
  EXPECT_EQ((*graph)->nodes()[2].scope, Graph::kRoot);
  // The node and the response share what is gathered.
  ASSERT_EQ((*graph)->gathers().size(), 1u);
  const Graph::Gather& gather = (*graph)->gathers()[0];
  EXPECT_EQ((*graph)->nodes()[2].inputs[0].tensor, gather.to);
  EXPECT_EQ((*graph)->outputs()[0], gather.to);
  EXPECT_EQ((*graph)->tensors()[gather.from].scope, 1u);
  EXPECT_EQ((*graph)->tensors()[gather.to].scope, Graph::kRoot);
  EXPECT_EQ((*graph)->output_names()[1], "whole");

  spec.nodes[2].gather_from = 1;
  EXPECT_EQ(Graph::Build(spec).status().message(),
            "step 'g' gathers its input 'b' where that is not a piece");
  // Nobody knows how many answers there will be.
  spec.nodes[0] = MakeNode("a", {"x"}, {"a"}, true);
  spec.nodes[2].gather_from = 0;
  EXPECT_EQ(Graph::Build(spec).status().message(),
            "step 'g' gathers its input 'b' where that is not a piece");
  spec.nodes[2].gather_from = Graph::kNone;
  EXPECT_EQ(Graph::Build(spec).status().message(), "the response cannot gather the responses of step 'a'");
}

TEST(Graph, InputsThatAreCutAreInAScope) {
  GraphSpec spec{.inputs = {"x"},
                 .outputs = {{"out", "a", false}},
                 .nodes = {MakeNode("a", {"x"}, {"a"})},
                 .demultiply = Graph::kDynamic,
                 .gather_outputs = true};
  auto graph = Graph::Build(spec);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->input_scope(), 1u);
  EXPECT_EQ((*graph)->scopes()[1].opener, Graph::kRequest);
  EXPECT_EQ((*graph)->nodes()[0].scope, 1u);
  spec.nodes[0].gather_from = Graph::kRequest;
  graph = Graph::Build(spec);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->nodes()[0].scope, Graph::kRoot);
}

}  // namespace
}  // namespace braid
