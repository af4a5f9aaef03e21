#include "load/elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace braid::load {
namespace {

using ::testing::HasSubstr;

std::string Bytes(std::string_view datatype, const char* json) {
  std::string data;
  const Status status = AppendJsonElements(Json::parse(json), datatype, data);
  EXPECT_TRUE(status.ok()) << status.message();
  return data;
}

TEST(Elements, GoThroughJsonUnchanged) {
  EXPECT_EQ(JsonElements("INT64", Bytes("INT64", "[[1,-2],[9223372036854775807,0]]")),
            "[1,-2,9223372036854775807,0]");
  EXPECT_EQ(JsonElements("FP16", Bytes("FP16", "[1.5,-2,65504]")), "[1.5,-2,65504]");
  EXPECT_EQ(JsonElements("BF16", Bytes("BF16", "[1.5,-2]")), "[1.5,-2]");
  EXPECT_EQ(JsonElements("BOOL", Bytes("BOOL", "[true,0]")), "[true,false]");
  EXPECT_EQ(JsonElements("BYTES", Bytes("BYTES", R"(["a\"b","",7])")), R"(["a\"b","","7"])");
  EXPECT_EQ(Bytes("UINT16", "[258]"), std::string("\x02\x01", 2));
}

TEST(Elements, RefusesWhatTheDatatypeDoesNotHave) {
  std::string data;
  EXPECT_THAT(AppendJsonElements(300, "UINT8", data).message(), HasSubstr("300 is not a value of UINT8"));
  EXPECT_FALSE(AppendJsonElements(-1, "UINT32", data).ok());
  EXPECT_FALSE(AppendJsonElements(1.5, "INT32", data).ok());
  EXPECT_FALSE(AppendJsonElements("x", "FP32", data).ok());
  EXPECT_FALSE(AppendJsonElements(1, "INT4", data).ok());
}

TEST(Elements, HalfPrecisionRoundsToTheNearest) {
  EXPECT_EQ(ToHalf(1.0F), 0x3c00);
  EXPECT_EQ(ToHalf(-2.0F), 0xc000);
  EXPECT_EQ(ToHalf(65536.0F), 0x7c00);
  EXPECT_EQ(ToHalf(6e-8F), 0x0001);
  EXPECT_EQ(ToHalf(1.0F + 1.0F / 4096), 0x3c00);
  EXPECT_EQ(ToHalf(2047.9F / 1024), 0x4000);  // carries into the exponent
  for (int bits = 0; bits < 0x7c00; ++bits) EXPECT_EQ(ToHalf(FromHalf(static_cast<uint16_t>(bits))), bits);
  EXPECT_TRUE(std::isnan(FromHalf(ToHalf(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Elements, AreMadeOfTheShapeAndTheSameFromOneSeed) {
  std::mt19937_64 one(3);
  std::mt19937_64 two(3);
  FillOptions options;
  const std::string numbers = *MakeElements("FP32", {2, 3}, options, one);
  EXPECT_EQ(numbers.size(), 24U);
  EXPECT_EQ(numbers, *MakeElements("FP32", {2, 3}, options, two));
  EXPECT_NE(numbers, *MakeElements("FP32", {2, 3}, options, two));
  options.string_data = "ab";
  EXPECT_EQ(*MakeElements("BYTES", {2}, options, one), std::string("\2\0\0\0ab\2\0\0\0ab", 12));
  options.fill = Fill::kZero;
  EXPECT_EQ(*MakeElements("INT16", {2}, options, one), std::string(4, '\0'));
  EXPECT_THAT(MakeElements("FP32", {-1, 3}, {}, one).status().message(), HasSubstr("[-1,3]"));
}

}  // namespace
}  // namespace braid::load
