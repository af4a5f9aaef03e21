#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/guard.h"
#include "base/testing/failing_allocation.h"

namespace braid {
namespace {

TEST(JsonTest, WritesWhatItHasRead) {
  const std::string text = R"({"b":[1,-2,0.5,true,null,"x"],"a":{"c":18446744073709551615}})";
  EXPECT_EQ(DumpJson(ParseJson(text)), text);
  EXPECT_EQ(DumpJson(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

TEST(JsonTest, WhatIsNoJsonIsDiscardedOrExplained) {
  EXPECT_TRUE(ParseJson(R"({"a":)").is_discarded());
  const Result<Json> checked = CheckedJson("[1,}");
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(checked.status().message(), testing::HasSubstr("line 1, column 4"));
  EXPECT_EQ(*CheckedJson("[1]"), Json::array({1}));
}

// Values are copied and written by recursion, so a deep text from a worker or another server could end the
// process.
TEST(JsonTest, NestingIsBounded) {
  const auto nested = [](size_t levels) {
    const std::string brackets = R"(["]]\"",)";
    std::string text;
    for (size_t i = 0; i < levels; ++i) text += brackets;
    return text + "0" + std::string(levels, ']');
  };
  EXPECT_EQ(DumpJson(ParseJson(nested(kMaxJsonNesting))), nested(kMaxJsonNesting));
  EXPECT_TRUE(ParseJson(nested(kMaxJsonNesting + 1)).is_discarded());
  EXPECT_TRUE(ParseJson(std::string(1'000'000, '[')).is_discarded());
  EXPECT_EQ(CheckedJson(nested(kMaxJsonNesting + 1)).status(),
            InvalidArgumentError("the JSON is nested more than 128 levels deep"));
}

// Nested deep enough that the destructor's list of remaining values grows several times.
Json Nested() {
  Json value = Json::object();
  for (int i = 0; i < 5; ++i) value = Json{{"list", Json::array({i, value, value})}, {"text", "x"}};
  return value;
}

TEST(JsonTest, AFailedAllocationInADestructorIsTriedAgain) {
  int failures = 0;
  for (int before = 0, failed = 1; failed > 0; ++before) {
    std::optional<Json> value(Nested());
    FailingAllocation failing(before, 1);
    value.reset();
    failed = failing.Stop();
    failures += failed;
  }
  EXPECT_GT(failures, 2);
}

TEST(JsonTest, AFailedAllocationElsewhereIsAnException) {
  const std::string text = DumpJson(Nested());
  int failures = 0;
  int thrown = 0;
  for (int before = 0, failed = 1; failed > 0; before += 7) {
    FailingAllocation failing(before, 1);
    thrown += Guarded([&] { ParseJson(text); }).ok() ? 0 : 1;
    failed = failing.Stop();
    failures += failed;
  }
  EXPECT_GT(failures, 10);
  EXPECT_GT(thrown, 10);
}

}  // namespace
}  // namespace braid
