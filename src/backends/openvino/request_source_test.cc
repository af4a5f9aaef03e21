// After a failed inference the model is compiled again, once, and only if the failure spoiled it.
#include "backends/openvino/request_source.h"

#include <gmock/gmock.h>

#include "backends/openvino/testing/harness.h"

namespace braid {
namespace {

using ::testing::HasSubstr;

class Sources : public ::testing::Test {
 protected:
  // A source for a = b * 2 + 1.
  std::unique_ptr<RequestSource> Make(const std::shared_ptr<ov::Model>& model) {
    auto compile = [this, model]() -> Result<ov::CompiledModel> {
      ++compiled_;
      if (compiled_ == fails_) return InternalError("no memory");
      return core_.compile_model(model, "CPU");
    };
    return std::make_unique<RequestSource>(core_.compile_model(model, "CPU"), model, std::move(compile));
  }

  ov::Core core_;
  int compiled_ = 0;
  int fails_ = 0;
};

TEST_F(Sources, CompileOnceForAllThatFailedInOneGeneration) {
  auto source = Make(models::Affine({-1, -1}));
  auto first = source->Make();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(compiled_, 0);
  EXPECT_FALSE(source->is_careful());
  EXPECT_TRUE(source->Discard(first->generation));
  EXPECT_FALSE(source->Discard(first->generation));
  EXPECT_FALSE(source->IsCurrent(first->generation));
  EXPECT_TRUE(source->is_careful());
  auto second = source->Make();
  auto third = source->Make();
  ASSERT_TRUE(second.ok() && third.ok());
  EXPECT_TRUE(source->IsCurrent(second->generation));
  EXPECT_EQ(second->generation, third->generation);
  EXPECT_EQ(compiled_, 1);
}

TEST_F(Sources, TryAgainAfterACompilationThatFailed) {
  auto source = Make(models::Affine({-1, -1}));
  fails_ = 1;
  EXPECT_TRUE(source->Discard(0));
  EXPECT_THAT(source->Make().status().message(), HasSubstr("no memory"));
  auto made = source->Make();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(source->IsCurrent(made->generation));
}

TEST_F(Sources, KeepWhatIsStatic) {
  auto source = Make(models::Affine({1, 2}));
  EXPECT_TRUE(source->Discard(0));
  EXPECT_TRUE(source->Discard(0));
  EXPECT_TRUE(source->IsCurrent(0));
  EXPECT_FALSE(source->is_careful());
  EXPECT_TRUE(source->Make().ok());
  EXPECT_EQ(compiled_, 0);
}

TEST_F(Sources, TellWhoeverHoldsWhatIsDiscarded) {
  auto source = Make(models::Affine({-1, -1}));
  std::mutex mutex;
  std::condition_variable changed;
  int told = 0;
  source->OnDiscarded([&] {
    std::lock_guard lock(mutex);
    ++told;
    changed.notify_all();
  });
  EXPECT_TRUE(source->Discard(0));
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return told == 1; });
}

TEST_F(Sources, TryShapesOnTheNetwork) {
  auto b = models::Input("b", ov::element::f32, ov::PartialShape{-1, -1});
  auto pattern = ov::opset13::Constant::create(ov::element::i64, {2}, {0, 4});
  auto a = std::make_shared<ov::opset13::Reshape>(b, pattern, true);
  auto source = Make(std::make_shared<ov::Model>(ov::OutputVector{models::Named("a", a->output(0))},
                                                 ov::ParameterVector{b}));
  EXPECT_FALSE(source->Knows({{2, 4}}));
  EXPECT_EQ(source->Try({{2, 4}}), std::nullopt);
  EXPECT_TRUE(source->Knows({{2, 4}}));
  const auto fault = source->Try({{2, 5}});
  ASSERT_TRUE(fault.has_value());
  EXPECT_THAT(*fault, HasSubstr("cannot make [2,4] of [2,5]"));
  EXPECT_FALSE(source->Knows({{2, 5}}));
  EXPECT_EQ(source->Try({{3, 4}}), std::nullopt);
}

}  // namespace
}  // namespace braid
