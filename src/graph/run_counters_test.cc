// A run's counts of its nodes and streams.
#include "base/flow_counters.h"
#include "graph/testing/graph_fixture.h"

namespace braid::graph {
namespace {

using ::testing::ElementsAre;
using testing::Int;
using testing::Register;

class RunCountersTest : public testing::GraphFixture {
 protected:
  void AddNode(testing::Behaviour behaviour) { Register(*registry, "Node", std::move(behaviour)); }
  void LoadCounted(const std::string& text) {
    Load(text);
    ASSERT_TRUE(run);
    edges_ = topology->outputs().size();
    for (int i = 0; i < topology->node_count(); ++i) {
      edges_ += static_cast<size_t>(topology->contract(i).inputs().size());
    }
    options.counters = std::make_shared<FlowCounters>(topology->node_count(), edges_);
    MakeRun();
  }
  void LoadAndStartCounted(const std::string& text) {
    LoadCounted(text);
    ASSERT_EQ(run->Start(), OkStatus());
  }
  // "started/ended/failed" by node.
  std::vector<std::string> Counts() const {
    std::vector<std::string> counts;
    for (int i = 0; i < topology->node_count(); ++i) {
      const FlowCounters::NodeCounts node = options.counters->Read(static_cast<size_t>(i));
      counts.push_back(std::to_string(node.started) + "/" + std::to_string(node.ended) + "/" +
                       std::to_string(node.failed));
    }
    return counts;
  }
  std::vector<uint64_t> Passed() const {
    std::vector<uint64_t> passed;
    for (size_t i = 0; i < edges_; ++i) passed.push_back(options.counters->ReadPassed(i));
    return passed;
  }

  static constexpr const char* kOneNode = R"(input_stream: "in" output_stream: "out"
      node { name: "node" calculator: "Node" input_stream: "in" output_stream: "out" })";

  size_t edges_ = 0;
};

TEST_F(RunCountersTest, CallsAndPacketsOfAChain) {
  LoadAndStartCounted(R"(input_stream: "in" input_stream: "other" output_stream: "out" output_stream: "a"
                         node { calculator: "Pass" input_stream: "in" output_stream: "a" }
                         node { calculator: "Sum" input_stream: "A:a" input_stream: "B:other"
                                output_stream: "out" })");
  Add(0, 7, 0);
  Add(1, 1, 0);
  Add(0, 8, 1);
  Add(1, 1, 2);
  // The second sum waits for time 1.
  EXPECT_EQ(Close(), OkStatus());
  EXPECT_THAT(Out(), ElementsAre("0=8", "1=8", "2=1"));
  EXPECT_THAT(Counts(), ElementsAre("2/2/0", "3/3/0"));
  EXPECT_THAT(Passed(), ElementsAre(2, 2, 2, 3, 2));
}

TEST_F(RunCountersTest, ALoopIsAnEdgeAsAny) {
  Deferral deferral;
  Context* context = nullptr;
  AddNode({.process = [&](Context& given) {
    context = &given;
    deferral = given.Defer();
    return OkStatus();
  }});
  LoadAndStartCounted(R"(input_stream: "in" output_stream: "out"
      node {
        calculator: "Node" input_stream: "IN:in" input_stream: "LOOPBACK:loop"
        output_stream: "OUT:out" output_stream: "LOOPBACK:loop"
        input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
        input_stream_handler { input_stream_handler: "SyncSetInputStreamHandler"
          options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } } }
      })");
  Add(0, 3, 10);
  run->CloseAllInputs();
  EXPECT_THAT(Counts(), ElementsAre("1/0/0"));
  for (int k = 0; k < 3; ++k) {
    context->Output(1, Int(k, 10 + k));
    context->Output(0, Packet::Of(true, Timestamp(11 + k)));
    deferral.Finish(OkStatus());
  }
  deferral.Finish(OkStatus());
  EXPECT_EQ(recorder->Wait(), OkStatus());
  // Once for its start, and once for each packet of the loop.
  EXPECT_THAT(Counts(), ElementsAre("4/4/0"));
  EXPECT_THAT(Passed(), ElementsAre(1, 3, 3));
}

