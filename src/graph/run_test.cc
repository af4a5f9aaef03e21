#include "graph/run.h"

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
using testing::Register;

class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    Register(*registry, "Pass", testing::Pass());
    Register(*registry, "Sum",
             {.contract =
                  [](Contract& contract) {
                    for (int i = 0; i < contract.inputs().size(); ++i) {
                      contract.SetInput(i, PortType::Of<int>());
                    }
                    contract.SetOutput(0, PortType::Of<int>());
                    contract.SetTimestampOffset(0);
                    contract.SetQuick();
                    return OkStatus();
                  },
              .process =
                  [](Context& context) {
                    int sum = 0;
                    for (int i = 0; i < context.contract().inputs().size(); ++i) {
                      if (!context.Input(i).empty()) sum += context.Input(i).Get<int>();
                    }
                    context.Output(0, Packet::Of(sum, context.input_timestamp()));
                    return OkStatus();
                  }});
  }

  void Load(const std::string& text, const std::vector<std::string>& provided = {}) {
    auto config = ParseGraphConfig(text);
    ASSERT_TRUE(config.ok()) << config.status();
    auto loaded = Topology::Create(*std::move(config), registry, provided);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    topology = *std::move(loaded);
    Make();
  }
  void Make() {
    recorder = std::make_shared<Recorder>();
    run = graph::Run::Create(topology, options, recorder);
  }
  void Add(int input, int value, int64_t at) { ASSERT_TRUE(run->AddPacket(input, Int(value, at)).ok()); }

  std::shared_ptr<CalculatorRegistry> registry = std::make_shared<CalculatorRegistry>();
  graph::Run::Options options;
  std::shared_ptr<const Topology> topology;
  std::shared_ptr<Recorder> recorder;
  std::shared_ptr<graph::Run> run;
};

TEST_F(RunTest, PacketsPassThroughAChain) {
  Load(R"(input_stream: "in" output_stream: "out"
          node { calculator: "Pass" input_stream: "in" output_stream: "a" }
          node { calculator: "Pass" input_stream: "a" output_stream: "out" })");
  ASSERT_TRUE(run->Start().ok());
  Add(0, 7, 0);
  EXPECT_THAT(recorder->Texts(), ElementsAre("0=7"));
  Add(0, 8, 5);
  EXPECT_FALSE(recorder->ended());
  run->CloseAllInputs();
  EXPECT_EQ(recorder->Wait(), OkStatus());
  EXPECT_THAT(recorder->Texts(), ElementsAre("0=7", "5=8"));
  EXPECT_EQ(run->AddPacket(0, Int(1, 9)).code(), StatusCode::kFailedPrecondition);
}

TEST_F(RunTest, InputsThatBelongTogetherAreProcessedTogether) {
  Load(R"(input_stream: "a" input_stream: "b" output_stream: "out"
          node { calculator: "Sum" input_stream: "a" input_stream: "b" output_stream: "out" })");
  ASSERT_TRUE(run->Start().ok());
  Add(0, 1, 1);
  EXPECT_THAT(recorder->Texts(), IsEmpty());
  Add(1, 20, 2);
  EXPECT_THAT(recorder->Texts(), ElementsAre("1=1"));
  Add(0, 3, 2);
  EXPECT_THAT(recorder->Texts(), ElementsAre("1=1", "2=23"));
  Add(0, 4, 3);
  run->CloseInput(1);
  EXPECT_THAT(recorder->Texts(), ElementsAre("1=1", "2=23", "3=4"));
  run->CloseInput(0);
  EXPECT_EQ(recorder->Wait(), OkStatus());
}

// A generator as a Python node is: each call is deferred, and a packet on LOOPBACK asks for the next one.
TEST_F(RunTest, ALoopRunsToItsEndAfterTheInputsAreClosed) {
  Deferral deferral;
  Context* context = nullptr;
  Register(*registry, "Generate", {.process = [&](Context& given) {
    context = &given;
    deferral = given.Defer();
    return OkStatus();
  }});
  Load(R"(input_stream: "in" output_stream: "out"
          node {
            calculator: "Generate" input_stream: "IN:in" input_stream: "LOOPBACK:loop"
            output_stream: "OUT:out" output_stream: "LOOPBACK:loop"
            input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
            input_stream_handler { input_stream_handler: "SyncSetInputStreamHandler"
              options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } } }
          })");
  ASSERT_TRUE(run->Start().ok());
  Add(0, 3, 10);
  run->CloseAllInputs();
  for (int k = 0; k < 3; ++k) {
    ASSERT_TRUE(deferral);
    EXPECT_EQ(context->Input(0).empty(), k > 0);
    EXPECT_EQ(context->Input(1).empty(), k == 0);
    context->Output(1, Int(k, 10 + k));
    context->Output(0, Packet::Of(true, Timestamp(11 + k)));
    std::move(deferral).Finish(OkStatus());
    EXPECT_EQ(recorder->Texts().size(), static_cast<size_t>(k + 1));
    EXPECT_FALSE(recorder->ended());
  }
  ASSERT_TRUE(deferral);
  deferral.Finish(OkStatus());
  EXPECT_EQ(recorder->Wait(), OkStatus());
  EXPECT_THAT(recorder->Texts(), ElementsAre("10=0", "11=1", "12=2"));
}

TEST_F(RunTest, AFailureNamesTheNode) {
  Register(*registry, "Bad", {.process = [](Context&) { return InternalError("it broke"); }});
  Load(R"(input_stream: "in" output_stream: "out"
          node { name: "first" calculator: "Bad" input_stream: "in" output_stream: "out" })");
  ASSERT_TRUE(run->Start().ok());
  Add(0, 3, 10);
  EXPECT_EQ(recorder->Wait(),
            InternalError("CalculatorGraph::Run() failed: \nCalculator::Process() for node \"first\" failed: "
                          "it broke"));
  EXPECT_EQ(run->AddPacket(0, Int(1, 11)).code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace braid::graph
