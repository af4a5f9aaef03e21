#include "base/memory_use.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace braid {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(MemoryUse, CountsWhatIsCharged) {
  const size_t before = MemoryUse();
  {
    MemoryCharge charge(10 * kMiB);
    EXPECT_GE(MemoryUse(), before + 10 * kMiB - (64 << 10));
    charge.Set(3 * kMiB);
    EXPECT_LE(MemoryUse(), before + 3 * kMiB + (64 << 10));
    MemoryCharge other = std::move(charge);
    EXPECT_GE(MemoryUse(), before + 3 * kMiB - (64 << 10));
  }
  EXPECT_LE(MemoryUse(), before + (64 << 10));
}

TEST(MemoryUse, LosesNothingOfThreadsThatEnd) {
  const size_t before = MemoryUse();
  for (int i = 0; i < 100; ++i) std::thread([] { AddMemoryUse(50 << 10); }).join();
  EXPECT_GE(MemoryUse(), before + (4 << 20));
  for (int i = 0; i < 100; ++i) std::thread([] { AddMemoryUse(-(50 << 10)); }).join();
  EXPECT_LE(MemoryUse(), before + (64 << 10));
}

TEST(MemoryUse, FreesTexts) {
  std::string text(1000, 'x');
  FreeText(text);
  EXPECT_LT(text.capacity(), 100u);
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace braid
