#include "backends/python/readiness_hook.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class ReadinessHookTest : public testing::Test {
 protected:
  void SetUp() override {
    Channel::WorkerEnd end;
    channel_ = Channel::CreateServerEnd({}, end).value();
    worker_ = Channel::OpenWorkerEnd(std::move(end)).value();
    hook_.Open(channel_);
  }

  void Ask(int64_t now_ns) {
    hook_.Ask([this](const Readiness& readiness) { answers_.push_back(readiness); }, now_ns);
  }
  // Returns the number of the check that the worker received; 0 for none.
  uint64_t Check() {
    std::vector<std::byte> message;
    CheckReadyMessage check;
    if (worker_->Receive(message, 0) != Channel::Outcome::kMessage || !Decode(message, check)) return 0;
    return check.check_id;
  }

  std::shared_ptr<Channel> channel_;
  std::unique_ptr<Channel> worker_;
  ReadinessHook hook_{"m_0_0"};
  std::vector<Readiness> answers_;
};

TEST_F(ReadinessHookTest, OneCheckAnswersAllWhoAskMeanwhile) {
  Ask(0);
  Ask(1);
  const uint64_t check = Check();
  EXPECT_NE(check, 0u);
  EXPECT_EQ(Check(), 0u);
  hook_.OnAnswer({check, true, ""});
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_TRUE(answers_[0].ready);
  EXPECT_TRUE(answers_[1].ready);
  Ask(2);
  const uint64_t next = Check();
  EXPECT_NE(next, check);
  hook_.OnAnswer({next, false, ""});
  EXPECT_FALSE(answers_.at(2).ready);
  EXPECT_EQ(answers_.at(2).reason, "Model 'm_0_0' is not ready (user-defined check failed).");
  Ask(3);
  hook_.OnAnswer({Check(), false, "is_ready() must return a boolean value"});
  EXPECT_EQ(answers_.at(3).reason, "is_ready() must return a boolean value");
}

TEST_F(ReadinessHookTest, AHookThatTakesEightSeconds) {
  Ask(0);
  const uint64_t check = Check();
  EXPECT_EQ(hook_.Expire(5 * kSecond - 1), 5 * kSecond);
  EXPECT_TRUE(answers_.empty());
  hook_.Expire(5 * kSecond);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_FALSE(answers_[0].ready);
  EXPECT_EQ(answers_[0].reason, "Timed out waiting for user-defined is_ready() response");
  // The second caller gets the result of the running check.
  Ask(5 * kSecond);
  EXPECT_EQ(Check(), 0u);
  hook_.OnAnswer({check, true, ""});
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_TRUE(answers_[1].ready);
  EXPECT_EQ(hook_.Expire(5 * kSecond), INT64_MAX);
}

TEST_F(ReadinessHookTest, WhoJoinedACheckThatGoesOnForTooLong) {
  Ask(0);
  Ask(kSecond);
  hook_.Expire(6 * kSecond);
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_EQ(answers_[1].reason, "Timed out waiting for in-flight is_ready() response");
}

TEST_F(ReadinessHookTest, TheWorkersEndAnswersWhoWaits) {
  Ask(0);
  const uint64_t check = Check();
  hook_.Close("Stub process 'm_0_0' is not healthy.");
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_FALSE(answers_[0].ready);
  EXPECT_EQ(answers_[0].reason, "Stub process 'm_0_0' is not healthy.");
  // A worker without the hook, or between two lives, is ready.
  Ask(1);
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_TRUE(answers_[1].ready);
  hook_.OnAnswer({check, false, ""});
  EXPECT_EQ(answers_.size(), 2u);
}

}  // namespace
}  // namespace braid
