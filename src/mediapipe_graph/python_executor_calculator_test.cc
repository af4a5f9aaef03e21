#include "mediapipe_graph/python_executor_calculator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "graph/run.h"
#include "mediapipe_graph/graph_packets.h"
#include "mediapipe_graph/python_node_resources.h"
#include "mediapipe_graph/testing/fake_python_nodes.h"

namespace braid {
namespace {

using graph::Packet;
using graph::Timestamp;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using Kind = NodeStep::Kind;

constexpr char kRegular[] = R"(
  input_stream: "OVMS_PY_TENSOR_B:b"
  input_stream: "OVMS_PY_TENSOR_A:a"
  output_stream: "OVMS_PY_TENSOR_1:x"
  output_stream: "OVMS_PY_TENSOR_2:y"
  node {
    name: "code"
    calculator: "PythonExecutorCalculator"
    input_side_packet: "PYTHON_NODE_RESOURCES:py"
    input_stream: "Z:b"
    input_stream: "Y:a"
    output_stream: "X:x"
    output_stream: "Y:y"
    input_stream_handler { input_stream_handler: "$HANDLER" }
  })";

constexpr char kGenerative[] = R"(
  input_stream: "OVMS_PY_TENSOR:a"
  output_stream: "OVMS_PY_TENSOR:x"
  node {
    name: "code"
    calculator: "PythonExecutorCalculator"
    input_side_packet: "PYTHON_NODE_RESOURCES:py"
    input_stream: "A:a"
    input_stream: "LOOPBACK:loop"
    input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
    output_stream: "X:x"
    output_stream: "LOOPBACK:loop"
    input_stream_handler {
      input_stream_handler: "SyncSetInputStreamHandler"
      options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } }
    }
  })";

NodeTensor TensorOf(const std::string& name, std::string_view text) {
  NodeTensor tensor;
  tensor.tensor.name = name;
  tensor.tensor.type = DataType::kUint8;
  tensor.tensor.shape = {static_cast<int64_t>(text.size())};
  tensor.tensor.data = CopyToHeap(std::as_bytes(std::span(text)));
  return tensor;
}

NodeStep Step(Kind kind, const std::vector<std::pair<std::string, std::string>>& outputs = {},
              Status status = OkStatus()) {
  NodeStep step{kind, std::move(status), {}};
  for (const auto& [name, text] : outputs) step.outputs.push_back(TensorOf(name, text));
  return step;
}

// Records the events of a run.
class Observer final : public graph::RunObserver {
 public:
  void OnPacket(int output, Packet packet) override {
    packets.emplace_back(
        packet.timestamp().value(),
        std::to_string(output) + ":" + std::string(packet.Get<PythonTensor>().value.tensor.data.text()));
  }
  void OnEnd(Status status) override { end = std::move(status); }

  std::vector<std::pair<int64_t, std::string>> packets;
  std::optional<Status> end;
};

