#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "backends/python/node_worker.h"
#include "backends/python/python_backend.h"
#include "base/clock.h"
#include "base/testing/places.h"
#include "config/testing/scratch_folder.h"

namespace braid {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = NodeStep::Kind;

constexpr int64_t kSecond = 1'000'000'000;
constexpr auto kPatience = std::chrono::seconds(60);

std::string Setting(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : otherwise;
}

// Asks for each next item itself, up to `most`.
class Listener final : public NodeCallListener {
 public:
  explicit Listener(PythonNodes& nodes, size_t most = SIZE_MAX) : nodes_(nodes), most_(most) {}
  void OnStep(uint64_t call, NodeStep step) override {
    const bool item = step.kind == Kind::kItem;
    bool more = false;
    {
      std::lock_guard lock(mutex_);
      steps_.push_back(std::move(step));
      over_ = !item;
      more = item && steps_.size() < most_;
      changed_.notify_all();
    }
    if (more) nodes_.Resume(call);
  }
  // Returns the steps, once there are `count` or the call is over.
  std::vector<NodeStep> Await(size_t count = SIZE_MAX) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return over_ || steps_.size() >= count; }));
    return steps_;
  }

 private:
  PythonNodes& nodes_;
  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<NodeStep> steps_;
  bool over_ = false;
};

// With real workers.
class NodeWorkerTest : public ::testing::Test {
 protected:
  NodeWorkerTest() {
    services_.catalog = &catalog_;
    PythonBackend::Options options;
    options.python = Setting("BRAID_TEST_PYTHON", test_places::kPython);
    options.worker_directory = Setting("BRAID_TEST_WORKER", test_places::kPythonWorker);
    options.services = &services_;
    backend_ = PythonBackend::Create(options, log_).value();
  }
  ~NodeWorkerTest() override {
    if (nodes_) nodes_->Stop(SteadyNowNs() + 20 * kSecond);
  }

  PythonNodeSpec Node(const std::string& name, const std::string& code) {
    folder_.Write(name + ".py", "import pyovms, os, time\nclass OvmsPythonModel:\n" + code);
    PythonNodeSpec node;
    node.name = name;
    node.handler_path = folder_ / (name + ".py");
    node.input_names = {"in"};
    node.output_names = {"out"};
    node.exported = {"out"};
    return node;
  }
  static PythonNodeSpec Looping(PythonNodeSpec node) {
    node.input_names.emplace_back("loop");
    node.output_names.emplace_back("loop");
    node.loopback = true;
    return node;
  }
  Status Start(std::vector<PythonNodeSpec> nodes) {
    auto started = backend_->StartNodes("graph", std::move(nodes));
    if (started.ok()) nodes_ = std::move(started).value();
    return started.status();
  }
  static NodeTensor Input(std::string_view text) {
    NodeTensor input;
    input.tensor.name = "in";
    input.tensor.type = DataType::kUint8;
    input.tensor.shape = {static_cast<int64_t>(text.size())};
    input.tensor.data = CopyToHeap(std::as_bytes(std::span(text)));
    return input;
  }
  std::vector<NodeStep> Run(size_t node, std::vector<NodeTensor> inputs) {
    auto listener = std::make_shared<Listener>(*nodes_);
    nodes_->Execute(node, 0, std::move(inputs), listener);
    return listener->Await();
  }
  std::vector<NodeStep> Run(size_t node, std::string_view text) { return Run(node, {Input(text)}); }
  static std::string TextOf(const NodeStep& step) {
    return step.outputs.empty() ? "" : std::string(step.outputs[0].tensor.data.text());
  }
  std::string FileText(const std::string& name) {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Returns false on a timeout.
  template <class Condition>
  static bool Eventually(const Condition& condition) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }

  testing::ScratchFolder folder_;
  Logger log_;
  Catalog catalog_;
  WorkerServices services_;
  std::unique_ptr<PythonBackend> backend_;
  std::unique_ptr<PythonNodes> nodes_;
};

constexpr char kUpper[] = R"(
  def execute(self, inputs):
    return [pyovms.Tensor("out", bytes(inputs[0]).upper())]
)";

