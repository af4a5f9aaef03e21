#include "pipeline/dag.h"

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
  return Dag::Build(inputs, outputs, nodes).status().message();
}

TEST(Dag, EveryTensorHasOneProducer) {
  EXPECT_EQ(Fault({"x"}, {"y"}, {MakeNode("a", {"x"}, {"y"}), MakeNode("b", {"x"}, {"y"})}),
            "tensor 'y' is produced twice: by step 'a' and by step 'b'");
  EXPECT_EQ(Fault({"x"}, {"x"}, {MakeNode("a", {"x"}, {"x"})}),
            "tensor 'x' is produced twice: by the inputs and by step 'a'");
  EXPECT_EQ(Fault({"x"}, {"y"}, {MakeNode("a", {"z"}, {"y"})}),
            "input 'z' of step 'a' takes tensor 'z', which is neither an input nor an output of a step");
  EXPECT_EQ(Fault({"x"}, {"z"}, {MakeNode("a", {"x"}, {"y"})}), "output 'z' is not produced by any step");
}

TEST(Dag, NamesTheStepsOfACycle) {
  EXPECT_EQ(
      Fault({"x"}, {"c"},
            {MakeNode("before", {"x"}, {"w"}), MakeNode("a", {"w", "c"}, {"a"}), MakeNode("b", {"a"}, {"b"}),
             MakeNode("c", {"b"}, {"c"}), MakeNode("after", {"c"}, {"d"})}),
      "these steps form a cycle: 'a' -> 'b' -> 'c' -> 'a'");
  EXPECT_EQ(Fault({}, {"a"}, {MakeNode("a", {"a"}, {"a"})}), "these steps form a cycle: 'a' -> 'a'");
}

TEST(Dag, WhatLiesBehindManyAnswersIsInTheirScope) {
  auto dag = Dag::Build({"x"}, {"z"},
                        {MakeNode("join", {"x", "s", "p"}, {"z"}), MakeNode("stream", {"x"}, {"s"}, true),
                         MakeNode("plain", {"x"}, {"p"})});
  ASSERT_TRUE(dag.ok());
  const auto& nodes = (*dag)->nodes();
  ASSERT_EQ((*dag)->scopes().size(), 2u);
  EXPECT_EQ(nodes[0].scope, nodes[1].opens);
  EXPECT_EQ(nodes[1].scope, Dag::kRoot);
  EXPECT_EQ(nodes[2].scope, Dag::kRoot);
  EXPECT_TRUE((*dag)->Within(nodes[0].scope, Dag::kRoot));
  EXPECT_FALSE((*dag)->Within(Dag::kRoot, nodes[0].scope));
}

TEST(Dag, RefusesToJoinStreamsThatAreNotOneWithinTheOther) {
  const std::vector<NodeSpec> streams = {MakeNode("a", {"x"}, {"s"}, true),
                                         MakeNode("b", {"x"}, {"t"}, true)};
  EXPECT_EQ(Fault({"x"}, {"s", "t"}, streams),
            "the response joins the responses of step 'a' and of step 'b', which both may respond any number "
            "of times; their responses cannot be matched");
  auto joined = streams;
  joined.push_back(MakeNode("c", {"s", "t"}, {"u"}));
  EXPECT_EQ(Fault({"x"}, {"u"}, joined).substr(0, 46), "step 'c' joins the responses of step 'a' and o");
  EXPECT_TRUE(Dag::Build({"x"}, {"s"}, streams).ok());
  // One after the other is allowed.
  EXPECT_TRUE(
      Dag::Build({"x"}, {"s", "t"}, {MakeNode("a", {"x"}, {"s"}, true), MakeNode("b", {"s"}, {"t"}, true)})
          .ok());
}

TEST(Dag, GathersFromTheScopeOfADemultiplexer) {
  DagSpec spec{
      .inputs = {"x"},
      .outputs = {{"out", "b", false}, {"whole", "g", false}},
      .nodes = {MakeNode("a", {"x"}, {"a"}), MakeNode("b", {"a"}, {"b"}), MakeNode("g", {"b"}, {"g"})},
      .gather_outputs = true};
  spec.nodes[0].demultiply = 3;
  spec.nodes[2].gather_from = 0;
  auto dag = Dag::Build(spec);
  ASSERT_TRUE(dag.ok()) << dag.status();
  ASSERT_EQ((*dag)->scopes().size(), 2u);
  EXPECT_EQ((*dag)->nodes()[1].scope, 1u);
  EXPECT_EQ((*dag)->nodes()[2].scope, Dag::kRoot);
  // The node and the response share the gathered tensor.
  ASSERT_EQ((*dag)->gathers().size(), 1u);
  const Dag::Gather& gather = (*dag)->gathers()[0];
  EXPECT_EQ((*dag)->nodes()[2].inputs[0].tensor, gather.to);
  EXPECT_EQ((*dag)->outputs()[0], gather.to);
  EXPECT_EQ((*dag)->tensors()[gather.from].scope, 1u);
  EXPECT_EQ((*dag)->tensors()[gather.to].scope, Dag::kRoot);
  EXPECT_EQ((*dag)->output_names()[1], "whole");

  spec.nodes[2].gather_from = 1;
  EXPECT_EQ(Dag::Build(spec).status().message(),
            "step 'g' gathers its input 'b', which is not a demultiplexed piece");
  // The number of answers is unknown.
  spec.nodes[0] = MakeNode("a", {"x"}, {"a"}, true);
  spec.nodes[2].gather_from = 0;
  EXPECT_EQ(Dag::Build(spec).status().message(),
            "step 'g' gathers its input 'b', which is not a demultiplexed piece");
  spec.nodes[2].gather_from = Dag::kNone;
  EXPECT_EQ(Dag::Build(spec).status().message(), "the response cannot gather the responses of step 'a'");
}

TEST(Dag, InputsThatAreCutAreInAScope) {
  DagSpec spec{.inputs = {"x"},
               .outputs = {{"out", "a", false}},
               .nodes = {MakeNode("a", {"x"}, {"a"})},
               .demultiply = Dag::kDynamic,
               .gather_outputs = true};
  auto dag = Dag::Build(spec);
  ASSERT_TRUE(dag.ok()) << dag.status();
  EXPECT_EQ((*dag)->input_scope(), 1u);
  EXPECT_EQ((*dag)->scopes()[1].opener, Dag::kRequest);
  EXPECT_EQ((*dag)->nodes()[0].scope, 1u);
  spec.nodes[0].gather_from = Dag::kRequest;
  dag = Dag::Build(spec);
  ASSERT_TRUE(dag.ok()) << dag.status();
  EXPECT_EQ((*dag)->nodes()[0].scope, Dag::kRoot);
}

}  // namespace
}  // namespace braid
