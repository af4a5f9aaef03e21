#include "custom_nodes/params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::custom_nodes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kMost = std::numeric_limits<float>::max();

Params Of(const std::vector<CustomNodeParam>& params) {
  return {params.data(), static_cast<int>(params.size())};
}

template <class Body>
std::string FaultOf(Body&& body) {
  try {
    body();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no fault";
}

TEST(Params, AnIntIsTheLongestPrefix) {
  const auto read = [](const char* text) { return Of({{"n", text}}).FindInt("n"); };
  EXPECT_EQ(read("12px"), 12);
  EXPECT_EQ(read("3.9"), 3);
  EXPECT_EQ(read(" 7"), 7);
  EXPECT_EQ(read("-2147483648"), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(read("2147483648"), std::nullopt);
  EXPECT_EQ(read("99999999999999999999"), std::nullopt);
  EXPECT_EQ(read("abc"), std::nullopt);
  EXPECT_EQ(read(""), std::nullopt);
}

TEST(Params, AFloatIsTheLongestPrefix) {
  const auto read = [](const char* text) { return Of({{"n", text}}).FindFloat("n"); };
  EXPECT_EQ(read("0.5x"), 0.5F);
  EXPECT_EQ(read("1e-1"), 0.1F);
  EXPECT_EQ(read("1e50"), std::nullopt);
  EXPECT_EQ(read("x"), std::nullopt);
}

TEST(Params, OnlyTrueIsTrue) {
  EXPECT_TRUE(Of({{"b", "true"}}).Flag("b"));
  for (const char* text : {"True", "1", "yes", " true", "false", ""})
    EXPECT_FALSE(Of({{"b", text}}).Flag("b"));
  EXPECT_FALSE(Of({}).Flag("b"));
}

TEST(Params, ListsAreInBrackets) {
  const auto read = [](const char* text) { return Of({{"l", text}}).FindFloats("l"); };
  EXPECT_THAT(read("[1,2.5, 3]"), ElementsAre(1, 2.5, 3));
  EXPECT_THAT(read("[1,2,]"), ElementsAre(1, 2));
  EXPECT_THAT(read("[-2x]"), ElementsAre(-2));
  for (const char* text : {"[1,,2]", "[]", "[,1]", "1,2", "[1,2] ", " [1]", "[a]", "[", ""}) {
    EXPECT_THAT(read(text), IsEmpty()) << text;
  }
}

TEST(Params, TheFirstEntryWins) { EXPECT_EQ(Of({{"n", "1"}, {"n", "2"}}).FindInt("n"), 1); }

TEST(Params, FaultsNameTheParamAndTheValues) {
  EXPECT_EQ(FaultOf([] {
              Of({{"n", "-3"}}).Int("n", 1, 10);
            }),
            "param 'n' is '-3': expected a whole number of at least 1");
  EXPECT_EQ(FaultOf([] {
              Of({{"n", "abc"}}).Int("n", 1);
            }),
            "param 'n' is 'abc': expected a whole number of at least 1");
  EXPECT_EQ(Of({{"n", "abc"}}).Int("n", 1, 10), 10);
  EXPECT_EQ(FaultOf([] { Of({}).Float("n", 0, 1); }), "param 'n' is missing: expected a number from 0 to 1");
  EXPECT_EQ(FaultOf([] {
              Of({{"n", "nan"}}).Float("n", 0, 1);
            }),
            "param 'n' is 'nan': expected a number from 0 to 1");
  EXPECT_EQ(FaultOf([] {
              Of({{"n", "inf"}}).Float("n", 0, kMost, 0);
            }),
            "param 'n' is 'inf': expected a number of at least 0");
  EXPECT_EQ(FaultOf([] {
              Of({{"c", "nchw"}}).Choice("c", {"NCHW", "NHWC"}, "NCHW");
            }),
            "param 'c' is 'nchw': expected one of NCHW, NHWC");
  EXPECT_EQ(FaultOf([] {
              Of({}).Choice("c", {"NCHW", "NHWC"});
            }),
            "param 'c' is missing: expected one of NCHW, NHWC");
}

TEST(Params, NothingIsSkippedInSilence) {
  Params params = Of({{"a", "12px"}, {"b", "abc"}, {"c", "yes"}, {"d", "[x]"}, {"e", "1"}, {"good", "1"}});
  params.FindInt("a");
  params.FindInt("b");
  params.Flag("c");
  params.FindFloats("d");
  params.FindInt("good");
  EXPECT_THAT(params.Warnings(),
              ElementsAre("param 'a' is '12px', which is read as '12'",
                          "param 'b' is 'abc', which has no number: it counts as not given",
                          "param 'c' is 'yes', which is not 'true' and so counts as false",
                          "param 'd' is '[x]', not a list like '[1, 2.5, 3]': it counts as not given",
                          "param 'e' is unknown and has no effect"));
}

}  // namespace
}  // namespace braid::custom_nodes
