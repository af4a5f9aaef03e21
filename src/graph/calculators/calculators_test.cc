// The core calculators one by one. tests/graph compares their combinations with MediaPipe itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/testing/calculators.h"

namespace braid::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Int;
using ::testing::IsEmpty;
using testing::Recorder;

class CalculatorsTest : public ::testing::Test {
 protected:
  CalculatorsTest() { AddCoreCalculators(*registry_); }

  Status Load(const std::string& text) {
    auto config = ParseGraphConfig(text);
    if (!config.ok()) return config.status();
    auto topology = Topology::Create(*std::move(config), registry_);
    if (!topology.ok()) return topology.status();
    topology_ = *topology;
    return OkStatus();
  }
  void Start(const std::string& text) {
    ASSERT_EQ(Load(text), OkStatus());
    recorder_ = std::make_shared<Recorder>();
    run_ = graph::Run::Create(topology_, std::move(options_), recorder_);
    ASSERT_EQ(run_->Start(), OkStatus());
  }
  void Add(int input, int value, int64_t at) {
    ASSERT_EQ(run_->AddPacket(input, Int(value, at)), OkStatus());
  }
  void Allow(int input, bool value, int64_t at) {
    ASSERT_EQ(run_->AddPacket(input, Packet::Of(value, Timestamp(at))), OkStatus());
  }
  Status End() {
    run_->CloseAllInputs();
    return recorder_->Wait();
  }

  std::shared_ptr<CalculatorRegistry> registry_ = std::make_shared<CalculatorRegistry>();
  graph::Run::Options options_;
  std::shared_ptr<const Topology> topology_;
  std::shared_ptr<Recorder> recorder_;
  std::shared_ptr<graph::Run> run_;
};

TEST_F(CalculatorsTest, PassThroughHandsOnByTagAndIndex) {
  Start(R"(input_stream: "a" input_stream: "b" output_stream: "x" output_stream: "y"
           node { calculator: "PassThroughCalculator"
                  input_stream: "T:1:a" input_stream: "T:0:b" output_stream: "T:0:y" output_stream: "T:1:x" })");
  Add(0, 1, 10);
  Add(1, 2, 10);
  EXPECT_THAT(recorder_->Texts(0), ElementsAre("10=1"));
  EXPECT_THAT(recorder_->Texts(1), ElementsAre("10=2"));
  EXPECT_EQ(End(), OkStatus());
}

TEST_F(CalculatorsTest, PassThroughRefusesPortsThatDoNotFit) {
  EXPECT_THAT(Load(R"(input_stream: "a" output_stream: "x"
                      node { calculator: "PassThroughCalculator" input_stream: "A:a" output_stream: "B:x" })")
                  .message(),
              HasSubstr("the same tags and indices"));
}

TEST_F(CalculatorsTest, MergePrefersTheFirstInput) {
  Start(R"(input_stream: "a" input_stream: "b" output_stream: "x"
           node { calculator: "MergeCalculator" input_stream: "a" input_stream: "b" output_stream: "x" })");
  Add(0, 1, 1);
  Add(1, 2, 1);
  Add(1, 3, 2);
  Add(0, 4, 5);
  EXPECT_EQ(End(), OkStatus());
  EXPECT_THAT(recorder_->Texts(), ElementsAre("1=1", "2=3", "5=4"));
}

TEST_F(CalculatorsTest, GateDropsWhatIsNotAllowedAndTellsOfChanges) {
  Start(R"(input_stream: "a" input_stream: "c" output_stream: "x" output_stream: "s"
           node { calculator: "GateCalculator" input_stream: "a" input_stream: "ALLOW:c"
                  output_stream: "x" output_stream: "STATE_CHANGE:s" })");
  for (int at = 1; at <= 4; ++at) Add(0, at, at);
  Allow(1, true, 2);
  Allow(1, true, 3);
  Allow(1, false, 4);
  EXPECT_EQ(End(), OkStatus());
  EXPECT_THAT(recorder_->Texts(0), ElementsAre("2=2", "3=3"));
  EXPECT_THAT(recorder_->Texts(1), ElementsAre("2=bool", "4=bool"));
}

TEST_F(CalculatorsTest, GateIsOpenedByASidePacketOrAnOption) {
  const std::string graph = R"(input_stream: "a" output_stream: "x" input_side_packet: "p"
      node { calculator: "GateCalculator" input_stream: "a" output_stream: "x" input_side_packet: "DISALLOW:p"
             options { [mediapipe.GateCalculatorOptions.ext] { allow: true } } })";
  options_.side_packets["p"] = Packet::Of(true);
  Start(graph);
  Add(0, 1, 1);
  EXPECT_EQ(End(), OkStatus());
  EXPECT_THAT(recorder_->Texts(), IsEmpty());

  options_ = {};
  Start(graph);
  Add(0, 1, 1);
  EXPECT_EQ(End(), OkStatus());
  EXPECT_THAT(recorder_->Texts(), ElementsAre("1=1"));
}

