#include "worker/extension/device_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "gpu/devices.h"
#include "gpu/testing/standin_gpus.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kUnit = size_t{2} << 20;

class DevicePoolTest : public testing::Test {
 protected:
  std::shared_ptr<DevicePool> Pool(size_t keep_bytes) {
    return std::make_shared<DevicePool>(context_, ids_, keep_bytes);
  }
  static uint32_t IdOf(const Buffer& buffer) {
    return static_cast<SegmentBlock*>(buffer.owner())->segment()->id();
  }

  static std::vector<uint32_t> GoneOf(DevicePool& pool) {
    std::vector<uint32_t> segments;
    for (const DevicePool::Gone& gone : pool.TakeGone()) segments.push_back(gone.segment);
    return segments;
  }

  const StandinGpus gpus_{"8.6 100000000 Stand-in"};
  const std::shared_ptr<CudaContext> context_ = CudaContext::Create(FindGpus(6.0).driver, 0).value();
  SegmentIds ids_;
};

TEST_F(DevicePoolTest, GivesEachTensorABlockOfItsOwnAndUsesItAgain) {
  const auto pool = Pool(4 * kUnit);
  Buffer first = pool->Allocate(10).value();
  EXPECT_TRUE(first.on_device());
  EXPECT_EQ(first.size(), 10);
  Buffer second = pool->Allocate(10).value();
  EXPECT_NE(IdOf(first), IdOf(second));
  EXPECT_NE(DevicePool::AddressOf(first), DevicePool::AddressOf(second));
  const uint32_t id = IdOf(first);
  Buffer share = first;
  first = {};
  EXPECT_EQ(pool->idle_bytes(), 0) << "somebody has it still";
  share = {};
  EXPECT_EQ(pool->idle_bytes(), kUnit);
  EXPECT_EQ(IdOf(pool->Allocate(kUnit).value()), id);
  EXPECT_THAT(GoneOf(*pool), IsEmpty());
}

TEST_F(DevicePoolTest, KnowsWhatIsBehindATensorInItsBlock) {
  const auto pool = Pool(kUnit);
  EXPECT_EQ(DevicePool::TakeDirty(pool->Allocate(1000).value()), 0);
  EXPECT_EQ(DevicePool::TakeDirty(pool->Allocate(10).value()), 1000);
  EXPECT_EQ(DevicePool::TakeDirty(pool->Allocate(500).value()), 10);
}

TEST_F(DevicePoolTest, TakesTheSmallestThatFitsAndWastesLittle) {
  const auto pool = Pool(100 * kUnit);
  Buffer large = pool->Allocate(20 * kUnit).value();
  Buffer middle = pool->Allocate(3 * kUnit).value();
  const uint32_t large_id = IdOf(large);
  const uint32_t middle_id = IdOf(middle);
  large = middle = {};
  const Buffer small = pool->Allocate(kUnit).value();
  EXPECT_EQ(IdOf(small), middle_id);
  const Buffer another = pool->Allocate(kUnit).value();
  EXPECT_NE(IdOf(another), large_id) << "ten times as large";
  EXPECT_EQ(IdOf(pool->Allocate(11 * kUnit).value()), large_id);
}

TEST_F(DevicePoolTest, KeepsNoMoreThanItMay) {
  const auto pool = Pool(2 * kUnit);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 3; ++i) buffers.push_back(pool->Allocate(10).value());
  const uint32_t first = IdOf(buffers[0]);
  for (Buffer& buffer : buffers) buffer = {};
  EXPECT_EQ(pool->idle_bytes(), 2 * kUnit);
  EXPECT_THAT(GoneOf(*pool), ElementsAre(first)) << "what was idle longest";
  EXPECT_THAT(GoneOf(*pool), IsEmpty());
}

TEST_F(DevicePoolTest, LastsAsLongAsItsBlocks) {
  auto pool = Pool(0);
  Buffer buffer = pool->Allocate(10).value();
  pool.reset();
  EXPECT_NE(DevicePool::AddressOf(buffer), 0);
  buffer = {};
  EXPECT_EQ(DevicePool::TakeDirty(Pool(0)->Allocate(1).value()), 0);
}

}  // namespace
}  // namespace braid
