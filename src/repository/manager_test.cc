// Model folders and a config.json together: how changes of one affect the other.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "config/testing/scratch_folder.h"
#include "repository/manager.h"
#include "repository/testing/fake_config.h"
#include "repository/testing/fake_manager.h"

namespace braid {
namespace {

using testing::FakeBackend;
using testing::FakeConfigMakers;
using testing::FakeFactory;

constexpr int64_t kSecondNs = 1000000000;

class ManagerTest : public ::testing::Test {
 protected:
  ManagerTest() {
    std::filesystem::create_directories(scratch_ / "models");
    std::filesystem::create_directories(scratch_ / "tmp");
    options_.model_repositories = {scratch_ / "models"};
    options_.temporary_directory = scratch_ / "tmp";
    for (const LogLevel level : {LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
      log_.set_enabled(level, false);
    }
  }
  ~ManagerTest() override {
    if (manager_ == nullptr) return;
    EXPECT_TRUE(manager_->Shutdown(SteadyNowNs() + 5 * kSecondNs).ok());
  }

  void AddModel(const std::string& name, std::string_view code = "pass") {
    scratch_.Write("models/" + name + "/config.pbtxt", "backend: 'python'");
    scratch_.Write("models/" + name + "/1/model.py", code);
  }
  void AddEnsemble(const std::string& name, const std::vector<std::string>& models) {
    std::string text = "platform: 'ensemble' ensemble_scheduling {";
    for (const std::string& model : models) text += " step { model_name: '" + model + "' model_version: -1 }";
    scratch_.Write("models/" + name + "/config.pbtxt", text + " }");
    std::filesystem::create_directories(scratch_ / ("models/" + name + "/1"));
  }
  // Writes a config.json with these models, each in the folder "{name}{generation}", and with pipelines of
  // one node.
  void WriteConfig(const std::vector<std::string>& models,
                   const std::vector<std::pair<std::string, std::string>>& pipelines = {},
                   int generation = 1) {
    std::string list;
    for (const std::string& model : models) {
      const std::string folder = model + std::to_string(generation);
      scratch_.Write(folder + "/1/model.xml", "net");
      list += std::string(list.empty() ? "" : ", ") + R"({"config": {"name": ")" + model +
              R"(", "base_path": ")" + folder + "\"}}";
    }
    std::string entries;
    for (const auto& [pipeline, model] : pipelines) {
      entries +=
          std::string(entries.empty() ? "" : ", ") + R"({"name": ")" + pipeline +
          R"(", "inputs": [], "outputs": [], "nodes": [{"name": "n", "type": "DL model", "model_name": ")" +
          model + R"(", "inputs": [], "outputs": []}]})";
    }
    scratch_.Write("config.json",
                   R"({"model_config_list": [)" + list + R"(], "pipeline_config_list": [)" + entries + "]}");
  }

  Status Start() {
    ManagerOptions options;
    options.folders = options_;
    options.config.emplace();
    options.config->config_path = scratch_ / "config.json";
    options.config->poll_seconds = 0;
    options.exit_timeout_seconds = 5;
    manager_ = std::make_unique<Manager>(
        options, catalog_, testing::FakeFolderMakers(catalog_, backend_, factory_), makers_.Makers(), log_);
    return testing::StartStrictly(*manager_);
  }
  void Reload() {
    const auto reloaded = manager_->Reload();
    EXPECT_TRUE(reloaded.ok()) << reloaded.status();
  }

  // The ready servables, for example "a b".
  std::string Ready() const {
    std::string ready;
    for (const auto& servable : catalog_.All()) ready += (ready.empty() ? "" : " ") + servable->info().name;
    return ready;
  }
  std::string ReasonOf(const std::string& name) const {
    for (const IndexEntry& entry : catalog_.Index(false)) {
      if (entry.name == name) return entry.reason;
    }
    return "nothing";
  }
  // How often a load of a repository's model or ensemble has begun.
  int Starts(const std::string& name) const { return factory_.journal.Count("start " + name + ":1"); }
  int PipelineStarts(const std::string& name) const { return makers_.journal.Count("start " + name); }

  testing::ScratchFolder scratch_;
  Logger log_;
  Catalog catalog_;
  FakeBackend backend_;
  FakeFactory factory_;
  FakeConfigMakers makers_{catalog_};
  FolderOptions options_;
  std::unique_ptr<Manager> manager_;
};

