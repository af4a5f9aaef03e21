#include "protocols/json/values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace braid {
namespace {

TEST(AppendJsonNumber, ReadsBackAsTheSameValue) {
  const auto text = [](auto value) {
    std::string out;
    AppendJsonNumber(out, value);
    return out;
  };
  EXPECT_EQ(text(1.0f), "1.0");
  EXPECT_EQ(text(0.1f), "0.1");
  EXPECT_EQ(text(1e20), "1e+20");
  EXPECT_EQ(text(-0.0), "-0.0");
  EXPECT_EQ(text(std::nan("")), "NaN");
  EXPECT_EQ(text(-std::numeric_limits<float>::infinity()), "-Infinity");
  for (float value :
       {std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min(), 1.0f / 3, 16777217.0f}) {
    EXPECT_EQ(std::strtof(text(value).c_str(), nullptr), value);
  }
  for (double value :
       {std::numeric_limits<double>::max(), std::numeric_limits<double>::denorm_min(), 1.0 / 3}) {
    EXPECT_EQ(std::strtod(text(value).c_str(), nullptr), value);
  }
}

TEST(AppendParameterValue, WritesEachKindInItsForm) {
  const auto text = [](ParameterValue value) {
    std::string out;
    AppendParameterValue(out, value);
    return out;
  };
  EXPECT_EQ(text(true), "true");
  EXPECT_EQ(text(false), "false");
  EXPECT_EQ(text(int64_t{-7}), "-7");
  EXPECT_EQ(text(std::numeric_limits<uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(text(2.0), "2.0");
  EXPECT_EQ(text(std::string("a\"b")), R"("a\"b")");
}

}  // namespace
}  // namespace braid
