#include "serving/input_limit.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serving/servable.h"

namespace braid {
namespace {

struct Silent final : ResponseSink {
  void Respond(std::optional<InferenceResponse>, bool) override {}
};

class Idle final : public Servable {
 public:
  Idle() : Servable(ServableInfo{}) { info_.name = "slow"; }
  BufferAllocator& input_allocator() override { return heap_; }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override {}

 private:
  HeapAllocator heap_;
};

class InputLimitTest : public testing::Test {
 protected:
  std::unique_ptr<InferenceRequest> RequestWith(std::vector<size_t> sizes) {
    auto request = std::make_unique<InferenceRequest>();
    request->servable = ServableHandle::Enter(servable_);
    request->sink = &sink_;
    for (const size_t size : sizes) {
      request->inputs.push_back({"x",
                                 DataType::kUint8,
                                 {static_cast<int64_t>(size)},
                                 servable_->input_allocator().Allocate(size).value()});
    }
    return request;
  }

  Silent sink_;
  std::vector<std::string> told_;
  const InputLimit limit_{100, [this](std::string_view text) { told_.emplace_back(text); }};
  const std::shared_ptr<Idle> servable_ = std::make_shared<Idle>();
};

TEST_F(InputLimitTest, RefusesWhatDoesNotFitBesideOthers) {
  servable_->set_input_limit(&limit_);
  const auto first = RequestWith({40, 20});
  ASSERT_TRUE(servable_->Admit(*first).ok());
  const auto second = RequestWith({41});
  const Status refused = servable_->Admit(*second);
  EXPECT_EQ(refused, ResourceExhaustedError("queued requests for 'slow' exceed the limit of input bytes "
                                            "(--model-max-queued-bytes=100); try again later"));
  EXPECT_EQ(told_, std::vector{refused.message()});
  const auto third = RequestWith({40});
  EXPECT_TRUE(servable_->Admit(*third).ok());
  // The request's end makes room, not the object's destruction.
  first->Respond(std::nullopt, true);
  EXPECT_TRUE(servable_->Admit(*second).ok());
  second->Respond(std::nullopt, true);
  third->Respond(std::nullopt, true);
}

TEST_F(InputLimitTest, ARequestThatIsAloneFits) {
  servable_->set_input_limit(&limit_);
  for (int i = 0; i < 2; ++i) {
    const auto large = RequestWith({5000});
    EXPECT_TRUE(servable_->Admit(*large).ok());
    const auto small = RequestWith({1});
    EXPECT_FALSE(servable_->Admit(*small).ok());
    small->Refuse(InternalError(""));
    large->Fail(InternalError(""));
  }
}

TEST_F(InputLimitTest, WithoutALimitAllFit) {
  const auto first = RequestWith({5000});
  const auto second = RequestWith({5000});
  EXPECT_TRUE(servable_->Admit(*first).ok());
  EXPECT_TRUE(servable_->Admit(*second).ok());
  first->Respond(std::nullopt, true);
  second->Respond(std::nullopt, true);
}

}  // namespace
}  // namespace braid