TEST_F(NodeWorkerTest, ListsErrorsAndGenerators) {
  const Status started = Start({Node("upper", kUpper), Node("fails", R"(
  def execute(self, inputs):
    raise ValueError("no " + bytes(inputs[0]).decode())
)"),
                                Looping(Node("letters", R"(
  def execute(self, inputs):
    for i in range(20):
      yield [pyovms.Tensor("out", bytes(inputs[0]) + str(i).encode())]
    if bytes(inputs[0]) == b"e":
      raise KeyError("end")
)"))});
  ASSERT_TRUE(started.ok()) << started;
  EXPECT_TRUE(nodes_->readiness().ready);
  auto steps = Run(0, "hello");
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].kind, Kind::kList);
  ASSERT_EQ(steps[0].outputs.size(), 1u);
  EXPECT_EQ(steps[0].outputs[0].tensor.name, "out");
  EXPECT_EQ(steps[0].outputs[0].tensor.type, DataType::kUint8);
  EXPECT_THAT(steps[0].outputs[0].tensor.shape, ElementsAre(5));
  EXPECT_EQ(TextOf(steps[0]), "HELLO");
  // Too large for the message itself.
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(TextOf(Run(0, large).at(0)), std::string(3 << 20, 'X'));

  steps = Run(1, "way");
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].kind, Kind::kError);
  EXPECT_EQ(steps[0].status, InternalError("ValueError: no way"));

  steps = Run(2, "g");
  ASSERT_EQ(steps.size(), 21u);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(steps[i].kind, Kind::kItem);
    EXPECT_EQ(TextOf(steps[i]), "g" + std::to_string(i));
  }
  EXPECT_EQ(steps[20].kind, Kind::kEnd);
  steps = Run(2, "e");
  ASSERT_EQ(steps.size(), 21u);
  EXPECT_EQ(TextOf(steps[19]), "e19");
  EXPECT_EQ(steps[20].kind, Kind::kError);
  EXPECT_THAT(steps[20].status.message(), HasSubstr("KeyError: 'end'"));
}