TEST_F(ManagerTest, EnsemblesOverModelsAndPipelinesOfTheConfigAreThereAtTheStart) {
  AddModel("own");
  AddEnsemble("over_model", {"own", "theirs"});
  AddEnsemble("a_outer", {"over_model"});
  AddEnsemble("over_pipeline", {"p"});
  WriteConfig({"theirs"}, {{"p", "theirs"}, {"over_ensemble", "a_outer"}});
  EXPECT_TRUE(Start().ok());
  EXPECT_EQ(Ready(), "a_outer over_ensemble over_model over_pipeline own p theirs");
  // Each was made once: no try had to fail.
  for (const char* name : {"own", "over_model", "a_outer", "over_pipeline"})
    EXPECT_EQ(Starts(name), 1) << name;
  for (const char* name : {"p", "over_ensemble"}) EXPECT_EQ(PipelineStarts(name), 1) << name;
  EXPECT_TRUE(manager_->server_ready());
}

TEST_F(ManagerTest, PipelinesAndEnsemblesOverEachOtherComeRight) {
  AddEnsemble("e1", {"m"});
  AddEnsemble("e2", {"a1"});
  AddEnsemble("e3", {"a2"});
  WriteConfig({"m"}, {{"a1", "e1"}, {"a2", "e2"}, {"a3", "e3"}});
  EXPECT_TRUE(Start().ok());
  EXPECT_EQ(Ready(), "a1 a2 a3 e1 e2 e3 m");
}

TEST_F(ManagerTest, AStepThatIsNowhereFailsTheStart) {
  AddModel("own");
  AddEnsemble("e", {"own", "nowhere"});
  AddEnsemble("fits", {"theirs"});
  AddEnsemble("outer", {"e"});
  WriteConfig({"theirs"});
  EXPECT_TRUE(Start().message().starts_with("failed to load all models\n"));
  EXPECT_EQ(Ready(), "fits own theirs");
  EXPECT_EQ(ReasonOf("e"),
            "Invalid argument: ensemble 'e' depends on 'nowhere' which has no loaded version.");
  EXPECT_EQ(
      ReasonOf("outer"),
      "Invalid argument: ensemble 'outer' depends on 'e' which has no loaded version. Model 'e' loading "
      "failed with error: version 1 is at UNAVAILABLE state: Invalid argument: ensemble 'e' depends on "
      "'nowhere' which has no loaded version.;");
  EXPECT_EQ(Starts("e"), 1);
  EXPECT_EQ(Starts("own"), 1);
  EXPECT_EQ(ReasonOf("nowhere"), "nothing");
}

TEST_F(ManagerTest, AnEnsembleThatIsWrongInItselfFailsTheStart) {
  AddEnsemble("e", {"theirs"});
  scratch_.Write("models/e/config.pbtxt",
                 "platform: 'ensemble' input { name: 'X' } ensemble_scheduling { step { model_name: 'theirs' "
                 "model_version: -1 } }");
  WriteConfig({"theirs"});
  EXPECT_TRUE(Start().message().starts_with("failed to load all models\n"));
  EXPECT_EQ(Ready(), "theirs");
}

TEST_F(ManagerTest, AFailureElsewhereStillFailsTheStart) {
  AddModel("bad");
  AddEnsemble("e", {"theirs"});
  WriteConfig({"theirs"});
  factory_.set_before([](const ServableInfo& info, const ModelLocation&, const FakeFactory::Progress&) {
    return info.name == "bad" ? InternalError("no luck") : OkStatus();
  });
  EXPECT_TRUE(Start().message().starts_with("failed to load all models\n"));
  EXPECT_EQ(Ready(), "e theirs");
}

