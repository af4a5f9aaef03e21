#include "sequences/slot_batch.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

constexpr SlotView kFree = {};
constexpr SlotView kIdle = {.taken = true};
SequencePolicy Policy(size_t slots, double minimum_utilization = 0, int64_t max_delay_ns = 0) {
  SequencePolicy policy;
  policy.slots = slots;
  policy.minimum_utilization = minimum_utilization;
  policy.max_delay_ns = max_delay_ns;
  return policy;
}
SlotView Ready(int64_t arrived_ns) { return {.taken = true, .ready = true, .arrived_ns = arrived_ns}; }

TEST(DecideSlots, CoversAllUpToTheHighestThatIsTaken) {
  const SequencePolicy policy = Policy(8);
  const SlotView none[] = {kFree, kIdle};
  EXPECT_EQ(DecideSlots(policy, none, 0), BatchDecision{});
  const SlotView one[] = {Ready(0)};
  EXPECT_EQ(DecideSlots(policy, one, 0), BatchDecision{.count = 1});
  const SlotView many[] = {kIdle, kFree, Ready(0), kIdle, kFree};
  EXPECT_EQ(DecideSlots(policy, many, 0), BatchDecision{.count = 4});
}

TEST(DecideSlots, WaitsForTheUtilizationButNoLongerThanTheDelay) {
  const SequencePolicy policy = Policy(4, 0.5, 100);
  const SlotView one[] = {Ready(10), kIdle};
  EXPECT_EQ(DecideSlots(policy, one, 50), BatchDecision{.wait_until_ns = 110});
  EXPECT_EQ(DecideSlots(policy, one, 110), BatchDecision{.count = 2});
  const SlotView two[] = {Ready(10), Ready(20)};
  EXPECT_EQ(DecideSlots(policy, two, 50), BatchDecision{.count = 2});
}

TEST(DecideSlots, DoesNotWaitWithoutAUtilization) {
  const SequencePolicy policy = Policy(4, 0, 100);
  const SlotView one[] = {Ready(10)};
  EXPECT_EQ(DecideSlots(policy, one, 10), BatchDecision{.count = 1});
}

}  // namespace
}  // namespace braid
