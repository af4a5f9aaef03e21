#include "mediapipe_graph/python_node_specs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/testing/scratch_folder.h"
#include "graph/topology.h"
#include "mediapipe_graph/graph_packets.h"
#include "mediapipe_graph/python_executor_calculator.h"

namespace braid {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Takes and outputs tensors.
class OtherCalculator final : public graph::Calculator {
 public:
  static Status FillContract(graph::Contract& contract) {
    for (int i = 0; i < contract.inputs().size(); ++i)
      contract.SetInput(i, graph::PortType::Of<PythonTensor>());
    for (int i = 0; i < contract.outputs().size(); ++i)
      contract.SetOutput(i, graph::PortType::Of<PythonTensor>());
    return OkStatus();
  }
  Status Process(graph::Context&) override { return OkStatus(); }
};

Result<std::shared_ptr<const graph::Topology>> Load(const std::string& text) {
  auto registry = std::make_shared<graph::CalculatorRegistry>();
  registry->Add<PythonExecutorCalculator>("PythonExecutorCalculator");
  registry->Add<OtherCalculator>("OtherCalculator");
  BRAID_ASSIGN_OR_RETURN(auto config, graph::ParseGraphConfig(text));
  return graph::Topology::Create(std::move(config), std::move(registry), {"py"});
}

std::string Node(const std::string& streams, const std::string& name, const std::string& handler) {
  std::string text = "node { calculator: \"PythonExecutorCalculator\" ";
  if (!name.empty()) text.append("name: \"").append(name).append("\" ");
  text.append("input_side_packet: \"PYTHON_NODE_RESOURCES:py\" ").append(streams);
  if (!handler.empty()) {
    text.append(
            " node_options { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions] { handler_path: "
            "\"")
        .append(handler)
        .append("\" } }");
  }
  return text.append(" }\n");
}

constexpr char kLoopback[] =
    "input_stream_info { tag_index: \"LOOPBACK:0\" back_edge: true } input_stream_handler { "
    "input_stream_handler: \"SyncSetInputStreamHandler\" options { "
    "[mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: \"LOOPBACK:0\" } } } }";

class PythonNodeSpecsTest : public ::testing::Test {
 protected:
  PythonNodeSpecsTest() {
    folder_.Write("a.py", "\n");
    folder_.Write("sub/b.py", "\n");
  }

  Result<std::vector<PythonNodeSpec>> List(const std::string& text) {
    BRAID_ASSIGN_OR_RETURN(auto topology, Load(text));
    return ListPythonNodes(*topology, folder_.path());
  }