TEST_F(ManagerTest, AReloadThatReplacesTheStepMakesTheEnsembleAnew) {
  AddEnsemble("e", {"theirs"});
  AddEnsemble("outer", {"e"});
  WriteConfig({"theirs"}, {{"p", "outer"}});
  ASSERT_TRUE(Start().ok());
  Reload();
  EXPECT_EQ(Starts("e"), 1);
  WriteConfig({"theirs"}, {{"p", "outer"}}, 2);
  Reload();
  EXPECT_EQ(Starts("e"), 2);
  EXPECT_EQ(Starts("outer"), 2);
  EXPECT_EQ(PipelineStarts("p"), 2);
  EXPECT_EQ(Ready(), "e outer p theirs");
}

TEST_F(ManagerTest, AnEnsembleStaysWhenItsStepGoesAndIsMadeAnewWhenItIsBack) {
  AddEnsemble("e", {"theirs"});
  WriteConfig({"theirs"});
  ASSERT_TRUE(Start().ok());
  WriteConfig({});
  Reload();
  EXPECT_EQ(Ready(), "e");
  EXPECT_EQ(Starts("e"), 1);
  WriteConfig({"theirs"});
  Reload();
  EXPECT_EQ(Ready(), "e theirs");
  EXPECT_EQ(Starts("e"), 2);
}

TEST_F(ManagerTest, AReloadThatBringsTheStepBringsTheEnsemble) {
  AddEnsemble("e", {"late"});
  WriteConfig({}, {{"p", "e"}});
  EXPECT_FALSE(Start().ok());
  EXPECT_EQ(Ready(), "");
  WriteConfig({"late"}, {{"p", "e"}});
  Reload();
  EXPECT_EQ(Ready(), "e late p");
}

TEST_F(ManagerTest, AModelOfTheRepositoryMakesPipelinesAnewAndEnsemblesOverThem) {
  options_.control_mode = ControlMode::kExplicit;
  options_.startup_models = {"e", "own"};
  AddModel("own");
  AddEnsemble("e", {"p"});
  WriteConfig({}, {{"p", "own"}});
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Ready(), "e own p");
  AddModel("own", "changed, and longer");
  ASSERT_TRUE(manager_->Load({"own", {}, {}}).ok());
  const int64_t deadline = SteadyNowNs() + 20 * kSecondNs;
  while (Starts("e") < 2 && SteadyNowNs() < deadline) std::this_thread::yield();
  EXPECT_EQ(Starts("e"), 2);
}

TEST_F(ManagerTest, ALoadRequestTakesStepsOfTheConfigAsTheyAre) {
  options_.control_mode = ControlMode::kExplicit;
  AddModel("own");
  AddEnsemble("e", {"own", "theirs"});
  WriteConfig({"theirs"});
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(manager_->Load({"e", {}, {}}).ok());
  EXPECT_EQ(Ready(), "e own theirs");
  EXPECT_EQ(Starts("theirs"), 0);
  ASSERT_TRUE(manager_->Unload("e", true, {}).ok());
  EXPECT_EQ(Ready(), "theirs");
  // Unloaded models do not come back by themselves.
  WriteConfig({"theirs"}, {}, 2);
  Reload();
  EXPECT_EQ(Ready(), "theirs");
}

TEST_F(ManagerTest, PollingBeginsWhenEverythingIsLoaded) {
  options_.control_mode = ControlMode::kPoll;
  options_.poll_seconds = 3600;
  AddEnsemble("e", {"theirs"});
  WriteConfig({"theirs"});
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Ready(), "e theirs");
  manager_->ScanFolders();
  EXPECT_EQ(Starts("e"), 1);
}

TEST_F(ManagerTest, AStartThatCannotReadItsRepositoryIsNotFinished) {
  options_.model_repositories = {scratch_ / "none"};
  WriteConfig({"theirs"});
  EXPECT_EQ(Start().code(), StatusCode::kNotFound);
  EXPECT_EQ(Ready(), "theirs");
  EXPECT_TRUE(manager_->serving());
  EXPECT_FALSE(manager_->server_ready());
}

}  // namespace
}  // namespace braid
