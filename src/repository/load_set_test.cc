#include "repository/load_set.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

LoadRequest Plain(const std::string& name) { return {.model_name = name, .config_json = {}, .files = {}}; }

// Answers from two maps: `on_disk` has the dependencies of reloaded models, `kept` those of models that stay
// loaded.
LoadQuestions About(const Dependencies& on_disk, const Dependencies& kept) {
  return {[&on_disk](const LoadRequest& request) {
            if (request.config_json) return std::set<std::string>{*request.config_json};
            const auto found = on_disk.find(request.model_name);
            return found == on_disk.end() ? std::set<std::string>() : found->second;
          },
          [&kept](const std::string& model) -> std::optional<std::set<std::string>> {
            const auto found = kept.find(model);
            if (found == kept.end()) return std::nullopt;
            return found->second;
          }};
}

std::set<std::string> Names(const LoadSet& loads) {
  std::set<std::string> names;
  for (const auto& [name, request] : loads.requests) {
    EXPECT_EQ(request.model_name, name);
    names.insert(name);
  }
  return names;
}

TEST(LoadSet, HasWhatAModelUsesDirectlyOrNot) {
  const Dependencies disk = {{"e", {"inner", "m"}}, {"inner", {"n"}}, {"other", {"o"}}};
  const LoadSet loads = CollectLoads({Plain("e")}, About(disk, {}));
  EXPECT_EQ(Names(loads), (std::set<std::string>{"e", "inner", "m", "n"}));
  EXPECT_EQ(loads.uses, (Dependencies{{"e", {"inner", "m"}}, {"inner", {"n"}}, {"m", {}}, {"n", {}}}));
}

TEST(LoadSet, EndsWhereModelsUseEachOther) {
  const Dependencies disk = {{"a", {"b"}}, {"b", {"a"}}};
  EXPECT_EQ(Names(CollectLoads({Plain("a")}, About(disk, {}))), (std::set<std::string>{"a", "b"}));
}

TEST(LoadSet, AModelThatIsAskedForIsLoadedByTheRequestThatAsks) {
  const Dependencies disk = {{"e", {"m"}}, {"m", {"from disk"}}};
  LoadRequest with_config = Plain("m");
  with_config.config_json = std::string("n");
  const LoadSet loads = CollectLoads({Plain("e"), with_config}, About(disk, {{"m", {"from before"}}}));
  EXPECT_EQ(Names(loads), (std::set<std::string>{"e", "m", "n"}));
  EXPECT_EQ(loads.requests.at("m").config_json, "n");
}

TEST(LoadSet, WhatIsKeptIsNotLoadedButKnown) {
  const Dependencies disk = {{"e", {"inner"}}, {"inner", {"from disk"}}};
  const LoadSet loads = CollectLoads({Plain("e")}, About(disk, {{"inner", {"n"}}}));
  EXPECT_EQ(Names(loads), (std::set<std::string>{"e", "n"}));
  EXPECT_EQ(loads.uses.at("inner"), (std::set<std::string>{"n"}));
}

}  // namespace
}  // namespace braid
