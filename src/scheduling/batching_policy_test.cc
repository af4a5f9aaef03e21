#include "scheduling/batching_policy.h"

#include <gtest/gtest.h>

#include <functional>

#include "model_config.pb.h"

namespace braid {
namespace {

inference::ModelConfig Config() {
  inference::ModelConfig config;
  config.set_name("m");
  config.set_max_batch_size(8);
  return config;
}

TEST(BatchingPolicy, IsOneRequestEachByDefault) {
  auto policy = BatchingPolicyFromConfig(Config());
  ASSERT_TRUE(policy.ok());
  EXPECT_TRUE(policy->one_request_each());
  EXPECT_EQ(policy->level_count, 1u);
}

TEST(BatchingPolicy, ReadsAllFields) {
  auto config = Config();
  auto& batching = *config.mutable_dynamic_batching();
  batching.add_preferred_batch_size(8);
  batching.add_preferred_batch_size(4);
  batching.set_max_queue_delay_microseconds(100);
  batching.set_preserve_ordering(true);
  batching.set_priority_levels(3);
  batching.set_default_priority_level(2);
  batching.mutable_default_queue_policy()->set_max_queue_size(7);
  auto& special = (*batching.mutable_priority_queue_policy())[3];
  special.set_timeout_action(inference::ModelQueuePolicy::DELAY);
  special.set_default_timeout_microseconds(5);
  special.set_allow_timeout_override(true);
  auto policy = BatchingPolicyFromConfig(config);
  ASSERT_TRUE(policy.ok());
  EXPECT_FALSE(policy->one_request_each());
  EXPECT_EQ(policy->preferred_sizes, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(policy->max_delay_ns, 100'000);
  EXPECT_TRUE(policy->preserve_ordering);
  EXPECT_EQ(policy->default_level, 1u);
  ASSERT_EQ(policy->level_count, 3u);
  EXPECT_EQ(policy->PolicyOf(0).max_queue_size, 7);
  EXPECT_FALSE(policy->PolicyOf(0).delay_on_timeout);
  EXPECT_EQ(policy->PolicyOf(2).max_queue_size, 0);
  EXPECT_EQ(policy->PolicyOf(2).default_timeout_ns, 5000);
  EXPECT_TRUE(policy->PolicyOf(2).delay_on_timeout);
  EXPECT_TRUE(policy->PolicyOf(2).allow_timeout_override);
}

TEST(BatchingPolicy, HandsNothingAheadWhereTheQueueHasRules) {
  const auto hands_ahead = [](const std::function<void(inference::ModelDynamicBatching&)>& change) {
    auto config = Config();
    change(*config.mutable_dynamic_batching());
    auto policy = BatchingPolicyFromConfig(config);
    EXPECT_TRUE(policy.ok()) << policy.status();
    return policy->hands_ahead;
  };
  EXPECT_TRUE(BatchingPolicyFromConfig(Config())->hands_ahead);
  EXPECT_TRUE(hands_ahead([](auto& batching) { batching.set_max_queue_delay_microseconds(5); }));
  EXPECT_FALSE(hands_ahead(
      [](auto& batching) { batching.mutable_default_queue_policy()->set_default_timeout_microseconds(5); }));
  EXPECT_FALSE(hands_ahead(
      [](auto& batching) { batching.mutable_default_queue_policy()->set_allow_timeout_override(true); }));
  EXPECT_FALSE(
      hands_ahead([](auto& batching) { batching.mutable_default_queue_policy()->set_max_queue_size(5); }));
  EXPECT_FALSE(hands_ahead([](auto& batching) {
    batching.set_priority_levels(2);
    batching.set_default_priority_level(1);
  }));
}

TEST(BatchingPolicy, KeepsHugeTimesFromOverflowing) {
  auto config = Config();
  config.mutable_dynamic_batching()->set_max_queue_delay_microseconds(UINT64_MAX);
  auto policy = BatchingPolicyFromConfig(config);
  ASSERT_TRUE(policy.ok());
  EXPECT_GT(policy->max_delay_ns, 0);
  EXPECT_GT(policy->max_delay_ns + (int64_t{1} << 60), 0);
}

TEST(BatchingPolicy, RefusesWhatCannotBe) {
  auto config = Config();
  config.mutable_dynamic_batching()->add_preferred_batch_size(9);
  EXPECT_EQ(BatchingPolicyFromConfig(config).status().message(),
            "dynamic batching preferred size must be <= max batch size for m");
  config.mutable_dynamic_batching()->set_preferred_batch_size(0, 0);
  EXPECT_FALSE(BatchingPolicyFromConfig(config).ok());
  config.mutable_dynamic_batching()->clear_preferred_batch_size();
  config.mutable_dynamic_batching()->set_priority_levels(UINT64_MAX);
  EXPECT_FALSE(BatchingPolicyFromConfig(config).ok());
  config.mutable_dynamic_batching()->set_priority_levels(2);
  EXPECT_FALSE(BatchingPolicyFromConfig(config).ok());
  config.mutable_dynamic_batching()->set_default_priority_level(2);
  EXPECT_TRUE(BatchingPolicyFromConfig(config).ok());
  (*config.mutable_dynamic_batching()->mutable_priority_queue_policy())[3];
  EXPECT_FALSE(BatchingPolicyFromConfig(config).ok());
}

}  // namespace
}  // namespace braid
