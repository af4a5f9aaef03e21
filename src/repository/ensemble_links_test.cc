#include "repository/ensemble_links.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

class EnsembleLinksTest : public ::testing::Test {
 protected:
  EnsembleLinks::BuildOf Builds() const {
    return [this](const std::string& model) -> std::optional<uint64_t> {
      const auto build = builds_.find(model);
      if (build == builds_.end()) return std::nullopt;
      return build->second;
    };
  }
  void Make(const std::string& name, const std::set<std::string>& uses) {
    links_.Made(name, uses, EnsembleLinks::KeyOf(uses, Builds()));
  }
  bool IsStale(const std::string& name) const { return links_.IsStale(name, Builds()); }

  std::map<std::string, uint64_t> builds_;
  EnsembleLinks links_;
};

TEST_F(EnsembleLinksTest, AnEnsembleIsStaleWhenAModelOfItIsAnotherBuild) {
  builds_ = {{"m", 1}, {"n", 1}, {"other", 1}};
  Make("e", {"m", "n"});
  EXPECT_FALSE(IsStale("e"));
  builds_["other"] = 2;
  EXPECT_FALSE(IsStale("e"));
  builds_["n"] = 2;
  EXPECT_TRUE(IsStale("e"));
  Make("e", {"m", "n"});
  EXPECT_FALSE(IsStale("e"));
}

TEST_F(EnsembleLinksTest, BuildsThatChangePlacesAreOthers) {
  builds_ = {{"m", 1}, {"n", 2}};
  Make("e", {"m", "n"});
  builds_ = {{"m", 2}, {"n", 1}};
  EXPECT_TRUE(IsStale("e"));
}

TEST_F(EnsembleLinksTest, IsNotStaleWhileAModelOfItIsGone) {
  builds_ = {{"m", 1}, {"n", 1}};
  Make("e", {"m", "n"});
  builds_ = {{"m", 2}};
  EXPECT_FALSE(IsStale("e"));
  builds_ = {{"m", 1}, {"n", 1}};
  EXPECT_FALSE(IsStale("e"));
}

TEST_F(EnsembleLinksTest, EachStateOfTheModelsIsTriedOnce) {
  builds_ = {{"m", 1}};
  Make("e", {"m"});
  builds_["m"] = 2;
  links_.NoteTried("e", Builds());
  EXPECT_FALSE(IsStale("e"));
  builds_["m"] = 3;
  EXPECT_TRUE(IsStale("e"));
}

TEST_F(EnsembleLinksTest, WhatWaitsIsDueOnceWhenAllThatItUsesIsThere) {
  const LoadRequest request{"e", "{}", {}};
  links_.Wait(request, {"m", "n"}, std::nullopt);
  EXPECT_TRUE(links_.IsUntried("e"));
  ASSERT_NE(links_.AwaitedBy("e"), nullptr);
  EXPECT_EQ(*links_.AwaitedBy("e"), (std::set<std::string>{"m", "n"}));
  EXPECT_EQ(links_.AwaitedBy("f"), nullptr);
  // Nobody has made it of anything yet.
  EXPECT_EQ(links_.uses(), Dependencies());
  EXPECT_FALSE(IsStale("e"));
  builds_ = {{"m", 1}};
  EXPECT_EQ(links_.TakeDue("e", Builds()), std::nullopt);
  builds_ = {{"m", 1}, {"n", 1}};
  const auto due = links_.TakeDue("e", Builds());
  ASSERT_TRUE(due.has_value());
  EXPECT_EQ(due->model_name, "e");
  EXPECT_EQ(due->config_json, "{}");
  EXPECT_FALSE(links_.IsUntried("e"));
  EXPECT_EQ(links_.TakeDue("e", Builds()), std::nullopt);
  builds_["n"] = 2;
  EXPECT_TRUE(links_.TakeDue("e", Builds()).has_value());
}

TEST_F(EnsembleLinksTest, WhatHasFailedWithTheBuildsThatThereAreIsNotDue) {
  builds_ = {{"m", 1}};
  links_.Wait({"e", {}, {}}, {"m"}, EnsembleLinks::KeyOf({"m"}, Builds()));
  EXPECT_FALSE(links_.IsUntried("e"));
  EXPECT_EQ(links_.TakeDue("e", Builds()), std::nullopt);
  builds_["m"] = 2;
  EXPECT_TRUE(links_.TakeDue("e", Builds()).has_value());
}

TEST_F(EnsembleLinksTest, WaitsUntilItIsMadeOrNotWanted) {
  links_.Wait({"e", {}, {}}, {"m"}, std::nullopt);
  links_.Wait({"f", {}, {}}, {"m"}, std::nullopt);
  links_.Wait({"g", {}, {}}, {"m"}, std::nullopt);
  builds_ = {{"m", 1}};
  Make("e", {"m"});
  links_.StopWaiting("f");
  links_.Forget("g");
  for (const char* name : {"e", "f", "g"}) EXPECT_EQ(links_.AwaitedBy(name), nullptr) << name;
}

TEST_F(EnsembleLinksTest, KnowsWhoUsesWhat) {
  Make("e", {"m"});
  Make("f", {"e"});
  Make("m", {});
  EXPECT_EQ(links_.uses(), (Dependencies{{"e", {"m"}}, {"f", {"e"}}}));
  EXPECT_EQ(links_.UsesOf("e"), std::set<std::string>{"m"});
  EXPECT_EQ(links_.UsesOf("m"), std::set<std::string>());
  EXPECT_TRUE(links_.IsMadeOf("m", 0));
  EXPECT_TRUE(links_.IsMadeOf("e", EnsembleLinks::KeyOf({"m"}, Builds())));
  EXPECT_FALSE(links_.IsMadeOf("e", 0));
  // It is no ensemble any longer.
  Make("f", {});
  links_.Forget("e");
  EXPECT_EQ(links_.uses(), Dependencies());
}

}  // namespace
}  // namespace braid
