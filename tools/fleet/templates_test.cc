#include "fleet/templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace braid::fleet {
namespace {

std::string Filled(std::string_view whole, const Json& values) {
  return DumpJson(
      Templates(R"({"part":{"a":"$x"},"whole":)" + std::string(whole) + "}").Fill("whole", values));
}

TEST(Templates, FillInValuesOfAnyKind) {
  EXPECT_EQ(Filled(R"(["$x", "${y}-${y}", "@part", "x"])", {{"x", 3}, {"y", "b"}}),
            R"([3,"b-b",{"a":3},"x"])");
}

TEST(Templates, LeaveOutWhatDoesNotHold) {
  const char* const part = R"({"[x] a": 1, "[!x] b": 2, "[x !y] c": 3})";
  EXPECT_EQ(Filled(part, {{"x", true}}), R"({"a":1,"c":3})");
  EXPECT_EQ(Filled(part, {{"x", ""}, {"y", true}}), R"({"b":2})");
}

TEST(Templates, RepeatElements) {
  const Json values = {{"x", "out"}, {"list", {{{"x", "in"}}, {{"z", 1}}}}, {"words", {"p", "q"}}};
  EXPECT_EQ(Filled(R"([{"[*list]": "$x"}])", values), R"(["in","out"])");
  EXPECT_EQ(Filled(R"([{"[*words]": ["$item", "-"]}, {"[*none]": "$item"}])", values),
            R"(["p","-","q","-"])");
}

// A value is inserted as it is, even if it looks like a template.
TEST(Templates, FillInValuesOnce) {
  EXPECT_EQ(Filled(R"(["$x", "<${x}>"])", {{"x", "${y}@part"}}), R"(["${y}@part","<${y}@part>"])");
}

TEST(Templates, RefuseAnUnfinishedPlaceholder) {
  EXPECT_THROW(Filled(R"(["<${x"])", {{"x", 1}}), std::invalid_argument);
}

}  // namespace
}  // namespace braid::fleet