TEST_F(RunCountersTest, WhatComesAfterANodeThatFailsDoesNotStart) {
  AddNode({.process = [](Context&) { return InternalError("bad luck"); }});
  LoadAndStartCounted(R"(input_stream: "in" output_stream: "out"
                         node { calculator: "Pass" input_stream: "in" output_stream: "a" }
                         node { calculator: "Node" input_stream: "a" output_stream: "b" }
                         node { calculator: "Pass" input_stream: "b" output_stream: "out" })");
  Add(0, 1, 0);
  EXPECT_FALSE(recorder->Wait().ok());
  EXPECT_THAT(Counts(), ElementsAre("1/1/0", "1/1/1", "0/0/0"));
  EXPECT_THAT(Passed(), ElementsAre(1, 1, 0, 0));
}

TEST_F(RunCountersTest, APacketOutOfOrderIsTheNodesFailure) {
  AddNode({.process = [](Context& context) {
    context.Output(0, Int(1, 5));
    context.Output(0, Int(2, 4));
    return OkStatus();
  }});
  LoadAndStartCounted(std::string(kOneNode) +
                      R"(node { calculator: "Pass" input_stream: "out" output_stream: "after" })");
  Add(0, 1, 0);
  EXPECT_FALSE(recorder->Wait().ok());
  EXPECT_EQ(Counts()[0], "1/1/1");
}

TEST_F(RunCountersTest, AnOpenThatFailsIsAnExecutionThatFailed) {
  AddNode({.open = [](Context&) { return InternalError("no"); }});
  LoadCounted(kOneNode);
  EXPECT_FALSE(run->Start().ok());
  EXPECT_THAT(Counts(), ElementsAre("1/1/1"));
}

TEST_F(RunCountersTest, ACloseThatFailsIsAnExecutionThatFailed) {
  AddNode({.close = [](Context&) { return InternalError("no"); }});
  LoadAndStartCounted(kOneNode);
  EXPECT_FALSE(Close().ok());
  EXPECT_THAT(Counts(), ElementsAre("1/1/1"));
}

TEST_F(RunCountersTest, ACancelledDeferralEndsOnceAndHasNotFailed) {
  Deferral deferral;
  AddNode({.process =
               [&](Context& context) {
                 deferral = context.Defer();
                 return OkStatus();
               },
           .cancel = [&] { deferral.Finish(InternalError("stopped")); }});
  LoadAndStartCounted(kOneNode);
  Add(0, 1, 0);
  EXPECT_THAT(Counts(), ElementsAre("1/0/0"));
  run->Cancel(CancelledError("why"));
  EXPECT_EQ(recorder->Wait(), CancelledError("why"));
  EXPECT_THAT(Counts(), ElementsAre("1/1/0"));
}

TEST_F(RunCountersTest, ALostDeferralHasFailed) {
  AddNode({.process = [](Context& context) {
    const Deferral lost = context.Defer();
    return OkStatus();
  }});
  LoadAndStartCounted(kOneNode);
  Add(0, 1, 0);
  EXPECT_FALSE(recorder->Wait().ok());
  EXPECT_THAT(Counts(), ElementsAre("1/1/1"));
}

TEST_F(RunCountersTest, RunsCountTogether) {
  LoadCounted(R"(input_stream: "in" output_stream: "out"
                 node { calculator: "Pass" input_stream: "in" output_stream: "out" })");
  for (int i = 0; i < 3; ++i) {
    MakeRun();
    ASSERT_EQ(run->Start(), OkStatus());
    Add(0, 7, 0);
    EXPECT_EQ(Close(), OkStatus());
  }
  EXPECT_THAT(Counts(), ElementsAre("3/3/0"));
  EXPECT_THAT(Passed(), ElementsAre(3, 3));
}

}  // namespace
}  // namespace braid::graph
