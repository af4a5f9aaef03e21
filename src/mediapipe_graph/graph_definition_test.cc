#include "mediapipe_graph/graph_definition.h"

#include <gtest/gtest.h>

#include "mediapipe_graph/testing/graph_fixture.h"

namespace braid {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class GraphDefinitionTest : public GraphFixture {
 protected:
  Status Fault(const std::string& pbtxt) { return Make(pbtxt).status(); }
};

TEST_F(GraphDefinitionTest, DescribesTheBoundary) {
  const auto graph = Serve(R"(
    input_stream: "OVTENSOR:a" input_stream: "OVMS_PY_TENSOR_B:b" output_stream: "OVTENSOR:x"
    output_stream: "OVMS_PY_TENSOR:y"
    node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "x" }
    node { calculator: "PassThroughCalculator" input_stream: "b" output_stream: "y" })");
  const ServableInfo& info = graph->info();
  EXPECT_EQ(info.name, "g");
  EXPECT_EQ(info.version, 1);
  EXPECT_EQ(info.kind, ServableKind::kGraph);
  EXPECT_EQ(info.dialect, Dialect::kOvms);
  EXPECT_EQ(info.platform, "OpenVINO");
  ASSERT_EQ(info.inputs.size(), 2U);
  EXPECT_EQ(info.inputs[1].name, "b");
  EXPECT_EQ(info.inputs[1].type, DataType::kInvalid);
  EXPECT_TRUE(info.inputs[1].shape.empty());
  ASSERT_EQ(info.outputs.size(), 2U);
  EXPECT_EQ(info.outputs[0].name, "x");
  EXPECT_TRUE(graph->takes_streams());
  EXPECT_TRUE(graph->readiness().ready);
  EXPECT_EQ(graph->definition().inputs[1].kind, BoundaryKind::kPythonTensor);
  EXPECT_EQ(graph->definition().queue_size, 0U);
}

TEST_F(GraphDefinitionTest, AFileThatIsNotThere) {
  OvmsGraphConfig config;
  config.name = "g";
  config.graph_path = folder_->path() + "/missing.pbtxt";
  const Status status = GraphServable::Create(config, Deps()).status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(status.message(),
            "File not found or cannot open - " + config.graph_path + ": No such file or directory");
  config.graph_path = folder_->path();
  EXPECT_THAT(GraphServable::Create(config, Deps()).status().message(),
              StartsWith("File not found or cannot open - "));
}

TEST_F(GraphDefinitionTest, TextsThatAreNoGraph) {
  for (const char* text : {"", " \n", "# nothing\n", "input_stream", "nonsense { }"}) {
    const Status status = Fault(text);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_THAT(status.message(),
                StartsWith("Failed to read protobuf graph configuration file - graph 'g': "))
        << text;
  }
}

TEST_F(GraphDefinitionTest, StreamsAreThereAndOnce) {
  EXPECT_EQ(Fault("num_threads: 1").message(),
            "Internal server error - graph 'g': it has no input_stream\nit has no output_stream");
  EXPECT_EQ(Fault(R"(input_stream: "A:x" input_stream: "B:x" output_stream: "y")").message(),
            "Mediapipe unexpected input stream packets name - graph 'g': input_stream 'x' is listed more "
            "than once");
  EXPECT_EQ(
      Fault(R"(input_stream: "x" output_stream: "A:y" output_stream: "B:y" output_stream: "C:y")").message(),
      "Mediapipe unexpected output stream packets name - graph 'g': output_stream 'y' is listed more than "
      "once");
}

TEST_F(GraphDefinitionTest, KindsThatAreNotServed) {
  EXPECT_EQ(Fault(R"(input_stream: "TFLITE_TENSOR:x" output_stream: "TFLITE_TENSORS:y")").message(),
            "Functionality not implemented - graph 'g': input_stream 'x': streams tagged TFLITE_TENSOR are "
            "not supported\noutput_stream 'y': streams tagged TFLITE_TENSOR are not supported");
  EXPECT_THAT(Fault(R"(input_stream: "REQUEST:x" input_stream: "z" output_stream: "RESPONSE:y")").message(),
              StartsWith("Mediapipe unexpected input stream packets count - "));
  EXPECT_THAT(Fault(R"(input_stream: "REQUEST:x" output_stream: "RESPONSE:y" output_stream: "z")").message(),
              StartsWith("Mediapipe unexpected output stream packets count - "));
  EXPECT_THAT(
      Fault(R"(input_stream: "REQUEST:x" output_stream: "y")").message(),
      StartsWith("Mediapipe KFS pass through graph is missing RESPONSE: string in the output name - "));
  EXPECT_THAT(Fault(R"(input_stream: "x" output_stream: "RESPONSE:y")").message(),
              StartsWith("Mediapipe KFS pass through graph is missing REQUEST: string in the input name - "));
}

