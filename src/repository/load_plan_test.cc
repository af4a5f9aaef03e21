#include "repository/load_plan.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>

#include "config/testing/scratch_folder.h"

namespace braid {
namespace {

class LoadPlanTest : public ::testing::Test {
 protected:
  LoadPlanTest() {
    std::filesystem::create_directories(scratch_ / "models");
    std::filesystem::create_directories(scratch_ / "tmp");
    for (const LogLevel level : {LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
      log_.set_enabled(level, false);
    }
  }

  // A write must be detected even if the file system's clock has not advanced.
  void Write(const std::string& file, std::string_view text) {
    scratch_.Write("models/" + file, text);
    struct timespec times[2] = {};
    times[0].tv_sec = times[1].tv_sec = 1000000 + ++writes_;
    ::utimensat(AT_FDCWD, (scratch_ / ("models/" + file)).c_str(), times, 0);
  }
  Result<LoadPlan> Plan(const LoadRequest& request) {
    BRAID_ASSIGN_OR_RETURN(ModelSource source, reader_.Open(request));
    return MakeLoadPlan(reader_, request, std::move(source), log_);
  }
  LoadPlan PlanOf(const std::string& model, std::optional<std::string> config = {}) {
    auto plan = Plan({model, std::move(config), {}});
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return std::move(plan).value();
  }

  testing::ScratchFolder scratch_;
  int writes_ = 0;
  Logger log_;
  const ModelFolders folders_{{scratch_ / "models"}};
  SourceReader reader_{
      {.model_config_name = "", .auto_complete = true, .temporary_directory = scratch_ / "tmp"}, folders_};
};

TEST_F(LoadPlanTest, KeysTellWhichVersionsHaveChanged) {
  Write("m/config.pbtxt", "backend: 'python' version_policy { all {} }");
  Write("m/1/model.py", "");
  Write("m/2/model.py", "");
  const LoadPlan before = PlanOf("m");
  EXPECT_EQ(before.keys.size(), 2u);
  EXPECT_EQ(PlanOf("m").keys, before.keys);
  EXPECT_EQ(PlanOf("m").fingerprint, before.fingerprint);

  Write("m/2/model.py", "changed");
  const LoadPlan changed = PlanOf("m");
  EXPECT_EQ(changed.keys.at(1), before.keys.at(1));
  EXPECT_NE(changed.keys.at(2), before.keys.at(2));
  EXPECT_NE(changed.fingerprint, before.fingerprint);

  Write("m/labels.txt", "");
  EXPECT_NE(PlanOf("m").keys.at(1), before.keys.at(1));
}

TEST_F(LoadPlanTest, TheVersionPolicyIsNoPartOfAKeyAndTheRestOfTheConfigurationIs) {
  Write("m/config.pbtxt", "backend: 'python'");
  Write("m/1/model.py", "");
  Write("m/2/model.py", "");
  const LoadPlan latest = PlanOf("m");
  EXPECT_EQ(latest.keys.size(), 1u);
  const LoadPlan both = PlanOf("m", R"({"backend": "python", "version_policy": {"all": {}}})");
  EXPECT_EQ(both.keys.at(2), latest.keys.at(2));
  const LoadPlan batched = PlanOf("m", R"({"backend": "python", "max_batch_size": 2})");
  EXPECT_NE(batched.keys.at(2), latest.keys.at(2));
}

TEST_F(LoadPlanTest, FilesOfARequestAreNeverTheSameAsAnyBefore) {
  const LoadRequest request{"m", R"({"backend": "python"})", {{"1/model.py", "code"}}};
  const auto first = Plan(request);
  const auto second = Plan(request);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->source.temporary_files, nullptr);
  EXPECT_NE(first->source.request_number, second->source.request_number);
  EXPECT_NE(first->keys.at(1), second->keys.at(1));
}

TEST_F(LoadPlanTest, WhatAnEnsembleIsMadeOfIsAPartOfItsKeys) {
  Write("e/config.pbtxt",
        "platform: 'ensemble' ensemble_scheduling { step { model_name: 'm' model_version: -1 } }");
  std::filesystem::create_directories(scratch_ / "models/e/1");
  LoadPlan plan = PlanOf("e");
  EXPECT_EQ(plan.uses, (std::set<ServableUse>{{"m", -1}}));
  EXPECT_EQ(plan.source.config.backend(), "");
  LoadPlan other = PlanOf("e");
  plan.SetUsesKey(1);
  EXPECT_EQ(plan.uses_key, 1u);
  EXPECT_NE(plan.keys, other.keys);
  other.SetUsesKey(2);
  EXPECT_NE(plan.keys, other.keys);
}

TEST_F(LoadPlanTest, AModelWithoutAConfigurationGetsItsNameAndItsBackend) {
  Write("m/1/model.py", "");
  const LoadPlan plan = PlanOf("m");
  EXPECT_EQ(plan.source.config.name(), "m");
  EXPECT_EQ(plan.source.config.backend(), "python");
  EXPECT_EQ(plan.source.request_number, 0u);
  EXPECT_TRUE(plan.uses.empty());
}

TEST_F(LoadPlanTest, WhatCannotBeReadUsesNothingAndItsPlanSaysWhy) {
  Write("m/config.pbtxt", "no such field: 1");
  const LoadRequest request{"m", {}, {}};
  EXPECT_EQ(reader_.ModelsUsed(request), std::set<std::string>());
  EXPECT_NE(Plan(request).status().message().find("config.pbtxt:1:"), std::string::npos);
  EXPECT_EQ(reader_.Open({"nowhere", {}, {}}).status().code(), StatusCode::kNotFound);
  Write("other/config.pbtxt", "name: 'm' backend: 'python'");
  EXPECT_FALSE(Plan({"other", {}, {}}).ok());
  EXPECT_FALSE(Plan({"other", R"({"backend":)", {}}).ok());
}

TEST_F(LoadPlanTest, ARequestsConfigurationSaysWhatTheModelWouldUse) {
  Write("e/config.pbtxt", "platform: 'ensemble' ensemble_scheduling { step { model_name: 'm' } }");
  EXPECT_EQ(reader_.ModelsUsed({"e", {}, {}}), std::set<std::string>{"m"});
  EXPECT_EQ(
      reader_.ModelsUsed(
          {"e", R"({"platform": "ensemble", "ensemble_scheduling": {"step": [{"model_name": "n"}]}})", {}}),
      std::set<std::string>{"n"});
  EXPECT_EQ(reader_.ModelsUsed({"e", "{", {}}), std::set<std::string>());
}

}  // namespace
}  // namespace braid