TEST_F(CalculatorsTest, PresenceIsFalseWhereAStreamIsSettledWithoutAPacket) {
  Start(R"(input_stream: "a" input_stream: "c" output_stream: "x" output_stream: "q"
           node { calculator: "GateCalculator" input_stream: "a" input_stream: "ALLOW:c" output_stream: "x" }
           node { calculator: "PacketPresenceCalculator" input_stream: "PACKET:x" output_stream: "PRESENCE:p" }
           node { calculator: "GateCalculator" input_stream: "p" input_stream: "DISALLOW:p" output_stream: "q" })");
  Add(0, 1, 1);
  Allow(1, true, 1);
  Add(0, 2, 2);
  Allow(1, false, 2);
  EXPECT_THAT(recorder_->Texts(0), ElementsAre("1=1"));
  EXPECT_THAT(recorder_->Texts(1), ElementsAre("2=bool"));
  EXPECT_EQ(End(), OkStatus());
}

TEST_F(CalculatorsTest, ConstantsBecomePacketsOfStreams) {
  Start(R"(input_stream: "a" output_stream: "x" output_stream: "y" output_stream: "z"
           node { calculator: "ConstantSidePacketCalculator" output_side_packet: "PACKET:0:p"
                  output_side_packet: "PACKET:1:t"
                  node_options { [type.googleapis.com/mediapipe.ConstantSidePacketCalculatorOptions] {
                    packet { int_value: 7 } packet { int64_value: 44 } } } }
           node { calculator: "SidePacketToStreamCalculator" input_stream: "TICK:a" input_side_packet: "p"
                  output_stream: "AT_TICK:x" }
           node { calculator: "SidePacketToStreamCalculator" input_stream: "TICK:a" input_side_packet: "p"
                  output_stream: "AT_FIRST_TICK:y" }
           node { calculator: "SidePacketToStreamCalculator" input_side_packet: "p"
                  input_side_packet: "TIMESTAMP:t" output_stream: "AT_TIMESTAMP:z" })");
  Add(0, 1, 3);
  Add(0, 1, 5);
  EXPECT_EQ(End(), OkStatus());
  EXPECT_THAT(recorder_->Texts(0), ElementsAre("3=7", "5=7"));
  EXPECT_THAT(recorder_->Texts(1), ElementsAre("3=7"));
  EXPECT_THAT(recorder_->Texts(2), ElementsAre("44=7"));
}

TEST_F(CalculatorsTest, ConstantsAreAsManyAsTheirPorts) {
  EXPECT_THAT(
      Load(
          R"(input_stream: "a" node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "x" }
                      node { calculator: "ConstantSidePacketCalculator" output_side_packet: "PACKET:p" })")
          .message(),
      HasSubstr("1 output_side_packet PACKET, and 0 packet in its options"));
}

TEST_F(CalculatorsTest, PreviousLoopbackHandsOnWhatTheLoopHadBefore) {
  Start(R"(input_stream: "a" output_stream: "x" output_stream: "y"
           node { calculator: "PreviousLoopbackCalculator" input_stream: "MAIN:a" input_stream: "LOOP:x"
                  input_stream_info { tag_index: "LOOP" back_edge: true } output_stream: "PREV_LOOP:p" }
           node { calculator: "PassThroughCalculator" input_stream: "a" input_stream: "p"
                  output_stream: "x" output_stream: "y" })");
  Add(0, 1, 1);
  Add(0, 2, 5);
  Add(0, 3, 9);
  EXPECT_THAT(recorder_->Texts(0), ElementsAre("1=1", "5=2", "9=3"));
  EXPECT_THAT(recorder_->Texts(1), ElementsAre("5=1", "9=2"));
  EXPECT_EQ(End(), OkStatus());
}

TEST_F(CalculatorsTest, FlowLimiterDropsWhatIsTooMuch) {
  Start(R"(input_stream: "a" input_stream: "f" output_stream: "x" output_stream: "al"
           node { calculator: "FlowLimiterCalculator" input_stream: "a" input_stream: "FINISHED:f"
                  output_stream: "x" output_stream: "ALLOW:al"
                  options { [mediapipe.FlowLimiterCalculatorOptions.ext] { max_in_queue: 1 } } })");
  for (int at = 1; at <= 4; ++at) Add(0, at, at);
  EXPECT_THAT(recorder_->Texts(0), ElementsAre("1=1"));
  EXPECT_THAT(recorder_->Texts(1), ElementsAre("1=bool", "2=bool", "3=bool"));
  Add(1, 0, 1);
  EXPECT_THAT(recorder_->Texts(0), ElementsAre("1=1", "4=4"));
  EXPECT_EQ(End(), OkStatus());
}