TEST_F(GraphDefinitionTest, FaultsOfTheGraphItself) {
  const Status status = Fault(R"(input_stream: "x" output_stream: "y"
    node { calculator: "NoSuchCalculator" input_stream: "x" output_stream: "y" })");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), StartsWith("Failed to initialize mediapipe graph - graph 'g': "));
  EXPECT_THAT(status.message(), HasSubstr("NoSuchCalculator"));
}

TEST_F(GraphDefinitionTest, TheBoundaryCarriesWhatItsNodesTake) {
  const Status status = Fault(R"(input_stream: "OVMS_PY_TENSOR:x" output_stream: "IMAGE:y"
    node { calculator: "TestCalculator" input_stream: "x" output_stream: "y" })");
  EXPECT_EQ(
      status.message(),
      "Failed to initialize mediapipe graph - graph 'g': input_stream 'x' with the tag 'OVMS_PY_TENSOR' "
      "carries braid::PythonTensor, and its nodes braid::OvTensor\noutput_stream 'y' with the tag 'IMAGE' "
      "carries braid::ImageFrame, and its nodes braid::OvTensor");
}

TEST_F(GraphDefinitionTest, QueuesAreReadAndCanBeTurnedOff) {
  const std::string text = std::string("# OVMS_GRAPH_QUEUE_MAX_SIZE: 3\n") + kPass;
  EXPECT_EQ(Serve(text)->definition().queue_size, 3U);
  EXPECT_THAT(Fault("# OVMS_GRAPH_QUEUE_MAX_SIZE: some\n" + text).message(),
              HasSubstr("OVMS_GRAPH_QUEUE_MAX_SIZE is 'some'"));
  no_queue_ = true;
  EXPECT_EQ(Serve("# OVMS_GRAPH_QUEUE_MAX_SIZE: some\n" + text, "h")->definition().queue_size, 0U);
}

constexpr const char* kPython = R"(
  input_stream: "OVMS_PY_TENSOR:x" output_stream: "OVMS_PY_TENSOR:y"
  node { name: "n" calculator: "PythonExecutorCalculator" input_side_packet: "PYTHON_NODE_RESOURCES:py"
    input_stream: "IN:x" output_stream: "OUT:y"
    node_options { [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions] { handler_path: "n.py" } } })";

TEST_F(GraphDefinitionTest, PythonNodesNeedSomebodyWhoRunsThem) {
  std::ofstream(folder_->path() + "/n.py") << "class OvmsPythonModel: pass\n";
  EXPECT_EQ(Fault(kPython).message(),
            "Functionality not implemented - graph 'g' has Python nodes, which this server does not support");
  start_python_ = [](const std::string& graph, std::vector<PythonNodeSpec> nodes) {
    EXPECT_EQ(graph, "g");
    EXPECT_EQ(nodes.size(), 1U);
    return Result<std::unique_ptr<PythonNodes>>(InternalError("initialize() has raised"));
  };
  EXPECT_EQ(Fault(kPython).message(), "initialize() has raised");
}

TEST_F(GraphDefinitionTest, GeneratorsAndQueuesDoNotGoTogether) {
  const Status status = Fault(R"(# OVMS_GRAPH_QUEUE_MAX_SIZE: 2
    input_stream: "OVMS_PY_TENSOR:x" output_stream: "OVMS_PY_TENSOR:y"
    node { name: "n" calculator: "PythonExecutorCalculator" input_side_packet: "PYTHON_NODE_RESOURCES:py"
      input_stream: "IN:x" input_stream: "LOOPBACK:loopback"
      input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
      input_stream_handler { input_stream_handler: "SyncSetInputStreamHandler"
        options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } } }
      output_stream: "OUT:y" output_stream: "LOOPBACK:loopback"
      node_options { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions] { handler_path: "n.py" } } })");
  EXPECT_EQ(status.message(),
            "Failed to initialize mediapipe graph - graph 'g': node 'n' has LOOPBACK, which "
            "OVMS_GRAPH_QUEUE_MAX_SIZE does not allow");
}

}  // namespace
}  // namespace braid