TEST_F(NodeWorkerTest, SaysWhatKeepsANodeFromLoading) {
  const Status failed = Start({Node("fine", kUpper + std::string(R"(
  def finalize(self):
    open(__file__ + ".finalized", "a").write("x")
)")),
                               Node("broken", R"(
  def initialize(self, kwargs):
    raise RuntimeError("no weights")
  def execute(self, inputs):
    return []
)")});
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.message(), AllOf(HasSubstr("broken"), HasSubstr("no weights")));
  EXPECT_EQ(FileText("fine.py.finalized"), "x");
}

TEST_F(NodeWorkerTest, TensorsGoFromNodeToNodeByTheirObject) {
  PythonNodeSpec first = Node("first", R"(
  def execute(self, inputs):
    self.made = pyovms.Tensor("out", bytes(inputs[0]))
    return [self.made]
)");
  first.exported.clear();
  first.kept = {"out"};
  const Status started = Start({first, Node("second", R"(
  def execute(self, inputs):
    return [pyovms.Tensor("out", bytes(inputs[0]) + b"!")]
)")});
  ASSERT_TRUE(started.ok()) << started;
  auto steps = Run(0, std::string(100'000, 'a'));
  ASSERT_EQ(steps.size(), 1u);
  ASSERT_EQ(steps[0].outputs.size(), 1u) << steps[0].status;
  EXPECT_FALSE(steps[0].outputs[0].has_bytes);
  EXPECT_NE(steps[0].outputs[0].object, nullptr);
  EXPECT_THAT(steps[0].outputs[0].tensor.shape, ElementsAre(100'000));
  EXPECT_EQ(TextOf(Run(1, steps[0].outputs).at(0)), std::string(100'000, 'a') + "!");
}

constexpr char kEndless[] = R"(
  def execute(self, inputs):
    try:
      while True:
        yield [pyovms.Tensor("out", str(os.getpid()).encode())]
        time.sleep(0.01)
    finally:
      open(__file__ + ".closed", "a").write("x")
  def finalize(self):
    open(__file__ + ".finalized", "a").write("x")
)";

TEST_F(NodeWorkerTest, AWorkerThatIsKilledFailsWhatItHadAndComesBack) {
  const Status started = Start({Node("upper", kUpper), Looping(Node("endless", kEndless))});
  ASSERT_TRUE(started.ok()) << started;
  auto waiting = std::make_shared<Listener>(*nodes_);
  nodes_->Execute(1, 0, {Input("x")}, waiting);
  auto idle = std::make_shared<Listener>(*nodes_, 1);  // has one item, and asks for no more
  const uint64_t idle_call = nodes_->Execute(1, 0, {Input("x")}, idle);
  const auto items = waiting->Await(5);
  ASSERT_GE(items.size(), 5u);
  idle->Await(1);
  const pid_t pid = std::stoi(TextOf(items[4]));
  ASSERT_GT(pid, 1);
  ASSERT_EQ(kill(pid, SIGKILL), 0);

  const NodeStep last = waiting->Await().back();
  EXPECT_EQ(last.kind, Kind::kError);
  EXPECT_EQ(last.status.code(), StatusCode::kInternal);
  EXPECT_THAT(last.status.message(),
              AllOf(HasSubstr("Stub process 'graph' is not healthy."), HasSubstr("signal 9")));
  nodes_->Resume(idle_call);
  // At most the items sent ahead, and then the error.
  while (idle->Await(1).back().kind == Kind::kItem) nodes_->Resume(idle_call);
  EXPECT_EQ(idle->Await().back().kind, Kind::kError);

  ASSERT_TRUE(Eventually([&] { return nodes_->readiness().ready; }));
  EXPECT_EQ(TextOf(Run(0, "back").at(0)), "BACK");
}

TEST_F(NodeWorkerTest, ClosingEndsTheGeneratorAndStoppingFinalizes) {
  const Status started = Start({Looping(Node("endless", kEndless))});
  ASSERT_TRUE(started.ok()) << started;
  auto listener = std::make_shared<Listener>(*nodes_);
  const uint64_t call = nodes_->Execute(0, 0, {Input("x")}, listener);
  listener->Await(3);
  nodes_->Close(call);
  EXPECT_EQ(listener->Await().back().kind, Kind::kEnd);
  EXPECT_EQ(FileText("endless.py.closed"), "x");

  auto running = std::make_shared<Listener>(*nodes_);
  nodes_->Execute(0, 0, {Input("x")}, running);
  running->Await(3);
  nodes_->Stop(SteadyNowNs() + 20 * kSecond);
  EXPECT_THAT(running->Await().back().kind, AnyOf(Kind::kEnd, Kind::kError));
  EXPECT_EQ(FileText("endless.py.closed"), "xx");
  EXPECT_EQ(FileText("endless.py.finalized"), "x");
  EXPECT_FALSE(nodes_->readiness().ready);
  nodes_.reset();
}

TEST_F(NodeWorkerTest, AWorkerThatDoesNotEndIsKilledAtTheDeadline) {
  const Status started = Start({Node("stuck", R"(
  def execute(self, inputs):
    open(__file__ + ".begun", "w").write("x")
    time.sleep(3600)
  def finalize(self):
    time.sleep(3600)
)")});
  ASSERT_TRUE(started.ok()) << started;
  auto listener = std::make_shared<Listener>(*nodes_);
  nodes_->Execute(0, 0, {Input("x")}, listener);
  ASSERT_TRUE(Eventually([&] { return FileText("stuck.py.begun") == "x"; }));
  const int64_t begin = SteadyNowNs();
  nodes_->Stop(begin + kSecond);
  EXPECT_LT(SteadyNowNs() - begin, 15 * kSecond);
  EXPECT_EQ(listener->Await().back().kind, Kind::kError);
  nodes_.reset();
}

TEST(NodesToJson, IsWhatTheWorkerReads) {
  PythonNodeSpec node;
  node.name = "n\"1";
  node.handler_path = "/a/b.py";
  node.input_names = {"a", "loop"};
  node.output_names = {"loop", "x"};
  node.loopback = true;
  node.exported = {"x"};
  EXPECT_EQ(NodesToJson({node}),
            R"({"nodes":[{"name":"n\"1","handler_path":"/a/b.py","input_names":["a","loop"],)"
            R"("output_names":["loop","x"],"loopback":true,"exported":["x"],"kept":[]}]})");
}

}  // namespace
}  // namespace braid
