// DAG steps that run code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "pipeline/dag_servable.h"
#include "pipeline/testing/ensemble_fixture.h"

namespace braid {
namespace {

using Code = std::function<Result<std::vector<Tensor>>(const std::vector<Tensor>&)>;

// A node whose execution is a function of the test. It records Stop().
class TestCode final : public CustomNodeCode {
 public:
  explicit TestCode(Code code) : code_(std::move(code)) {}
  Result<std::vector<TensorSpec>> Inputs() const override { return std::vector<TensorSpec>(); }
  Result<std::vector<TensorSpec>> Outputs() const override { return std::vector<TensorSpec>(); }
  Result<std::vector<Tensor>> Execute(const std::vector<Tensor>& inputs) const override {
    return code_(inputs);
  }
  void Stop(int64_t) const override { ++stops; }
  std::optional<InstanceReport> report() const override {
    InstanceReport report;
    report.name = "the code";
    report.pid = 7;
    return report;
  }

  mutable std::atomic<int> stops{0};

 private:
  const Code code_;
};

class CustomNodeTest : public EnsembleFixture {
 protected:
  // x -> code -> y.
  std::shared_ptr<Servable> ServeCode(Code code) {
    auto plan = std::make_shared<DagPlan>();
    plan->dag =
        Dag::Build({"x"}, {"y"}, {{.name = "n", .inputs = {{"in", "x"}}, .outputs = {{"out", "y"}}}}).value();
    plan->steps.push_back(
        {.servable = nullptr, .code = code_ = std::make_shared<const TestCode>(std::move(code))});
    DagStructure::Words words;
    words.nodes.emplace_back().name = "n";
    plan->structure = std::make_unique<DagStructure>(*plan->dag, std::move(words));
    plan->threads = &threads_;
    plan->fault = [](const Status& status, uint32_t) { return status; };
    ServableInfo info;
    info.name = "p";
    info.inputs = {Spec("x")};
    info.outputs = {Spec("y")};
    return DagServable::Create(std::move(info), std::move(plan), deps_);
  }
  std::shared_ptr<Cancellation> Send(const std::shared_ptr<Servable>& servable) {
    auto request = Request(servable, sink_, {Int32Tensor("x", {1})});
    auto cancellation = request->cancellation;
    servable->Infer(std::move(request));
    return cancellation;
  }

  KeepingSink sink_;
  CustomNodeThreads threads_;
  std::shared_ptr<const TestCode> code_;  // of the servable under test
};

TEST_F(CustomNodeTest, RunsOnAThreadOfItsOwnAndAnswersOnce) {
  std::thread::id ran_on;
  const auto servable = ServeCode([&](const std::vector<Tensor>& inputs) {
    ran_on = std::this_thread::get_id();
    EXPECT_EQ(inputs.at(0).name, "in");
    std::vector<Tensor> outputs = inputs;
    outputs[0].name = "out";
    return outputs;
  });
  Send(servable);
  sink_.Wait();
  EXPECT_TRUE(sink_.status().ok()) << sink_.status();
  EXPECT_THAT(sink_.Values("y"), ::testing::ElementsAre(std::vector<int32_t>{1}));
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST_F(CustomNodeTest, IsStoppedWithItsServableThoughThatIsHeld) {
  const auto servable = ServeCode([](const std::vector<Tensor>& inputs) { return inputs; });
  EXPECT_EQ(code_->stops, 0);
  servable->Stop(INT64_MAX);
  EXPECT_EQ(code_->stops, 1);
}

TEST_F(CustomNodeTest, ItsProcessIsAnInstanceOfTheServable) {
  const auto servable = ServeCode([](const std::vector<Tensor>& inputs) { return inputs; });
  const std::vector<InstanceReport> instances = servable->instances();
  ASSERT_EQ(instances.size(), 1u);
  EXPECT_EQ(instances[0].name, "the code");
  EXPECT_EQ(instances[0].pid, 7);
}

TEST_F(CustomNodeTest, AnswersWithTheErrorOfTheCode) {
  const auto servable =
      ServeCode([](const std::vector<Tensor>&) { return Result<std::vector<Tensor>>(InternalError("no")); });
  Send(servable);
  sink_.Wait();
  EXPECT_EQ(sink_.status(), InternalError("no"));
  const StructureNode node = servable->structure()->nodes[1];
  EXPECT_EQ(node.started, 1u);
  EXPECT_EQ(node.ended, 1u);
  EXPECT_EQ(node.failed, 1u);
}

TEST_F(CustomNodeTest, DoesNotRunForARequestThatIsCancelled) {
  bool ran = false;
  const auto servable = ServeCode([&](const std::vector<Tensor>& inputs) {
    ran = true;
    return inputs;
  });
  // No thread is free before the request is cancelled.
  std::promise<void> cancelled;
  const std::shared_future<void> go_on = cancelled.get_future();
  for (size_t i = 0; i < CustomNodeThreads::kMostThreads; ++i) threads_.Run([go_on] { go_on.wait(); });
  Send(servable)->Cancel();
  cancelled.set_value();
  sink_.Wait();
  EXPECT_EQ(sink_.status().code(), StatusCode::kCancelled);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace braid
