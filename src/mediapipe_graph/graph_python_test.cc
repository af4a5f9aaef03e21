// Served graphs with Python nodes: the sessions and parameters that the nodes get, and their responses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mediapipe_graph/testing/graph_fixture.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The history of the nodes; outlives them.
struct NodesLog {
  std::vector<std::string> events;
  Readiness readiness;
  Status fault;
  int allocations = 0;
};

// Returns its inputs, under the name of the output.
class EchoNodes final : public PythonNodes {
 public:
  EchoNodes(NodesLog& log, std::vector<PythonNodeSpec> nodes) : log_(log), nodes_(std::move(nodes)) {}

  uint64_t Execute(size_t node, uint64_t session, std::vector<NodeTensor> inputs,
                   std::shared_ptr<NodeCallListener> listener) override {
    log_.events.push_back("execute " + std::to_string(session));
    NodeStep step;
    if (log_.fault.ok()) {
      step.outputs = std::move(inputs);
      step.outputs[0].tensor.name = nodes_[node].output_names[0];
    } else {
      step.kind = NodeStep::Kind::kError;
      step.status = log_.fault;
    }
    listener->OnStep(++last_, std::move(step));
    return last_;
  }
  bool Resume(uint64_t) override { return false; }
  void Close(uint64_t) override {}
  uint64_t BeginSession(const Parameters& parameters, std::shared_ptr<const CallChain>) override {
    log_.events.push_back("begin " + std::to_string(parameters.size()));
    return 40 + ++sessions_;
  }
  void EndSession(uint64_t session) override { log_.events.push_back("end " + std::to_string(session)); }
  Readiness readiness() const override { return log_.readiness; }
  BufferAllocator& allocator() override {
    ++log_.allocations;
    return allocator_;
  }
  void Stop(int64_t) override { log_.events.push_back("stop"); }

 private:
  NodesLog& log_;
  const std::vector<PythonNodeSpec> nodes_;
  HeapAllocator allocator_;
  uint64_t last_ = 0;
  uint64_t sessions_ = 0;
};

class GraphPythonTest : public GraphFixture {
 protected:
  GraphPythonTest() {
    std::ofstream(folder_->path() + "/n.py") << "class OvmsPythonModel: pass\n";
    start_python_ = [this](const std::string&, std::vector<PythonNodeSpec> nodes) {
      return Result<std::unique_ptr<PythonNodes>>(std::make_unique<EchoNodes>(log_, std::move(nodes)));
    };
  }
  static constexpr const char* kPython = R"(
    input_stream: "OVMS_PY_TENSOR:in" output_stream: "OVMS_PY_TENSOR:out" input_side_packet: "key"
    node { name: "n" calculator: "PythonExecutorCalculator" input_side_packet: "PYTHON_NODE_RESOURCES:py"
      input_stream: "IN:in" output_stream: "OUT:out"
      node_options { [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions] {
        handler_path: "n.py" } } })";

  NodesLog log_;
};

TEST_F(GraphPythonTest, EachRunIsASession) {
  const auto graph = Serve(kPython);
  const InferenceResponse response = Ask(graph, {Int32Tensor("in", {1, 2})}, {{"key", std::string("value")}});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(response.outputs[0].name, "out");
  EXPECT_THAT(Int32Values(response.outputs[0]), ElementsAre(1, 2));
  EXPECT_THAT(log_.events, ElementsAre("begin 1", "execute 41", "end 41"));
  log_.events.clear();
  KeptStream kept;
  const auto stream = Open(graph, kept, {{"key", std::string("value")}});
  EXPECT_TRUE(Push(*stream, {Int32Tensor("in", {1})}, "a").ok());
  EXPECT_TRUE(Push(*stream, {Int32Tensor("in", {2})}, "b").ok());
  stream->CloseInputs();
  EXPECT_TRUE(kept.WaitEnd().ok());
  EXPECT_THAT(kept.Texts(), ElementsAre("out@0=1 a", "out@1=2 b"));
  EXPECT_THAT(log_.events, ElementsAre("begin 1", "execute 42", "execute 42", "end 42"));
}

TEST_F(GraphPythonTest, ASessionEndsWithARunThatCannotBegin) {
  const auto graph = Serve(std::string(kPython) + R"(
    input_side_packet: "needed" node { calculator: "TestCalculator" input_side_packet: "X:needed" })");
  EXPECT_EQ(AskStatus(graph, {Int32Tensor("in", {1})}).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(log_.events, ElementsAre("begin 0", "end 41"));
}

TEST_F(GraphPythonTest, FaultsOfTheCodeAreTheNodes) {
  log_.fault = InternalError("ValueError: no");
  const Status status = AskStatus(Serve(kPython), {Int32Tensor("in", {1})});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "Mediapipe execution failed. MP status - INTERNAL: CalculatorGraph::Run() failed: "
            "\nCalculator::Process() for node \"n\" failed: Error occurred during graph execution - "
            "ValueError: no");
  EXPECT_EQ(log_.events.back(), "end 41");
}

TEST_F(GraphPythonTest, TheStructureNamesTheFileOfANode) {
  const auto graph = Serve(kPython);
  ASSERT_TRUE(Ask(graph, {Int32Tensor("in", {1})}).status.ok());
  log_.fault = InternalError("ValueError: no");
  EXPECT_FALSE(AskStatus(graph, {Int32Tensor("in", {1})}).ok());
  const StructureNode node = graph->structure()->nodes.at(1);
  EXPECT_EQ(node.kind, StructureNodeKind::kPython);
  EXPECT_EQ(node.name, "n");
  EXPECT_EQ(node.runs, "n.py");
  EXPECT_EQ(node.started, 2u);
  EXPECT_EQ(node.ended, 2u);
  EXPECT_EQ(node.failed, 1u);
}

TEST_F(GraphPythonTest, InputsAreReadToTheWorkersMemory) {
  const auto graph = Serve(kPython);
  EXPECT_EQ(&graph->input_allocator(), &graph->input_allocator());
  EXPECT_EQ(log_.allocations, 2);
}

TEST_F(GraphPythonTest, ReadinessIsTheNodes) {
  const auto graph = Serve(kPython);
  EXPECT_TRUE(graph->readiness().ready);
  log_.readiness = {false, "the worker has died"};
  EXPECT_EQ(graph->readiness().reason, "the worker has died");
}

TEST_F(GraphPythonTest, TheNodesStopBehindTheLastRun) {
  const auto graph = Serve(kPython);
  KeptStream kept;
  const auto stream = Open(graph, kept);
  graph->gate().Close();
  graph->Stop(SteadyNowNs());
  EXPECT_EQ(kept.WaitEnd().code(), StatusCode::kUnavailable);
  EXPECT_THAT(log_.events, ElementsAre("begin 0", "end 41", "stop"));
  served_.clear();
}

}  // namespace
}  // namespace braid