class PythonExecutorTest : public testing::Test {
 protected:
  void Begin(std::string text, const std::string& handler = "DefaultInputStreamHandler") {
    if (const size_t at = text.find("$HANDLER"); at != std::string::npos) text.replace(at, 8, handler);
    auto registry = std::make_shared<graph::CalculatorRegistry>();
    registry->Add<PythonExecutorCalculator>("PythonExecutorCalculator");
    auto config = graph::ParseGraphConfig(text);
    ASSERT_TRUE(config.ok()) << config.status();
    auto topology = graph::Topology::Create(std::move(config).value(), registry, {"py"});
    ASSERT_TRUE(topology.ok()) << topology.status();
    graph::Run::Options options;
    options.executor = [](std::function<void()>) { FAIL() << "the node is quick"; };
    options.side_packets["py"] = Packet::Of(PythonNodeResources{nodes_, {{"other", 0}, {"code", 3}}});
    options.services["python_session"] = Packet::Of(uint64_t{17});
    run_ = graph::Run::Create(std::move(topology).value(), std::move(options), observer_);
    const Status started = run_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  void Add(int input, const std::string& name, std::string_view text, int64_t at) {
    const Status added =
        run_->AddPacket(input, Packet::Of(PythonTensor{TensorOf(name, text)}, Timestamp(at)));
    ASSERT_TRUE(added.ok()) << added;
  }
  uint64_t last() { return nodes_->executed().back(); }
  std::vector<std::string> InputsOf(uint64_t call) {
    std::vector<std::string> inputs;
    for (const NodeTensor& input : nodes_->call(call).inputs)
      inputs.push_back(input.tensor.name + "=" + std::string(input.tensor.data.text()));
    return inputs;
  }

  std::shared_ptr<FakePythonNodes> nodes_ = std::make_shared<FakePythonNodes>();
  std::shared_ptr<Observer> observer_ = std::make_shared<Observer>();
  std::shared_ptr<graph::Run> run_;
};

TEST_F(PythonExecutorTest, AListGoesOutAtTheTimeOfItsInputs) {
  Begin(kRegular);
  Add(0, "b", "2", 5);
  EXPECT_THAT(nodes_->executed(), IsEmpty());
  Add(1, "a", "1", 5);
  ASSERT_EQ(nodes_->executed().size(), 1u);
  EXPECT_EQ(nodes_->call(last()).node, 3u);
  EXPECT_EQ(nodes_->call(last()).session, 17u);
  EXPECT_THAT(InputsOf(last()), ElementsAre("a=1", "b=2")) << "by tag";
  nodes_->Step(last(), Step(Kind::kList, {{"y", "Y"}, {"x", "X"}}));
  EXPECT_THAT(observer_->packets, testing::UnorderedElementsAre(Pair(5, "0:X"), Pair(5, "1:Y")));

  // A step may have all, some or none of the outputs, and may come within Execute().
  observer_->packets.clear();
  nodes_->StepAtOnce({Step(Kind::kList, {{"x", "again"}})});
  Add(0, "b", "2", 6);
  Add(1, "a", "1", 6);
  nodes_->StepAtOnce({Step(Kind::kList)});
  Add(0, "b", "2", 7);
  Add(1, "a", "1", 7);
  EXPECT_THAT(observer_->packets, ElementsAre(Pair(6, "0:again")));
  run_->CloseAllInputs();
  ASSERT_TRUE(observer_->end.has_value());
  EXPECT_TRUE(observer_->end->ok()) << *observer_->end;
}

TEST_F(PythonExecutorTest, MissingInputsAreLeftOutAndNothingIsExecutedForNothing) {
  Begin(kRegular, "ImmediateInputStreamHandler");
  nodes_->StepAtOnce({Step(Kind::kList)});
  Add(0, "b", "2", 5);
  ASSERT_EQ(nodes_->executed().size(), 1u);
  Add(1, "a", "1", 6);
  ASSERT_EQ(nodes_->executed().size(), 2u);
  EXPECT_THAT(InputsOf(last()), ElementsAre("a=1"));
  nodes_->Step(last(), Step(Kind::kList));
  run_->CloseAllInputs();
  EXPECT_EQ(nodes_->executed().size(), 2u);
  ASSERT_TRUE(observer_->end.has_value());
  EXPECT_TRUE(observer_->end->ok()) << *observer_->end;
}

TEST_F(PythonExecutorTest, AFailureCarriesThePythonText) {
  Begin(kRegular);
  Add(0, "b", "2", 5);
  Add(1, "a", "1", 5);
  nodes_->Step(last(), Step(Kind::kError, {}, InternalError("ValueError: no")));
  ASSERT_TRUE(observer_->end.has_value());
  EXPECT_EQ(observer_->end->code(), StatusCode::kInternal);
  EXPECT_THAT(observer_->end->message(),
              AllOf(HasSubstr("Calculator::Process() for node \"code\" failed: "),
                    HasSubstr("Error occurred during graph execution - ValueError: no")));
}

TEST_F(PythonExecutorTest, ACallThatCannotBeBegunEndsTheRun) {
  Begin(kRegular);
  nodes_->Throw();
  Add(0, "b", "2", 5);
  Add(1, "a", "1", 5);
  ASSERT_TRUE(observer_->end.has_value());
  EXPECT_EQ(observer_->end->code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(observer_->end->message(),
              HasSubstr("Calculator::Process() for node \"code\" failed: out of memory"));
}

TEST_F(PythonExecutorTest, AnOutputOfAnotherNameFails) {
  Begin(kRegular);
  Add(0, "b", "2", 5);
  Add(1, "a", "1", 5);
  nodes_->Step(last(), Step(Kind::kList, {{"z", "?"}}));
  ASSERT_TRUE(observer_->end.has_value());
  EXPECT_THAT(observer_->end->message(),
              HasSubstr("Error occurred during graph execution - Unexpected Tensor found in the outputs. "
                        "Tensor name: z is not a valid node output"));
}

TEST_F(PythonExecutorTest, AYieldWithoutLoopbackFails) {
  Begin(kRegular);
  Add(0, "b", "2", 5);
  Add(1, "a", "1", 5);
  nodes_->Step(last(), Step(Kind::kItem));
  ASSERT_TRUE(observer_->end.has_value());
  EXPECT_THAT(observer_->end->message(), HasSubstr("LOOPBACK is not defined in the node"));
  EXPECT_THAT(nodes_->closed(), testing::Contains(last()));
}

TEST_F(PythonExecutorTest, AGeneratorsListsFollowOneByOne) {
  Begin(kGenerative);
  Add(0, "a", "go", 10);
  ASSERT_EQ(nodes_->executed().size(), 1u);
  const uint64_t call = last();
  nodes_->Step(call, Step(Kind::kItem, {{"x", "0"}}));
  EXPECT_THAT(observer_->packets, ElementsAre(Pair(10, "0:0")));
  EXPECT_TRUE(nodes_->call(call).awaited) << "the loopback packet has come round";
  nodes_->Step(call, Step(Kind::kItem));
  nodes_->Step(call, Step(Kind::kItem, {{"x", "2"}}));
  EXPECT_THAT(observer_->packets, ElementsAre(Pair(10, "0:0"), Pair(12, "0:2")));
  nodes_->Step(call, Step(Kind::kEnd));
  EXPECT_FALSE(observer_->end.has_value());

  // The next result may be a list as well.
  Add(0, "a", "more", 13);
  ASSERT_EQ(nodes_->executed().size(), 2u);
  nodes_->Step(last(), Step(Kind::kList, {{"x", "list"}}));
  EXPECT_THAT(observer_->packets.back(), Pair(13, "0:list"));
  Add(0, "a", "third", 20);
  ASSERT_EQ(nodes_->executed().size(), 3u);
  nodes_->Step(last(), Step(Kind::kItem, {{"x", "third"}}));
  // Items in flight are delivered when the client closes its side.
  run_->CloseAllInputs();
  EXPECT_FALSE(observer_->end.has_value());
  nodes_->Step(last(), Step(Kind::kItem, {{"x", "fourth"}}));
  EXPECT_THAT(observer_->packets.back(), Pair(21, "0:fourth"));
  EXPECT_FALSE(observer_->end.has_value());
  nodes_->Step(last(), Step(Kind::kEnd));
  ASSERT_TRUE(observer_->end.has_value());
  EXPECT_TRUE(observer_->end->ok()) << *observer_->end;
}

TEST_F(PythonExecutorTest, ItemsThatAreThereComeAtOnceAndAGeneratorMayYieldNothing) {
  Begin(kGenerative);
  std::deque<NodeStep> steps;
  for (int i = 0; i < 100; ++i) steps.push_back(Step(Kind::kItem, {{"x", std::to_string(i)}}));
  steps.push_back(Step(Kind::kEnd));
  nodes_->StepAtOnce(std::move(steps));
  Add(0, "a", "go", 0);
  ASSERT_EQ(observer_->packets.size(), 100u);
  EXPECT_THAT(observer_->packets.back(), Pair(99, "0:99"));
  nodes_->StepAtOnce({Step(Kind::kEnd)});
  Add(0, "a", "go", 100);
  EXPECT_EQ(observer_->packets.size(), 100u);
  run_->CloseAllInputs();
  ASSERT_TRUE(observer_->end.has_value());
  EXPECT_TRUE(observer_->end->ok()) << *observer_->end;
}

TEST_F(PythonExecutorTest, ItemsComeBeforeTheErrorThatFollowsThem) {
  Begin(kGenerative);
  Add(0, "a", "go", 10);
  nodes_->Step(last(), Step(Kind::kItem, {{"x", "0"}}));
  nodes_->Step(last(), Step(Kind::kError, {}, InternalError("KeyError: 'k'")));
  EXPECT_THAT(observer_->packets, ElementsAre(Pair(10, "0:0")));
  ASSERT_TRUE(observer_->end.has_value());
  EXPECT_THAT(observer_->end->message(), HasSubstr("Error occurred during graph execution - KeyError: 'k'"));
}

TEST_F(PythonExecutorTest, FurtherInputWhileAGeneratorHasMoreIsRefused) {
  Begin(kGenerative);
  Add(0, "a", "go", 10);
  nodes_->Step(last(), Step(Kind::kItem, {{"x", "0"}}));
  const uint64_t call = last();
  Add(0, "a", "too early", 11);
  nodes_->Step(call, Step(Kind::kItem, {{"x", "1"}}));
  EXPECT_FALSE(observer_->end.has_value()) << "it may have been the last item";
  nodes_->Step(call, Step(Kind::kItem, {{"x", "2"}}));
  ASSERT_TRUE(observer_->end.has_value());
  EXPECT_EQ(observer_->end->code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(observer_->end->message(),
              HasSubstr("Node is already processing data. Create new stream for another request."));
  EXPECT_THAT(nodes_->closed(), testing::Contains(call));
  EXPECT_EQ(nodes_->executed().size(), 1u);
}

TEST_F(PythonExecutorTest, FurtherInputIsTakenWhenTheLastItemWasTheLast) {
  Begin(kGenerative);
  Add(0, "a", "go", 10);
  const uint64_t call = last();
  nodes_->Step(call, Step(Kind::kItem, {{"x", "0"}}));
  Add(0, "a", "next", 11);
  EXPECT_EQ(nodes_->executed().size(), 1u);
  nodes_->Step(call, Step(Kind::kEnd));
  ASSERT_EQ(nodes_->executed().size(), 2u);
  EXPECT_THAT(InputsOf(last()), ElementsAre("a=next"));
  nodes_->Step(last(), Step(Kind::kItem, {{"x", "1"}}));
  nodes_->Step(last(), Step(Kind::kItem, {{"x", "2"}}));
  nodes_->Step(last(), Step(Kind::kEnd));
  EXPECT_THAT(observer_->packets, ElementsAre(Pair(10, "0:0"), Pair(11, "0:1"), Pair(12, "0:2")));
  run_->CloseAllInputs();
  ASSERT_TRUE(observer_->end.has_value());
  EXPECT_TRUE(observer_->end->ok()) << *observer_->end;
}

TEST_F(PythonExecutorTest, FurtherInputOfALaterTimeWaitsForTheGenerator) {
  Begin(kGenerative);
  Add(0, "a", "go", 10);
  const uint64_t call = last();
  nodes_->Step(call, Step(Kind::kItem, {{"x", "0"}}));
  Add(0, "a", "next", 100);
  nodes_->Step(call, Step(Kind::kItem, {{"x", "1"}}));
  EXPECT_EQ(nodes_->executed().size(), 1u);
  nodes_->Step(call, Step(Kind::kEnd));
  ASSERT_EQ(nodes_->executed().size(), 2u);
  nodes_->Step(last(), Step(Kind::kList, {{"x", "2"}}));
  EXPECT_THAT(observer_->packets, ElementsAre(Pair(10, "0:0"), Pair(11, "0:1"), Pair(100, "0:2")));
}

TEST_F(PythonExecutorTest, CancellingClosesTheCallAndTheRunEndsWithIt) {
  Begin(kGenerative);
  Add(0, "a", "go", 10);
  const uint64_t call = last();
  nodes_->Step(call, Step(Kind::kItem, {{"x", "0"}}));
  run_->Cancel(CancelledError("the client has gone"));
  EXPECT_THAT(nodes_->closed(), testing::Contains(call));
  EXPECT_FALSE(observer_->end.has_value());
  nodes_->Step(call, Step(Kind::kEnd));
  ASSERT_TRUE(observer_->end.has_value());
  EXPECT_EQ(observer_->end->code(), StatusCode::kCancelled);
}

TEST_F(PythonExecutorTest, ANodeWithoutCodeDoesNotStart) {
  auto registry = std::make_shared<graph::CalculatorRegistry>();
  registry->Add<PythonExecutorCalculator>("PythonExecutorCalculator");
  auto topology =
      graph::Topology::Create(graph::ParseGraphConfig(kGenerative).value(), registry, {"py"}).value();
  graph::Run::Options options;
  options.side_packets["py"] = Packet::Of(PythonNodeResources{nodes_, {{"other", 0}}});
  auto run = graph::Run::Create(topology, std::move(options), observer_);
  EXPECT_THAT(run->Start().message(), HasSubstr("there is no Python code for node 'code'"));
}

}  // namespace
}  // namespace braid