TEST_F(CalculatorsTest, FlowLimiterClosesAllowWithAnInputThatNeverHadAPacket) {
  Start(R"(input_stream: "a" input_stream: "b" output_stream: "x"
           node { calculator: "FlowLimiterCalculator" input_stream: "a" input_stream: "FINISHED:al"
                  output_stream: "limited" output_stream: "ALLOW:al"
                  input_stream_info { tag_index: "FINISHED" back_edge: true } }
           node { calculator: "PassThroughCalculator" input_stream: "b" input_stream: "al"
                  output_stream: "x" output_stream: "y" })");
  run_->CloseInput(0);
  Add(1, 5, 2);
  EXPECT_THAT(recorder_->Texts(0), ElementsAre("2=5"));
  EXPECT_EQ(End(), OkStatus());
}

// Beside a packet, a bound of FINISHED counts only if this packet's time is the last that it settles.
TEST_F(CalculatorsTest, FlowLimiterAndAFinishedThatIsAhead) {
  constexpr char kLimiter[] = R"(input_stream: "a" input_stream: "f" output_stream: "x"
           node { calculator: "FlowLimiterCalculator" input_stream: "a" input_stream: "FINISHED:f" output_stream: "x"
                  options { [mediapipe.FlowLimiterCalculatorOptions.ext] { max_in_queue: 1 } } })";
  Start(kLimiter);
  Add(1, 0, 3);
  Add(0, 2, 2);
  Add(0, 3, 3);
  EXPECT_THAT(recorder_->Texts(0), ElementsAre("2=2", "3=3"));
  EXPECT_EQ(End(), OkStatus());
  for (const int64_t finished : {2, 4}) {
    Start(kLimiter);
    Add(1, 0, finished);
    Add(0, 2, 2);
    Add(0, 3, 3);
    EXPECT_THAT(recorder_->Texts(0), ElementsAre("2=2")) << finished;
    EXPECT_EQ(End(), OkStatus());
    EXPECT_THAT(recorder_->Texts(0), ElementsAre("2=2", "3=3")) << finished;
  }
}

// A packet before the first packet of another input settles that input's PreStream.
TEST_F(CalculatorsTest, FlowLimiterHandsOnWhatComesAtPreStream) {
  Start(R"(input_stream: "a" input_stream: "b" input_stream: "f" output_stream: "y"
           node { calculator: "FlowLimiterCalculator" input_stream: "a" input_stream: "b" input_stream: "FINISHED:f"
                  output_stream: "x" output_stream: "y" })");
  ASSERT_EQ(run_->AddPacket(1, Packet::Of(7, Timestamp::PreStream())), OkStatus());
  EXPECT_EQ(recorder_->Texts(0).size(), 1u);
  Add(0, 1, 1);
  EXPECT_EQ(End(), OkStatus());
}

TEST_F(CalculatorsTest, WhatWaitsBehindALoopThatNeverEndsIsDropped) {
  Start(R"(input_stream: "a" output_stream: "x"
           node { calculator: "FlowLimiterCalculator" input_stream: "a" input_stream: "FINISHED:dead" output_stream: "dead"
                  input_stream_info { tag_index: "FINISHED" back_edge: true }
                  options { [mediapipe.FlowLimiterCalculatorOptions.ext] { max_in_flight: 0 max_in_queue: 5 } } }
           node { calculator: "PassThroughCalculator" input_stream: "a" input_stream: "dead"
                  output_stream: "x" output_stream: "y" })");
  Add(0, 1, 1);
  EXPECT_EQ(End(), OkStatus());
  EXPECT_THAT(recorder_->Texts(0), IsEmpty());
}

TEST_F(CalculatorsTest, ClonerRepeatsTheLatestAtEachTick) {
  Start(R"(input_stream: "a" input_stream: "b" input_stream: "t" output_stream: "x" output_stream: "y"
           node { calculator: "PacketClonerCalculator" input_stream: "a" input_stream: "b" input_stream: "TICK:t"
                  output_stream: "x" output_stream: "y"
                  options { [mediapipe.PacketClonerCalculatorOptions.ext] {
                    output_only_when_all_inputs_received: true } } })");
  Add(0, 1, 1);
  Add(2, 0, 2);  // b has no packet yet
  Add(1, 5, 3);
  Add(2, 0, 4);
  Add(2, 0, 5);
  EXPECT_EQ(End(), OkStatus());
  EXPECT_THAT(recorder_->Texts(0), ElementsAre("4=1", "5=1"));
  EXPECT_THAT(recorder_->Texts(1), ElementsAre("4=5", "5=5"));
}

}  // namespace
}  // namespace braid::graph
