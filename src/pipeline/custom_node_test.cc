#include "pipeline/custom_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace braid {
namespace {

// What an execution does; stands in for a library.
class FakeCode final : public CustomNodeCode {
 public:
  using Body = std::function<Result<std::vector<Tensor>>(const std::vector<Tensor>&)>;
  explicit FakeCode(Body body) : body_(std::move(body)) {}
  Result<std::vector<TensorSpec>> Inputs() const override { return std::vector<TensorSpec>(); }
  Result<std::vector<TensorSpec>> Outputs() const override { return std::vector<TensorSpec>(); }
  Result<std::vector<Tensor>> Execute(const std::vector<Tensor>& inputs) const override {
    return body_(inputs);
  }

 private:
  const Body body_;
};

using Answered = Result<std::optional<std::vector<Tensor>>>;

class FakeRun final : public NodeRun {
 public:
  explicit FakeRun(std::promise<Answered>& answer) : answer_(answer) {}
  void Answer(Answered outputs, bool final) override {
    EXPECT_TRUE(final);
    EXPECT_TRUE(inputs.empty() || (cancellation != nullptr && cancellation->cancelled()));
    answer_.set_value(std::move(outputs));
  }

 private:
  std::promise<Answered>& answer_;
};

TEST(CustomNode, RunsOnAThreadOfItsOwnAndAnswersOnce) {
  CustomNodeThreads threads;
  std::thread::id ran_on;
  const CustomNode node(std::make_shared<FakeCode>([&](const std::vector<Tensor>& inputs) {
                          ran_on = std::this_thread::get_id();
                          std::vector<Tensor> outputs = inputs;
                          outputs[0].name = "out";
                          return outputs;
                        }),
                        threads);
  auto session = node.Open();
  ASSERT_TRUE(session.ok());
  std::promise<Answered> answer;
  auto run = std::make_unique<FakeRun>(answer);
  run->inputs.push_back({"in", DataType::kUint8, {1}, {}});
  (*session)->Run(InferenceRequest(), std::move(run));
  const Answered answered = answer.get_future().get();
  ASSERT_TRUE(answered.ok());
  EXPECT_EQ(answered.value()->at(0).name, "out");
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST(CustomNode, AnswersWithTheErrorOfTheCode) {
  CustomNodeThreads threads;
  const CustomNode node(std::make_shared<FakeCode>([](const std::vector<Tensor>&) {
                          return Result<std::vector<Tensor>>(InternalError("no"));
                        }),
                        threads);
  std::promise<Answered> answer;
  node.Open().value()->Run(InferenceRequest(), std::make_unique<FakeRun>(answer));
  EXPECT_EQ(answer.get_future().get().status(), InternalError("no"));
}

TEST(CustomNode, DoesNotRunForARequestThatIsCancelled) {
  CustomNodeThreads threads;
  bool ran = false;
  const CustomNode node(std::make_shared<FakeCode>([&](const std::vector<Tensor>& inputs) {
                          ran = true;
                          return inputs;
                        }),
                        threads);
  std::promise<Answered> answer;
  auto run = std::make_unique<FakeRun>(answer);
  run->cancellation = std::make_shared<Cancellation>();
  run->cancellation->Cancel();
  node.Open().value()->Run(InferenceRequest(), std::move(run));
  EXPECT_EQ(answer.get_future().get().status().code(), StatusCode::kCancelled);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace braid
