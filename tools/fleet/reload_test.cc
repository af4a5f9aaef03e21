#include "fleet/reload.h"

#include <gtest/gtest.h>

namespace braid::fleet {
namespace {

TEST(Reload, HoldsWhileErrorsAreAsBefore) {
  EXPECT_TRUE(ErrorsHold({100, 0}, {0, 0}, 1));
  EXPECT_TRUE(ErrorsHold({100, 0}, {100, 1}, 1));
  EXPECT_FALSE(ErrorsHold({100, 0}, {100, 2}, 1));
  // One failure of few requests is not a rate.
  EXPECT_TRUE(ErrorsHold({0, 0}, {0, 1}, 1));
  EXPECT_FALSE(ErrorsHold({0, 0}, {0, 2}, 1));
  // Clients with a constant failure rate have it after a load, too.
  EXPECT_TRUE(ErrorsHold({90, 10}, {89, 11}, 1));
  EXPECT_FALSE(ErrorsHold({90, 10}, {80, 20}, 1));
  EXPECT_FALSE(ErrorsHold({100, 0}, {1000, 1}, 0));
}

ModelView View(std::vector<VersionView> versions, const std::string& config) {
  ModelView view;
  view.name = "m";
  view.versions = std::move(versions);
  view.config = ParseJson(config);
  return view;
}

TEST(Reload, KnowsWhatCanBeTakenBack) {
  const VersionView one{"1", "READY", ""};
  const VersionView two{"2", "READY", ""};
  const VersionView gone{"1", "UNAVAILABLE", "unloaded"};
  const ModelView before = View({one}, R"({"max_batch_size":8})");
  EXPECT_EQ(WayBackOf(before, View({gone, two}, R"({"max_batch_size":8})")), WayBack::kVersions);
  EXPECT_EQ(WayBackOf(before, View({one}, R"({"max_batch_size":4})")), WayBack::kConfig);
  EXPECT_EQ(WayBackOf(before, View({one}, R"({"max_batch_size":8})")), WayBack::kNone);
  // Without a previous configuration, as for a config.json, there is no way back.
  EXPECT_EQ(WayBackOf(View({one}, ""), View({two}, "")), WayBack::kNone);
  EXPECT_EQ(
      LoadBody(before, WayBack::kVersions),
      R"({"parameters":{"config":"{\"max_batch_size\":8,\"version_policy\":{\"specific\":{\"versions\":[1]}}}"}})");
  EXPECT_EQ(LoadBody(before, WayBack::kConfig), R"({"parameters":{"config":"{\"max_batch_size\":8}"}})");
}

}  // namespace
}  // namespace braid::fleet