  testing::ScratchFolder folder_;
};

TEST_F(PythonNodeSpecsTest, NamesFilesAndWhoReadsWhat) {
  const std::string second = folder_ / "sub/b.py";
  auto specs = List(
      "input_stream: \"OVMS_PY_TENSOR_A:in_a\" input_stream: \"OVMS_PY_TENSOR_B:in_b\" "
      "output_stream: \"OVMS_PY_TENSOR:out\" output_stream: \"OVMS_PY_TENSOR_2:both\"\n" +
      Node(std::string("input_stream: \"Z:in_b\" input_stream: \"LOOPBACK:loop\" input_stream: \"A:in_a\" "
                       "output_stream: \"Y:hidden\" output_stream: \"LOOPBACK:loop\" output_stream: "
                       "\"X:both\" output_stream: \"W:0:unread\" ")
               .append(kLoopback),
           "first", "./sub/../a.py") +
      "node { calculator: \"OtherCalculator\" input_stream: \"other\" output_stream: \"end\" }" +
      Node("input_stream: \"hidden\" input_stream: \"K:both\" output_stream: \"out\" output_stream: "
           "\"T:other\"",
           "second", second));
  ASSERT_TRUE(specs.ok()) << specs.status();
  ASSERT_EQ(specs->size(), 2u);
  const PythonNodeSpec& first = (*specs)[0];
  EXPECT_EQ(first.name, "first");
  EXPECT_EQ(first.handler_path, folder_ / "a.py");
  EXPECT_THAT(first.input_names, ElementsAre("in_b", "loop", "in_a"));
  EXPECT_THAT(first.output_names, ElementsAre("hidden", "loop", "both", "unread"));
  EXPECT_TRUE(first.loopback);
  EXPECT_THAT(first.exported, ElementsAre("both"));
  EXPECT_THAT(first.kept, ElementsAre("hidden", "both", "unread"));
  const PythonNodeSpec& two = (*specs)[1];
  EXPECT_EQ(two.handler_path, second);
  EXPECT_FALSE(two.loopback);
  EXPECT_THAT(two.exported, ElementsAre("out", "other"));
  EXPECT_THAT(two.kept, IsEmpty());
  EXPECT_THAT(NodeNumbers(*specs), ElementsAre(::testing::Pair("first", 0u), ::testing::Pair("second", 1u)));
}

TEST_F(PythonNodeSpecsTest, AGraphWithoutPythonHasNone) {
  auto specs = List(
      "input_stream: \"in\" output_stream: \"out\" node { calculator: \"OtherCalculator\" input_stream: "
      "\"in\" output_stream: \"out\" }");
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_THAT(*specs, IsEmpty());
}

TEST_F(PythonNodeSpecsTest, OptionsMayBeAnExtension) {
  auto specs = List(
      "input_stream: \"in\" output_stream: \"out\" node { name: \"n\" calculator: "
      "\"PythonExecutorCalculator\" input_side_packet: \"PYTHON_NODE_RESOURCES:py\" input_stream: \"in\" "
      "output_stream: \"out\" options { [mediapipe.PythonExecutorCalculatorOptions.ext] { handler_path: "
      "\"a.py\" } } }");
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->at(0).handler_path, folder_ / "a.py");
}

TEST_F(PythonNodeSpecsTest, AllFaultsAreTold) {
  auto specs = List("input_stream: \"in\" output_stream: \"e\"\n" +
                    Node("input_stream: \"in\" output_stream: \"a\"", "", "a.py") +
                    Node("input_stream: \"a\" output_stream: \"b\"", "twice", "a.py") +
                    Node("input_stream: \"b\" output_stream: \"c\"", "twice", "nowhere.py") +
                    Node("input_stream: \"c\" output_stream: \"d\"", "bare", "") +
                    Node("input_stream: \"d\" output_stream: \"e\"", "folder", "sub"));
  ASSERT_FALSE(specs.ok());
  EXPECT_EQ(specs.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      specs.status().message(),
      AllOf(HasSubstr("The Python Node is missing name definition - node 1 of the graph, with output_stream "
                      "'a', needs a name\n"),
            HasSubstr("The Python Node name is already present in nodes list - duplicate node name 'twice'"),
            HasSubstr("The Python Node file path does not exist - node 'twice"),
            HasSubstr("handler_path 'nowhere.py' is not a file: '" + (folder_ / "nowhere.py") + "'"),
            HasSubstr("The Python Node is missing options definition - node 'bare' needs node_options"),
            HasSubstr("handler_path 'sub' is not a file")));
}

// --- The contract of a node, as checked when a graph is loaded.

std::string FaultOf(const std::string& node) {
  auto loaded = Load(
      "input_stream: \"in\" output_stream: \"out\" node { name: \"n\" calculator: "
      "\"PythonExecutorCalculator\" " +
      node + " }");
  return loaded.ok() ? "" : loaded.status().message();
}

constexpr char kSide[] = "input_side_packet: \"PYTHON_NODE_RESOURCES:py\" ";
constexpr char kStreams[] = "input_stream: \"A:in\" output_stream: \"B:out\" ";
constexpr char kLoopStreams[] =
    "input_stream: \"A:in\" input_stream: \"LOOPBACK:l\" output_stream: \"B:out\" output_stream: "
    "\"LOOPBACK:l\" ";
constexpr char kBackEdge[] = "input_stream_info { tag_index: \"LOOPBACK:0\" back_edge: true } ";

