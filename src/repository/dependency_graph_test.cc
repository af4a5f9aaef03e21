#include "repository/dependency_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using ::testing::ElementsAre;

TEST(Dependencies, WhatIsUsedComesFirst) {
  EXPECT_THAT(
      LoadOrder({{"e", {"a", "inner"}}, {"inner", {"b"}}, {"a", {}}, {"b", {}}, {"lone", {"elsewhere"}}}),
      ElementsAre(ElementsAre("a", "b", "lone"), ElementsAre("inner"), ElementsAre("e")));
  EXPECT_THAT(LoadOrder({{"a", {}}, {"x", {"y"}}, {"y", {"x"}}, {"z", {"y"}}}),
              ElementsAre(ElementsAre("a"), ElementsAre("x", "y", "z")));
}

TEST(Dependencies, FollowsUsesToTheirEnd) {
  const Dependencies uses = {{"e", {"a", "inner"}}, {"inner", {"b", "e"}}};
  EXPECT_THAT(UsedBy(uses, "e"), ElementsAre("a", "b", "inner"));
  EXPECT_THAT(UsedBy(uses, "a"), ElementsAre());
}

class DependencyGraphTest : public ::testing::Test {
 protected:
  using Uses = DependencyGraph::Uses;

  static Uses Of(const std::set<std::string>& names) {
    Uses uses;
    for (const std::string& name : names) uses.insert({name, -1});
    return uses;
  }
  DependencyGraph::BuildOf Builds() const {
    return [this](const ServableUse& use) -> std::optional<uint64_t> {
      const auto build = builds_.find(use.name);
      if (build == builds_.end()) return std::nullopt;
      return build->second;
    };
  }
  uint64_t KeyOf(const std::set<std::string>& names) const {
    return DependencyGraph::KeyOf(Of(names), Builds());
  }
  void Make(const std::string& name, const std::set<std::string>& uses) {
    graph_.Made(name, Of(uses), KeyOf(uses));
  }
  // For a serving node: it is due, and all of its dependencies serve.
  bool IsStale(const std::string& name) const {
    return graph_.IsDue(name, true, Builds()) && DependencyGraph::AllServe(*graph_.UsesOf(name), Builds());
  }
  // The same for a node that does not serve.
  bool IsWanted(const std::string& name) const {
    return graph_.IsDue(name, false, Builds()) && DependencyGraph::AllServe(*graph_.UsesOf(name), Builds());
  }

  std::map<std::string, uint64_t> builds_;
  DependencyGraph graph_;
};

TEST_F(DependencyGraphTest, AnEnsembleIsStaleWhenAModelOfItIsAnotherBuild) {
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

TEST_F(DependencyGraphTest, BuildsThatChangePlacesAreOthers) {
  builds_ = {{"m", 1}, {"n", 2}};
  Make("e", {"m", "n"});
  builds_ = {{"m", 2}, {"n", 1}};
  EXPECT_TRUE(IsStale("e"));
}

TEST_F(DependencyGraphTest, IsNotStaleWhileAModelOfItIsGone) {
  builds_ = {{"m", 1}, {"n", 1}};
  Make("e", {"m", "n"});
  builds_ = {{"m", 2}};
  EXPECT_FALSE(IsStale("e"));
  builds_ = {{"m", 1}, {"n", 1}};
  EXPECT_FALSE(IsStale("e"));
}

TEST_F(DependencyGraphTest, EachStateOfTheModelsIsTriedOnce) {
  builds_ = {{"m", 1}};
  Make("e", {"m"});
  builds_["m"] = 2;
  graph_.NoteTried("e", Builds());
  EXPECT_FALSE(IsStale("e"));
  builds_["m"] = 3;
  EXPECT_TRUE(IsStale("e"));
}

TEST_F(DependencyGraphTest, WhatIsWantedIsDueOnceWhenAllThatItUsesIsThere) {
  graph_.Want("e", Of({"m", "n"}), std::nullopt);
  ASSERT_NE(graph_.UsesOf("e"), nullptr);
  EXPECT_EQ(*graph_.UsesOf("e"), Of({"m", "n"}));
  EXPECT_EQ(graph_.UsesOf("f"), nullptr);
  // It was never made.
  EXPECT_EQ(graph_.AllMade(), Dependencies());
  EXPECT_EQ(graph_.All(), (Dependencies{{"e", {"m", "n"}}}));
  builds_ = {{"m", 1}};
  EXPECT_FALSE(IsWanted("e"));
  // A pipeline is tried even then, because its error names the missing model.
  EXPECT_TRUE(graph_.IsDue("e", false, Builds()));
  builds_ = {{"m", 1}, {"n", 1}};
  EXPECT_TRUE(IsWanted("e"));
  EXPECT_EQ(graph_.NoteTried("e", Builds()), KeyOf({"m", "n"}));
  EXPECT_FALSE(IsWanted("e"));
  builds_["n"] = 2;
  EXPECT_TRUE(IsWanted("e"));
}

TEST_F(DependencyGraphTest, WhatHasFailedWithTheBuildsThatThereAreIsNotDue) {
  builds_ = {{"m", 1}};
  graph_.Want("e", Of({"m"}), KeyOf({"m"}));
  EXPECT_FALSE(IsWanted("e"));
  builds_["m"] = 2;
  EXPECT_TRUE(IsWanted("e"));
}

TEST_F(DependencyGraphTest, WhatWasMadeAndDoesNotServeIsTriedWhenItIsWantedAgain) {
  builds_ = {{"m", 1}};
  Make("e", {"m"});
  graph_.Want("e", Of({"m"}), std::nullopt);
  EXPECT_TRUE(IsWanted("e"));
  EXPECT_FALSE(IsStale("e"));
}

TEST_F(DependencyGraphTest, IsDueUntilItIsMadeOrForgotten) {
  graph_.Want("e", Of({"m"}), std::nullopt);
  graph_.Want("g", Of({"m"}), std::nullopt);
  builds_ = {{"m", 1}};
  Make("e", {"m"});
  graph_.Forget("g");
  for (const char* name : {"e", "g"}) EXPECT_FALSE(graph_.IsDue(name, true, Builds())) << name;
}

TEST_F(DependencyGraphTest, TheVersionThatIsUsedCounts) {
  builds_ = {{"m", 1}};
  EXPECT_NE(DependencyGraph::KeyOf({{"m", 1}}, Builds()), DependencyGraph::KeyOf({{"m", 2}}, Builds()));
}

TEST_F(DependencyGraphTest, KnowsWhoUsesWhat) {
  Make("e", {"m"});
  Make("f", {"e"});
  Make("m", {});
  EXPECT_EQ(graph_.AllMade(), (Dependencies{{"e", {"m"}}, {"f", {"e"}}}));
  EXPECT_EQ(*graph_.UsesOf("e"), Of({"m"}));
  EXPECT_EQ(graph_.UsesOf("m"), nullptr);
  EXPECT_TRUE(graph_.IsMadeOf("m", 0));
  EXPECT_TRUE(graph_.IsMadeOf("e", KeyOf({"m"})));
  EXPECT_FALSE(graph_.IsMadeOf("e", 0));
  // It no longer is an ensemble.
  Make("f", {});
  graph_.Forget("e");
  EXPECT_EQ(graph_.All(), Dependencies());
}

}  // namespace
}  // namespace braid
