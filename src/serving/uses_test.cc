#include "serving/uses.h"

#include <gtest/gtest.h>

#include <map>

namespace braid {
namespace {

TEST(Uses, FindsCycles) {
  const std::map<std::string, std::vector<std::string>> all = {{"x", {"a", "y"}}, {"y", {"z"}}, {"z", {"x"}},
                                                               {"w", {"x"}},      {"a", {}},    {"s", {"s"}}};
  const UsesOf uses = [&all](const std::string& name) {
    const auto found = all.find(name);
    return found == all.end() ? std::vector<std::string>() : found->second;
  };
  EXPECT_EQ(FindCycle(uses, "x"), "x -> y -> z -> x");
  EXPECT_EQ(FindCycle(uses, "z"), "z -> x -> y -> z");
  EXPECT_EQ(FindCycle(uses, "s"), "s -> s");
  EXPECT_EQ(FindCycle(uses, "w"), "");
  EXPECT_EQ(FindCycle(uses, "a"), "");
  EXPECT_EQ(FindCycle(uses, "unknown"), "");
}

}  // namespace
}  // namespace braid