TEST(PythonExecutorContract, WhatIsInOrder) {
  EXPECT_EQ(FaultOf(std::string(kSide) + kStreams), "");
  EXPECT_EQ(FaultOf(std::string(kSide) + kLoopStreams + kLoopback), "");
  EXPECT_EQ(FaultOf(std::string(kSide) + kLoopStreams + kBackEdge +
                    "input_stream_handler { input_stream_handler: \"ImmediateInputStreamHandler\" }"),
            "");
  EXPECT_EQ(
      FaultOf(std::string(kSide) + kLoopStreams + kBackEdge +
              "input_stream_handler { input_stream_handler: \"SyncSetInputStreamHandler\" options { "
              "[mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: \"A:0\" } } } }"),
      "");
}

TEST(PythonExecutorContract, TheSidePacketMustBeThere) {
  EXPECT_THAT(FaultOf(kStreams), HasSubstr("it lacks input_side_packet: \"PYTHON_NODE_RESOURCES:py\""));
}

TEST(PythonExecutorContract, LoopbackMustBeOnBothSides) {
  EXPECT_THAT(FaultOf(std::string(kSide) + kStreams + "output_stream: \"LOOPBACK:l\""),
              HasSubstr("If LOOPBACK is used, it must be defined on both input and output of the node"));
}

TEST(PythonExecutorContract, LoopbackMustBeABackEdge) {
  const std::string handler =
      "input_stream_handler { input_stream_handler: \"ImmediateInputStreamHandler\" } ";
  EXPECT_NE(FaultOf(std::string(kSide) + kLoopStreams + handler), "");
  EXPECT_NE(FaultOf(std::string(kSide) + kLoopStreams + handler +
                    "input_stream_info { tag_index: \"LOOPBACK:0\" back_edge: false }"),
            "");
  EXPECT_NE(FaultOf(std::string(kSide) + kLoopStreams + handler +
                    "input_stream_info { tag_index: \"LOOPBACK:1\" back_edge: true }"),
            "");
}

TEST(PythonExecutorContract, LoopbackMustNotWaitForTheOtherInputs) {
  const std::string start = std::string(kSide) + kLoopStreams + kBackEdge;
  const auto block = AllOf(HasSubstr("SyncSetInputStreamHandlerOptions.ext"),
                           HasSubstr("sync_set { tag_index: \"LOOPBACK:0\" }"));
  EXPECT_THAT(FaultOf(start), block);
  EXPECT_THAT(FaultOf(start + "input_stream_handler { input_stream_handler: \"DefaultInputStreamHandler\" }"),
              block);
  EXPECT_THAT(FaultOf(start + "input_stream_handler { input_stream_handler: \"BarrierInputStreamHandler\" }"),
              block);
  EXPECT_THAT(
      FaultOf(start + "input_stream_handler { input_stream_handler: \"SyncSetInputStreamHandler\" options { "
                      "[mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "
                      "\"LOOPBACK:0\" tag_index: \"A:0\" } } } }"),
      block);
}

TEST(PythonExecutorContract, LoopbackIsABoolAndTheRestAreTensors) {
  auto loaded = Load(std::string("input_stream: \"in\" output_stream: \"out\" node { name: \"n\" calculator: "
                                 "\"PythonExecutorCalculator\" ") +
                     kSide + kLoopStreams + kLoopback + " }");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE((*loaded)->input_type(0) == graph::ValueType::Of<PythonTensor>());
  EXPECT_TRUE((*loaded)->output_type(0) == graph::ValueType::Of<PythonTensor>());
  const graph::Contract& contract = (*loaded)->contract(0);
  EXPECT_TRUE(contract.input_types().at(1)->value_type() == graph::ValueType::Of<bool>());
  EXPECT_TRUE(contract.output_types().at(1)->value_type() == graph::ValueType::Of<bool>());
  EXPECT_TRUE(contract.quick());
  EXPECT_FALSE(contract.timestamp_offset().has_value());
}

}  // namespace
}  // namespace braid
