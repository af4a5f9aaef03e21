#include "server/spin_control.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace braid {
namespace {

TEST(SpinControl, ReadsAutoAndMicroseconds) {
  EXPECT_EQ(SpinControl::Parse("auto").value(), SpinControl::kAuto);
  EXPECT_EQ(SpinControl::Parse("0").value(), 0);
  EXPECT_EQ(SpinControl::Parse("1000").value(), 1000);
  for (const char* wrong : {"", "-1", "1001", "5us", "on"}) {
    const auto parsed = SpinControl::Parse(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_EQ(parsed.status().message(),
              std::string("'") + wrong + "' is neither auto nor a number of microseconds from 0 to 1000");
  }
}

TEST(SpinControl, PollsWhileCoresAreIdle) {
  EXPECT_EQ(SpinControl::Decide(0, 2.4), 0) << "too few idle cores to begin";
  EXPECT_EQ(SpinControl::Decide(0, 2.5), SpinControl::kAutoNs);
  EXPECT_EQ(SpinControl::Decide(SpinControl::kAutoNs, 1.0), SpinControl::kAutoNs)
      << "polling uses cores itself";
  EXPECT_EQ(SpinControl::Decide(SpinControl::kAutoNs, 0.9), 0);
}

TEST(SpinControl, CountsTheIdleTimeOfUsableCores) {
  constexpr const char* kStat =
      "cpu  10 0 10 1000 0 0 0 0 0 0\n"
      "cpu0 5 0 5 300 0 0 0 0 0 0\n"
      "cpu1 5 0 5 200 7 0 0 0 0 0\n"
      "cpu12 0 0 0 500 0 0 0 0 0 0\n"
      "intr 99 4 5\n";
  std::vector<bool> usable(16);
  usable[1] = usable[12] = true;
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(SpinControl::ReadIdleSeconds(kStat, usable), 700 / ticks);
  EXPECT_DOUBLE_EQ(SpinControl::ReadIdleSeconds("", usable), 0);
}

TEST(SpinControl, ReadsTheQuotaOfAControlGroup) {
  EXPECT_EQ(SpinControl::ReadQuota("150000 100000\n"), 1.5);
  EXPECT_EQ(SpinControl::ReadQuota("max 100000\n"), std::nullopt);
  EXPECT_EQ(SpinControl::ReadQuota(""), std::nullopt);
}

}  // namespace
}  // namespace braid
