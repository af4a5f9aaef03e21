#include "repository/manager.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "config/testing/scratch_folder.h"
#include "repository/testing/door.h"
#include "repository/testing/fake_backend.h"
#include "repository/testing/fake_manager.h"

namespace braid {
namespace {

using testing::Door;
using testing::FakeBackend;
using testing::FakeFactory;
using testing::FakeServable;
using testing::ScratchFolder;

constexpr int64_t kSecondNs = 1000000000;
constexpr std::string_view kConfig =
    "backend: 'python' max_batch_size: 4 input { name: 'IN' data_type: TYPE_FP32 dims: [4] }";

// The first part of the error when 'm' cannot be read.
const std::string kFailedToPoll = "failed to load 'm', failed to poll from model repository: ";

class ManagerFoldersTest : public ::testing::Test {
 protected:
  ManagerFoldersTest() {
    options_.model_repositories = {scratch_ / "models"};
    options_.control_mode = ControlMode::kExplicit;
    options_.backend_directory = scratch_ / "backends";
    options_.temporary_directory = scratch_ / "tmp";
    std::filesystem::create_directories(scratch_ / "models");
    std::filesystem::create_directories(scratch_ / "tmp");
    log_.set_enabled(LogLevel::kInfo, false);
    log_.set_enabled(LogLevel::kWarning, false);
    log_.set_enabled(LogLevel::kError, false);
  }
  ~ManagerFoldersTest() override {
    if (manager_ == nullptr) return;
    EXPECT_TRUE(manager_->Shutdown(SteadyNowNs() + 5 * kSecondNs).ok());
  }

  // Adds a version of a model, and a configuration if it has none.
  void AddVersion(const std::string& model, const std::string& version, std::string_view code = "pass") {
    if (!std::filesystem::exists(scratch_ / ("models/" + model + "/config.pbtxt"))) Configure(model, kConfig);
    WriteNew("models/" + model + "/" + version + "/model.py", code);
  }
  void AddEnsemble(const std::string& model, std::string_view text) {
    Configure(model, text);
    std::filesystem::create_directories(scratch_ / ("models/" + model + "/1"));
  }
  void Configure(const std::string& model, std::string_view text) {
    WriteNew("models/" + model + "/config.pbtxt", text);
  }
  // A write must be detected even if the file system's clock has not advanced.
  void WriteNew(const std::string& file, std::string_view text) {
    scratch_.Write(file, text);
    struct timespec times[2] = {};
    times[0].tv_sec = times[1].tv_sec = 1000000 + ++writes_;
    ::utimensat(AT_FDCWD, (scratch_ / file).c_str(), times, 0);
  }

  Status Start() {
    ManagerOptions options;
    options.folders = options_;
    options.exit_timeout_seconds = 5;
    manager_ = std::make_unique<Manager>(
        options, catalog_, testing::FakeFolderMakers(catalog_, backend_, factory_), ConfigMakers(), log_);
    return testing::StartStrictly(*manager_);
  }
  Status Load(const std::string& name, std::optional<std::string> config = {},
              std::map<std::string, std::string> files = {}) {
    return manager_->Load({name, std::move(config), std::move(files)});
  }
  Status Unload(const std::string& name) { return manager_->Unload(name, false, {}); }

  std::string Index() const { return testing::IndexText(catalog_); }
  // Drains end on the manager's threads.
  void AwaitIndex(const std::string& expected) {
    const int64_t deadline = SteadyNowNs() + 20 * kSecondNs;
    while (Index() != expected && SteadyNowNs() < deadline) std::this_thread::yield();
    EXPECT_EQ(Index(), expected);
  }
  void AwaitStops(const std::string& line, int count) {
    const int64_t deadline = SteadyNowNs() + 20 * kSecondNs;
    while (factory_.journal.Count(line) < count && SteadyNowNs() < deadline) std::this_thread::yield();
    EXPECT_EQ(factory_.journal.Count(line), count);
  }
  int Starts(const std::string& who) const { return factory_.journal.Count("start " + who); }
  std::shared_ptr<Servable> Find(const std::string& name, int64_t version) {
    auto found = catalog_.Versions(name, version);
    return found.ok() ? found->back() : nullptr;
  }

  ScratchFolder scratch_;
  int writes_ = 0;
  Logger log_;
  Catalog catalog_;
  FolderOptions options_;
  FakeBackend backend_;
  FakeFactory factory_;
  std::unique_ptr<Manager> manager_;
};

// ---- ensembles ----

std::string EnsembleOf(const std::vector<std::string>& models) {
  std::string text = "platform: 'ensemble' ensemble_scheduling {";
  for (const std::string& model : models) text += " step { model_name: '" + model + "' model_version: -1 }";
  return text + " }";
}

TEST_F(ManagerFoldersTest, ModelsOfAnEnsembleAreLoadedBeforeIt) {
  AddVersion("z", "1");
  AddVersion("y", "1");
  AddEnsemble("a", EnsembleOf({"inner", "y"}));
  AddEnsemble("inner", EnsembleOf({"z"}));
  AddVersion("lone", "1");
  options_.startup_models = {"a"};
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Index(), "a:1 READY, inner:1 READY, lone, y:1 READY, z:1 READY");
  for (const char* model : {"a:1", "inner:1", "y:1", "z:1"}) EXPECT_EQ(Starts(model), 1) << model;
}

TEST_F(ManagerFoldersTest, AnEnsembleSaysWhichOfItsModelsFailed) {
  AddVersion("good", "1");
  AddVersion("bad", "1");
  Configure("unreadable", "no such field: 1");
  WriteNew("models/unreadable/1/model.py", "pass");
  AddEnsemble("e", EnsembleOf({"bad", "good"}));
  AddEnsemble("f", EnsembleOf({"unreadable"}));
  AddEnsemble("g", EnsembleOf({"nowhere"}));
  factory_.set_before([](const ServableInfo& info, const ModelLocation&, const FakeFactory::Progress&) {
    return info.name == "bad" ? InternalError("no luck") : OkStatus();
  });
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(
      Load("e").message(),
      "load failed for model 'e': version 1 is at UNAVAILABLE state: Invalid argument: ensemble 'e' depends "
      "on 'bad' which has no loaded version. Model 'bad' loading failed with error: version"
      " 1 is at UNAVAILABLE state: Internal: no luck;;\n");
  EXPECT_NE(Find("good", 1), nullptr);
  EXPECT_TRUE(Load("f").message().starts_with(
      "load failed for model 'f': version 1 is at UNAVAILABLE state: Invalid argument: ensemble 'f' depends "
      "on 'unreadable' which is not valid. Model 'unreadable' loading failed with error: failed to load "
      "'unreadable', failed to poll from model repository: "));
  EXPECT_EQ(
      Load("g").message(),
      "load failed for model 'g': version 1 is at UNAVAILABLE state: Invalid argument: ensemble 'g' depends "
      "on 'nowhere' which has no loaded version.;\n");
  EXPECT_EQ(Index().find(", nowhere"), std::string::npos);
}

TEST_F(ManagerFoldersTest, RefusesEnsemblesThatUseEachOther) {
  AddEnsemble("a", EnsembleOf({"b"}));
  AddEnsemble("b", EnsembleOf({"a"}));
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(
      Load("a").message(),
      "load failed for model 'a': version 1 is at UNAVAILABLE state: Invalid argument: circular dependency "
      "between ensembles: a -> b -> a;\n");
  EXPECT_EQ(Find("b", 1), nullptr);
}

TEST_F(ManagerFoldersTest, AnEnsembleIsMadeAnewWhenItsModelsAre) {
  AddVersion("m", "1");
  AddEnsemble("inner", EnsembleOf({"m"}));
  AddEnsemble("e", EnsembleOf({"inner"}));
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Load("e").ok());
  ASSERT_TRUE(Load("e").ok());
  EXPECT_EQ(Starts("e:1"), 1);
  AddVersion("m", "1", "changed");
  ASSERT_TRUE(Load("m").ok());
  EXPECT_EQ(Starts("m:1"), 2);
  EXPECT_EQ(Starts("inner:1"), 2);
  EXPECT_EQ(Starts("e:1"), 2);
  // Loading the ensemble loads its changed models.
  AddVersion("m", "1", "changed again");
  ASSERT_TRUE(Load("e").ok());
  EXPECT_EQ(Starts("m:1"), 3);
  EXPECT_EQ(Starts("e:1"), 3);
  AwaitStops("stop e:1", 2);
}

TEST_F(ManagerFoldersTest, AnEnsembleStaysWhenOneOfItsModelsGoesAndComesBack) {
  AddVersion("m", "1");
  AddEnsemble("e", EnsembleOf({"m"}));
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Load("e").ok());
  ASSERT_TRUE(Unload("m").ok());
  AwaitIndex("e:1 READY, m:1 UNAVAILABLE unloaded");
  ASSERT_TRUE(Load("m").ok());
  EXPECT_EQ(Index(), "e:1 READY, m:1 READY");
}

TEST_F(ManagerFoldersTest, UnloadTakesTheModelsOfAnEnsembleWhenAskedTo) {
  AddVersion("m", "1");
  AddVersion("n", "1");
  AddEnsemble("inner", EnsembleOf({"m"}));
  AddEnsemble("e", EnsembleOf({"inner"}));
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Load("n").ok());
  ASSERT_TRUE(Load("e").ok());
  ASSERT_TRUE(manager_->Unload("e", false, {}).ok());
  AwaitIndex("e:1 UNAVAILABLE unloaded, inner:1 READY, m:1 READY, n:1 READY");
  ASSERT_TRUE(Load("e").ok());
  ASSERT_TRUE(manager_->Unload("e", true, {}).ok());
  AwaitIndex("e:1 UNAVAILABLE unloaded, inner:1 UNAVAILABLE unloaded, m:1 UNAVAILABLE unloaded, n:1 READY");
}

TEST_F(ManagerFoldersTest, AModelThatIsBeingLoadedHoldsUpTheLoadOfItsEnsemble) {
  AddVersion("m", "1");
  AddEnsemble("e", EnsembleOf({"m"}));
  ASSERT_TRUE(Start().ok());
  Door door;
  factory_.set_before([&door](const ServableInfo&, const ModelLocation&, const FakeFactory::Progress&) {
    door.Pass();
    return OkStatus();
  });
  std::thread first([this] { EXPECT_TRUE(Load("m").ok()); });
  door.WaitForVisitor();
  EXPECT_EQ(Load("e").message(),
            "a related model 'm' to a load/unload request is currently loading or unloading");
  door.Open();
  first.join();
  EXPECT_TRUE(Load("e").ok());
}

TEST_F(ManagerFoldersTest, AnEnsembleTakesAModelThatCameWithARequestAsItIs) {
  AddVersion("m", "1");
  AddEnsemble("e", EnsembleOf({"m"}));
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(
      Load("m", R"({"backend": "python", "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [4]}]})",
           {{"1/model.py", "other"}})
          .ok());
  ASSERT_TRUE(Load("e").ok());
  EXPECT_EQ(Starts("m:1"), 1);
}

TEST_F(ManagerFoldersTest, PollingKeepsEnsemblesInStepWithTheirModels) {
  options_.control_mode = ControlMode::kPoll;
  options_.poll_seconds = 3600;
  AddEnsemble("e", EnsembleOf({"m"}));
  EXPECT_FALSE(Start().ok());
  EXPECT_EQ(Find("e", 1), nullptr);
  AddVersion("m", "1");
  manager_->ScanFolders();
  EXPECT_EQ(Index(), "e:1 READY, m:1 READY");
  AddVersion("m", "1", "changed");
  manager_->ScanFolders();
  EXPECT_EQ(Starts("m:1"), 2);
  AwaitStops("stop e:1", 1);
  EXPECT_EQ(Index(), "e:1 READY, m:1 READY");
}

// ---- start ----

TEST_F(ManagerFoldersTest, LoadsEverythingAtStart) {
  options_.control_mode = ControlMode::kNone;
  AddVersion("a", "1");
  AddVersion("b", "1");
  AddVersion("b", "3");
  EXPECT_TRUE(Start().ok());
  EXPECT_EQ(Index(), "a:1 READY, b:3 READY");
  EXPECT_TRUE(manager_->serving());
  EXPECT_TRUE(manager_->server_ready());
  auto servable = Find("a", -1);
  ASSERT_NE(servable, nullptr);
  EXPECT_EQ(ShapeToString(servable->info().inputs[0].shape), "[-1,4]");
  const auto& location = static_cast<FakeServable&>(*servable).location();
  EXPECT_EQ(location.model_path, scratch_ / "models/a");
  EXPECT_EQ(location.version_path, scratch_ / "models/a/1");
  EXPECT_EQ(location.model_file, scratch_ / "models/a/1/model.py");
}

TEST_F(ManagerFoldersTest, OneFailureTakesNoOtherDown) {
  options_.control_mode = ControlMode::kNone;
  AddVersion("bad", "1");
  AddVersion("good", "1");
  AddVersion("syntax", "1");
  Configure("syntax", "foo: 3");
  factory_.set_before([](const ServableInfo& info, const ModelLocation&, const FakeFactory::Progress&) {
    return info.name == "bad" ? InternalError("RuntimeError: boom") : OkStatus();
  });
  EXPECT_EQ(Start(),
            InternalError(
                "failed to load all models\nload failed for model 'bad': version 1 is at UNAVAILABLE state: "
                "Internal: RuntimeError: boom;\nfailed to load 'syntax', failed to poll from model "
                "repository: config.pbtxt:1:4: Message type \"inference.ModelConfig\" has no field named "
                "\"foo\"."));
  EXPECT_EQ(Index(), "bad:1 UNAVAILABLE Internal: RuntimeError: boom, good:1 READY, syntax");
  EXPECT_NE(catalog_.Index(false).back().reason.find("no field named \"foo\""), std::string::npos)
      << catalog_.Index(false).back().reason;
  EXPECT_TRUE(manager_->serving());
  EXPECT_FALSE(manager_->server_ready());
}

TEST_F(ManagerFoldersTest, IsReadyWithFailedModelsWhenNotStrict) {
  options_.control_mode = ControlMode::kNone;
  options_.strict_readiness = false;
  AddVersion("bad", "1");
  Configure("bad", "backend: 'none'");
  EXPECT_FALSE(Start().ok());
  EXPECT_EQ(Index(),
            "bad:1 UNAVAILABLE Invalid argument: unable to find backend library for backend 'none', try "
            "specifying runtime "
            "on the model configuration.");
  EXPECT_TRUE(manager_->server_ready());
}

TEST_F(ManagerFoldersTest, ExplicitModeLoadsTheStartupSet) {
  AddVersion("a", "1");
  AddVersion("b", "1");
  options_.startup_models = {"b"};
  EXPECT_TRUE(Start().ok());
  EXPECT_EQ(Index(), "a, b:1 READY");
}

TEST_F(ManagerFoldersTest, StarIsEverythingAndAlone) {
  AddVersion("a", "1");
  options_.startup_models = {"*", "a"};
  EXPECT_EQ(Start().message(), "Wildcard model name '*' must be the ONLY startup model if specified at all.");
  manager_.reset();
  options_.startup_models = {"*"};
  EXPECT_TRUE(Start().ok());
  EXPECT_EQ(Index(), "a:1 READY");
}

TEST_F(ManagerFoldersTest, AModelInTwoRepositoriesIsNotLoaded) {
  options_.control_mode = ControlMode::kNone;
  options_.model_repositories.push_back(scratch_ / "more");
  AddVersion("a", "1");
  AddVersion("b", "1");
  scratch_.Write("more/a/1/model.py", "");
  scratch_.Write("more/c/1/model.py", "");
  EXPECT_FALSE(Start().ok());
  EXPECT_EQ(Index(), "a, b:1 READY, c:1 READY");
}

TEST_F(ManagerFoldersTest, RefusesARepositoryThatIsNotThere) {
  options_.model_repositories = {scratch_ / "none"};
  EXPECT_EQ(Start().code(), StatusCode::kNotFound);
  EXPECT_FALSE(manager_->serving());
}

TEST_F(ManagerFoldersTest, RefusesLoadsWhileItStartsAndWhileItExits) {
  AddVersion("a", "1");
  options_.startup_models = {"a"};
  Door door;
  factory_.set_before([&](const ServableInfo&, const ModelLocation&, const FakeFactory::Progress& progress) {
    progress("waiting for instances");
    door.Pass();
    return OkStatus();
  });
  std::thread starter([&] { EXPECT_TRUE(Start().ok()); });
  door.WaitForVisitor();
  EXPECT_EQ(Load("a"), UnavailableError("Server not ready"));
  EXPECT_EQ(Unload("a"), UnavailableError("Server not ready"));
  EXPECT_TRUE(manager_->serving());
  EXPECT_FALSE(manager_->server_ready());
  EXPECT_EQ(Index(), "a:1 LOADING waiting for instances");
  door.Open();
  starter.join();
  EXPECT_TRUE(manager_->Shutdown(SteadyNowNs() + 5 * kSecondNs).ok());
  EXPECT_EQ(Load("a"), UnavailableError("Server exiting"));
  EXPECT_FALSE(manager_->server_ready());
  EXPECT_EQ(Index(), "a:1 UNAVAILABLE unloaded");
}

// ---- versions and configurations ----

TEST_F(ManagerFoldersTest, ServesTheVersionsOfThePolicy) {
  for (const char* version : {"1", "2", "10", "007", "0", "x"}) AddVersion("m", version);
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Load("m").ok());
  EXPECT_EQ(Index(), "m:10 READY");
  Configure("m", std::string(kConfig) + " version_policy { all {} }");
  EXPECT_TRUE(Load("m").ok());
  EXPECT_EQ(Index(), "m:1 READY, m:2 READY, m:10 READY");
  EXPECT_EQ(Starts("m:10"), 1);
  Configure("m", std::string(kConfig) + " version_policy { specific { versions: [2, 5] } }");
  EXPECT_TRUE(Load("m").ok());
  AwaitIndex("m:1 UNAVAILABLE unloaded, m:2 READY, m:10 UNAVAILABLE unloaded");
  EXPECT_EQ(Starts("m:2"), 1);
  EXPECT_TRUE(manager_->server_ready());
  Configure("m", std::string(kConfig) + " version_policy { specific { versions: [5] } }");
  EXPECT_EQ(Load("m"), InvalidArgumentError(
                           "load failed for model 'm': at least one version must be available under the "
                           "version policy of model 'm'\n"));
  EXPECT_EQ(Index(), "m:1 UNAVAILABLE unloaded, m:2 READY, m:10 UNAVAILABLE unloaded");
}

TEST_F(ManagerFoldersTest, SeveralVersionsLoadAsAWholeOrNotAtAll) {
  for (const char* version : {"1", "2", "3"}) AddVersion("m", version);
  Configure("m", std::string(kConfig) + " version_policy { all {} }");
  factory_.set_before([](const ServableInfo& info, const ModelLocation&, const FakeFactory::Progress&) {
    return info.version == 2 ? OkStatus() : InternalError("ValueError: bad");
  });
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Load("m"),
            InvalidArgumentError(
                "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: ValueError: "
                "bad;version 3 is at UNAVAILABLE state: Internal: ValueError: bad;\n"));
  EXPECT_EQ(Index(),
            "m:1 UNAVAILABLE Internal: ValueError: bad, m:2 UNAVAILABLE unloaded, m:3 UNAVAILABLE Internal: "
            "ValueError: bad");
  EXPECT_EQ(factory_.journal.Count("stop m:2"), 1);
}

TEST_F(ManagerFoldersTest, DoesWithoutAConfigurationWhereTheModelCompletesIt) {
  scratch_.Write("models/m/1/model.py", "");
  backend_.complete = [](const ModelLocation& location, inference::ModelConfig& config) {
    EXPECT_EQ(location.version, 1);
    EXPECT_EQ(config.name(), "m");
    EXPECT_EQ(config.backend(), "python");
    config.set_max_batch_size(8);
    config.mutable_dynamic_batching();
    auto& output = *config.add_output();
    output.set_name("OUT");
    output.set_data_type(inference::TYPE_INT8);
    output.add_dims(2);
    return OkStatus();
  };
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Load("m").ok());
  auto servable = Find("m", 1);
  ASSERT_NE(servable, nullptr);
  EXPECT_EQ(ShapeToString(servable->info().outputs[0].shape), "[-1,2]");
  EXPECT_EQ(servable->info().config->dynamic_batching().preferred_batch_size(0), 8);
}

TEST_F(ManagerFoldersTest, NeedsAConfigurationWhenAutoCompleteIsOff) {
  options_.auto_complete = false;
  scratch_.Write("models/m/1/model.py", "");
  backend_.complete = [](const ModelLocation&, inference::ModelConfig&) {
    return InternalError("must not be called");
  };
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Load("m"), InternalError(kFailedToPoll + "failed to open text file for read config.pbtxt: "
                                                     "No such file or directory"));
  Configure("m", kConfig);
  EXPECT_TRUE(Load("m").ok());
}

TEST_F(ManagerFoldersTest, ReportsFaultsFoundByTheModelItself) {
  AddVersion("m", "1");
  backend_.complete = [](const ModelLocation&, inference::ModelConfig&) {
    return InternalError("ValueError: no");
  };
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Load("m").message(),
            "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: ValueError: no;\n");
}

TEST_F(ManagerFoldersTest, ReportsFaultsOfTheConfigurationAsStateOfTheVersion) {
  AddVersion("m", "1");
  Configure("m", "backend: 'python' input { name: 'IN' dims: [4] }");
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Load("m"), InvalidArgumentError(
                           "load failed for model 'm': version 1 is at UNAVAILABLE state: Invalid argument: "
                           "model input 'IN' must specify 'data_type' for m;\n"));
}

TEST_F(ManagerFoldersTest, RefusesWhatItDoesNotSupport) {
  AddVersion("m", "1");
  Configure("m", "backend: 'python' runtime: 'x'");
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Load("m").message(),
            "load failed for model 'm': version 1 is at UNAVAILABLE state: Unsupported: model 'm': "
            "'runtime' is not supported; leave it empty;\n");
  EXPECT_EQ(Starts("m:1"), 0);
}

TEST_F(ManagerFoldersTest, ReportsAMissingModelFile) {
  scratch_.Write("models/m/1/other.py", "");
  Configure("m", kConfig);
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(
      Load("m").message(),
      "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: there is no 'model.py';\n");
  Configure("m", "backend: 'python' default_model_filename: 'other.py'");
  EXPECT_TRUE(Load("m").ok());
  EXPECT_EQ(static_cast<FakeServable&>(*Find("m", 1)).location().model_file,
            scratch_ / "models/m/1/other.py");
}

TEST_F(ManagerFoldersTest, ReadsTheNamedConfigurationWhereThereIsOne) {
  options_.model_config_name = "small";
  AddVersion("with", "1");
  AddVersion("without", "1");
  scratch_.Write("models/with/configs/small.pbtxt", "backend: 'python' max_batch_size: 1");
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Load("with").ok());
  EXPECT_TRUE(Load("without").ok());
  EXPECT_EQ(Find("with", 1)->info().max_batch_size, 1);
  EXPECT_EQ(Find("without", 1)->info().max_batch_size, 4);
}

TEST_F(ManagerFoldersTest, RunsPythonBasedBackends) {
  scratch_.Write("backends/vllm/model.py", "");
  scratch_.Write("models/m/1/model.json", "{}");
  Configure("m", "backend: 'vllm'");
  AddVersion("escape", "1");
  Configure("escape", "backend: '../backends/vllm'");
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Load("m").ok());
  const auto& location = static_cast<FakeServable&>(*Find("m", 1)).location();
  EXPECT_EQ(location.model_file, scratch_ / "backends/vllm/model.py");
  EXPECT_EQ(location.model_path, scratch_ / "models/m");
  EXPECT_FALSE(Load("escape").ok());
}

TEST_F(ManagerFoldersTest, TriesAgainAsOftenAsAllowed) {
  options_.load_retry_count = 2;
  AddVersion("m", "1");
  int calls = 0;
  factory_.set_before([&](const ServableInfo&, const ModelLocation&, const FakeFactory::Progress&) {
    return ++calls < 3 ? InternalError("not yet") : OkStatus();
  });
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Load("m").ok());
  EXPECT_EQ(calls, 3);
}

// ---- load, reload, unload ----

TEST_F(ManagerFoldersTest, RefusesLoadsOutsideOfExplicitMode) {
  options_.control_mode = ControlMode::kNone;
  ASSERT_TRUE(Start().ok());
  const Status refusal =
      UnavailableError("explicit model load / unload is not allowed if polling is enabled");
  EXPECT_EQ(Load("m"), refusal);
  EXPECT_EQ(Unload("m"), refusal);
}

TEST_F(ManagerFoldersTest, RefusesNamesThatAreNone) {
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Load(""),
            InvalidArgumentError("Model name cannot be empty. Please enter a valid name to deploy."));
  for (const char* name : {"../models", "a/b", "..", ".", " ..", ".. "}) {
    const Status refusal = InvalidArgumentError("invalid model name '" + std::string(name) +
                                                "', model name must not contain path traversal characters");
    EXPECT_EQ(Load(name), refusal);
    // As for any unknown model.
    EXPECT_TRUE(Unload(name).ok());
  }
  for (const char* name : {"", " ", "\t"}) {
    EXPECT_EQ(Unload(name),
              InvalidArgumentError("Model name cannot be empty. Please enter a valid name to deploy."));
  }
  for (const char* name : {"m\xff", "a\nb"}) {
    EXPECT_EQ(Load(name).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(Load(name), Unload(name));
  }
  // The name is not a path, but no such model is loaded. The error is the same if the folder exists.
  EXPECT_EQ(Load("model\\test"), InvalidArgumentError("Invalid stub name: contains invalid characters"));
  AddVersion("a;b", "1");
  EXPECT_EQ(Load("a;b").message(),
            "load failed for model 'a;b': version 1 is at UNAVAILABLE state: Invalid argument: Invalid stub "
            "name: contains "
            "invalid characters;\n");
}

TEST_F(ManagerFoldersTest, DotsAreLettersOfNames) {
  ASSERT_TRUE(Start().ok());
  for (const std::string name : {"...", "..my_model", "model..1", ".m"}) {
    EXPECT_EQ(Load(name),
              InternalError("failed to load '" + name + "', failed to poll from model repository"));
    AddVersion(name, "1");
    EXPECT_TRUE(Load(name).ok()) << name;
    EXPECT_NE(Find(name, 1), nullptr);
    EXPECT_TRUE(Unload(name).ok());
  }
}

TEST_F(ManagerFoldersTest, SkipsFoldersThatNoModelCanBe) {
  options_.control_mode = ControlMode::kPoll;
  AddVersion("good", "1");
  AddVersion("caf\xe9", "1");
  AddVersion("two\nlines", "1");
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Index(), "good:1 READY");
  manager_->ScanFolders();
  EXPECT_EQ(Index(), "good:1 READY");
}

TEST_F(ManagerFoldersTest, ModelsToStartWithHaveNames) {
  options_.startup_models = {"m", "m\xff"};
  EXPECT_EQ(Start(),
            InvalidArgumentError(
                "invalid model name 'm\\xff', model name must be UTF-8 text without control characters"));
}

TEST_F(ManagerFoldersTest, FilesOfLoadsHaveASwitchOfTheirOwn) {
  options_.allow_file_overrides = false;
  AddVersion("m", "1");
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(manager_->Load({"m", std::string(R"({"backend":"python"})"), {{"1/model.py", "pass"}}}),
            UnsupportedError("load parameter 'file:1/model.py' is not allowed, the server was started with "
                             "--allow-file-overrides=false"));
  EXPECT_TRUE(manager_->Load({"m", std::nullopt, {}}).ok());
}

TEST_F(ManagerFoldersTest, WithoutOverridesTheFolderChoosesTheCode) {
  options_.allow_file_overrides = false;
  AddVersion("m", "1");
  Configure("m",
            R"(backend: "python" parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/env" } })");
  ASSERT_TRUE(Start().ok());
  const auto load = [this](const std::string& config) { return manager_->Load({"m", config, {}}); };
  const auto refused = [](const std::string& field) {
    return UnsupportedError("load parameter 'config' may not change '" + field +
                            "' of model 'm', the server was started with --allow-file-overrides=false");
  };
  const std::string environment = R"("parameters":{"EXECUTION_ENV_PATH":{"string_value":"/env"}})";
  EXPECT_TRUE(load("{" + environment + "}").ok());
  EXPECT_TRUE(load(R"({"default_model_filename":"model.py",)" + environment + "}").ok());
  EXPECT_TRUE(load(R"({"max_batch_size":3,"parameters":{"EXECUTION_ENV_PATH":{"string_value":"/env"},
                      "MINE":{"string_value":"5"}}})")
                  .ok());
  EXPECT_EQ(load("{}"), refused("parameters[EXECUTION_ENV_PATH]"));
  EXPECT_EQ(load(R"({"parameters":{"EXECUTION_ENV_PATH":{"string_value":"/tmp"}}})"),
            refused("parameters[EXECUTION_ENV_PATH]"));
  EXPECT_EQ(load(R"({"backend":"other",)" + environment + "}"), refused("backend"));
  EXPECT_EQ(load(R"({"runtime":"other",)" + environment + "}"), refused("runtime"));
  EXPECT_EQ(load(R"({"cc_model_filenames":{"7.5":"x"},)" + environment + "}"),
            refused("cc_model_filenames[7.5]"));
}

TEST_F(ManagerFoldersTest, AsksForRightsToWhatALoadBrings) {
  AddVersion("m", "1");
  AddVersion("n", "1");
  AddEnsemble("e", EnsembleOf({"m"}));
  ASSERT_TRUE(Start().ok());
  std::vector<std::string> asked;
  const ModelRights rights = [&asked](const std::string& model) {
    asked.push_back(model);
    return model == "m" ? PermissionDeniedError("not m") : OkStatus();
  };
  LoadRequest request{.model_name = "e", .config_json = {}, .files = {}, .rights = rights};
  EXPECT_EQ(manager_->Load(request), PermissionDeniedError("not m"));
  EXPECT_EQ(Index(), "e, m, n");
  request.model_name = "n";
  EXPECT_TRUE(manager_->Load(request).ok());
  EXPECT_EQ(asked, std::vector<std::string>({"m"}));
  ASSERT_TRUE(Load("e").ok());
  EXPECT_EQ(manager_->Unload("e", true, rights), PermissionDeniedError("not m"));
  EXPECT_EQ(Index(), "e:1 READY, m:1 READY, n:1 READY");
  EXPECT_TRUE(manager_->Unload("e", false, rights).ok());
  EXPECT_EQ(asked, std::vector<std::string>({"m", "m"}));
}

TEST_F(ManagerFoldersTest, UnknownModelsLeaveNoTrace) {
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Load("nope"), InternalError("failed to load 'nope', failed to poll from model repository"));
  EXPECT_TRUE(Unload("nope").ok());
  EXPECT_EQ(Index(), "");
}

TEST_F(ManagerFoldersTest, FollowsLinksOfTheRepository) {
  options_.control_mode = ControlMode::kNone;
  scratch_.Write("elsewhere/1/model.py", "");
  ::symlink((scratch_ / "elsewhere").c_str(), (scratch_ / "models/m").c_str());
  AddVersion("real", "1");
  ::symlink("real", (scratch_ / "models/alias").c_str());
  ::symlink((scratch_ / "elsewhere/1").c_str(), (scratch_ / "models/real/2").c_str());
  ::symlink("none", (scratch_ / "models/nothing").c_str());
  EXPECT_TRUE(Start().ok());
  EXPECT_EQ(Index(), "alias:2 READY, m:1 READY, real:2 READY");
}

TEST_F(ManagerFoldersTest, AnUnchangedModelIsNotReloaded) {
  AddVersion("m", "1");
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Load("m").ok());
  scratch_.Write("models/m/1/__pycache__/model.cpython-311.pyc", "bytes");
  EXPECT_TRUE(Load("m").ok());
  EXPECT_EQ(Starts("m:1"), 1);
  WriteNew("models/m/1/helper.py", "x");
  EXPECT_TRUE(Load("m").ok());
  EXPECT_EQ(Starts("m:1"), 2);
  AwaitStops("stop m:1", 1);
  EXPECT_EQ(Index(), "m:1 READY");
}

TEST_F(ManagerFoldersTest, ReloadsOnlyVersionsThatChanged) {
  AddVersion("m", "1");
  AddVersion("m", "2");
  Configure("m", std::string(kConfig) + " version_policy { all {} }");
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Load("m").ok());
  AddVersion("m", "2", "changed");
  AddVersion("m", "3");
  EXPECT_TRUE(Load("m").ok());
  EXPECT_EQ(Starts("m:1"), 1);
  EXPECT_EQ(Starts("m:2"), 2);
  EXPECT_EQ(Index(), "m:1 READY, m:2 READY, m:3 READY");
  WriteNew("models/m/labels.txt", "new");
  EXPECT_TRUE(Load("m").ok());
  EXPECT_EQ(Starts("m:1"), 2);
}

TEST_F(ManagerFoldersTest, TheOldVersionLeavesWhenItsLastRequestHas) {
  AddVersion("m", "1");
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Load("m").ok());
  CatalogReader reader(catalog_);
  auto request = reader.Find("m", 1);
  ASSERT_TRUE(request.ok());
  AddVersion("m", "1", "changed");
  ASSERT_TRUE(Load("m").ok());
  EXPECT_EQ(Index(), "m:1 READY");
  EXPECT_EQ(factory_.journal.Count("stop m:1"), 0);
  auto next = reader.Find("m", 1);
  ASSERT_TRUE(next.ok());
  EXPECT_NE(&(*next)->get(), &(*request)->get());
  request->reset();
  AwaitStops("stop m:1", 1);
  EXPECT_EQ(Index(), "m:1 READY");
  next->reset();
}

TEST_F(ManagerFoldersTest, AFailedReloadKeepsTheOldVersion) {
  AddVersion("m", "1");
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Load("m").ok());
  factory_.set_before([](const ServableInfo&, const ModelLocation&, const FakeFactory::Progress&) {
    return InternalError("SyntaxError: x");
  });
  AddVersion("m", "1", "changed");
  EXPECT_EQ(Load("m").message(),
            "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: SyntaxError: x;\n");
  EXPECT_EQ(Index(), "m:1 READY");
  Configure("m", "foo: 1");
  EXPECT_EQ(Load("m").code(), StatusCode::kInternal);
  EXPECT_EQ(Index(), "m:1 READY");
  EXPECT_EQ(factory_.journal.Count("stop m:1"), 0);
  EXPECT_FALSE(Find("m", 1)->gate().closed());
}

TEST_F(ManagerFoldersTest, UnloadWaitsForRequestsInTheBackground) {
  AddVersion("m", "1");
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Load("m").ok());
  CatalogReader reader(catalog_);
  auto request = reader.Find("m", -1);
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(Unload("m").ok());
  EXPECT_EQ(Index(), "m:1 UNLOADING");
  EXPECT_EQ(reader.Find("m", -1).status().message(),
            "Request for unknown model: 'm' has no available versions");
  EXPECT_FALSE(manager_->server_ready());
  request->reset();
  AwaitIndex("m:1 UNAVAILABLE unloaded");
  EXPECT_TRUE(manager_->server_ready());
  EXPECT_TRUE(Load("m").ok());
  EXPECT_EQ(Index(), "m:1 READY");
}

TEST_F(ManagerFoldersTest, LoadsAgainWhileTheOldOneStillDrains) {
  AddVersion("m", "1");
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Load("m").ok());
  CatalogReader reader(catalog_);
  auto request = reader.Find("m", -1);
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(Unload("m").ok());
  EXPECT_TRUE(Load("m").ok());
  EXPECT_EQ(Index(), "m:1 READY");
  request->reset();
  AwaitStops("stop m:1", 1);
  EXPECT_EQ(Index(), "m:1 READY");
}

TEST_F(ManagerFoldersTest, RefusesASecondLoadOfTheSameModelMeanwhile) {
  AddVersion("m", "1");
  AddVersion("other", "1");
  Door door;
  factory_.set_before([&](const ServableInfo& info, const ModelLocation&, const FakeFactory::Progress&) {
    if (info.name == "m") door.Pass();
    return OkStatus();
  });
  ASSERT_TRUE(Start().ok());
  std::thread loader([&] { EXPECT_TRUE(Load("m").ok()); });
  door.WaitForVisitor();
  const Status busy =
      UnavailableError("a related model 'm' to a load/unload request is currently loading or unloading");
  EXPECT_EQ(Load("m"), busy);
  EXPECT_EQ(Unload("m"), busy);
  EXPECT_TRUE(Load("other").ok());
  door.Open();
  loader.join();
  EXPECT_EQ(Index(), "m:1 READY, other:1 READY");
}

// ---- overrides ----

TEST_F(ManagerFoldersTest, AConfigurationInTheRequestReplacesTheFiles) {
  AddVersion("m", "1");
  AddVersion("m", "2");
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Load("m").ok());
  const std::string override =
      R"({"backend":"python","maxBatchSize":2,"version_policy":{"specific":{"versions":[1]}}})";
  EXPECT_TRUE(Load("m", override).ok());
  AwaitIndex("m:1 READY, m:2 UNAVAILABLE unloaded");
  EXPECT_EQ(Find("m", 1)->info().max_batch_size, 2);
  EXPECT_TRUE(Find("m", 1)->info().inputs.empty());
  // The same override again, or no override, changes nothing.
  EXPECT_TRUE(Load("m", override).ok());
  EXPECT_TRUE(Load("m").ok());
  EXPECT_EQ(Starts("m:1"), 1);
  // A change of the folder restores the folder's configuration.
  WriteNew("models/m/config.pbtxt", std::string(kConfig) + " ");
  EXPECT_TRUE(Load("m").ok());
  AwaitIndex("m:1 UNAVAILABLE unloaded, m:2 READY");
}

TEST_F(ManagerFoldersTest, ABadConfigurationInTheRequestChangesNothing) {
  AddVersion("m", "1");
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Load("m").ok());
  for (const char* text : {"{\"backend\":", "{\"foo\":3}", "{\"backend\":\"python\",\"max_batch_size\":-1}",
                           "{\"name\":\"x\",\"backend\":\"python\"}"}) {
    EXPECT_TRUE(Load("m", text).message().starts_with(kFailedToPoll)) << text;
    EXPECT_GT(Load("m", text).message().size(), kFailedToPoll.size());
  }
  EXPECT_EQ(Index(), "m:1 READY");
  EXPECT_EQ(Starts("m:1"), 1);
}

TEST_F(ManagerFoldersTest, AModelCanExistFromFilesInTheRequestAlone) {
  ASSERT_TRUE(Start().ok());
  const std::string config = R"({"backend":"python"})";
  ASSERT_TRUE(Load("mem", config, {{"/1/model.py", "code"}, {"1/data/weights", std::string("\0x", 2)}}).ok());
  EXPECT_EQ(Index(), "mem:1 READY");
  std::string folder;
  {
    auto servable = Find("mem", 1);
    const auto& location = static_cast<FakeServable&>(*servable).location();
    folder = location.model_path;
    EXPECT_TRUE(folder.starts_with(scratch_ / "tmp/"));
    EXPECT_TRUE(folder.ends_with("/mem"));
    EXPECT_TRUE(std::filesystem::exists(location.model_file));
    EXPECT_TRUE(std::filesystem::exists(location.version_path + "/data/weights"));
    struct stat info = {};
    ASSERT_EQ(::stat(std::filesystem::path(folder).parent_path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
  }
  EXPECT_EQ(Load("mem").code(), StatusCode::kInternal);
  EXPECT_EQ(Index(), "mem:1 READY");
  EXPECT_TRUE(Unload("mem").ok());
  AwaitIndex("");
  ASSERT_TRUE(manager_->Shutdown(SteadyNowNs() + 5 * kSecondNs).ok());
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "tmp"));
}

TEST_F(ManagerFoldersTest, FilesInTheRequestReplaceAModelOfTheSameName) {
  AddVersion("m", "1");
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Load("m").ok());
  ASSERT_TRUE(Load("m", R"({"backend":"python"})", {{"3/model.py", "code"}}).ok());
  AwaitIndex("m:1 UNAVAILABLE unloaded, m:3 READY");
  ASSERT_TRUE(Load("m").ok());
  AwaitIndex("m:1 READY, m:3 UNAVAILABLE unloaded");
}

TEST_F(ManagerFoldersTest, RefusesFilesThatLeaveTheModelsFolder) {
  ASSERT_TRUE(Start().ok());
  const std::string config = R"({"backend":"python"})";
  for (const char* path : {"../1/model.py", "1/../../x", "//etc/x", "", "/", "1/", "1\\x"}) {
    const std::string refused = Load("m", config, {{path, "x"}}).message();
    EXPECT_TRUE(refused.starts_with(kFailedToPoll + "Invalid file parameter 'file:")) << refused;
  }
  for (const auto& [given, files] :
       std::vector<std::pair<std::optional<std::string>, std::map<std::string, std::string>>>{
           {{}, {{"1/model.py", "x"}}},
           {config, {{"1", "x"}, {"1/model.py", "x"}}},
           {config, {{"1/model.py", "x"}, {"/1/model.py", "x"}}}}) {
    EXPECT_TRUE(Load("m", given, files).message().starts_with(kFailedToPoll));
  }
  EXPECT_EQ(Index(), "");
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "tmp"));
}

// ---- polling ----

TEST_F(ManagerFoldersTest, PollingLoadsReloadsAndUnloads) {
  options_.control_mode = ControlMode::kPoll;
  options_.poll_seconds = 3600;
  AddVersion("a", "1");
  AddVersion("b", "1");
  ASSERT_TRUE(Start().ok());
  manager_->ScanFolders();
  EXPECT_EQ(Starts("a:1"), 1);
  AddVersion("c", "1");
  AddVersion("a", "1", "changed");
  manager_->ScanFolders();
  EXPECT_EQ(Starts("a:1"), 2);
  EXPECT_EQ(Starts("b:1"), 1);
  EXPECT_EQ(Index(), "a:1 READY, b:1 READY, c:1 READY");
  scratch_.Remove("models/b");
  manager_->ScanFolders();
  AwaitIndex("a:1 READY, c:1 READY");
  AwaitStops("stop b:1", 1);
}

TEST_F(ManagerFoldersTest, PollingRetriesWhatIsNotServedAndKeepsWhatIs) {
  options_.control_mode = ControlMode::kPoll;
  options_.poll_seconds = 3600;
  AddVersion("fresh", "1");
  AddVersion("old", "1");
  ASSERT_TRUE(Start().ok());
  factory_.set_before([](const ServableInfo&, const ModelLocation&, const FakeFactory::Progress&) {
    return InternalError("down");
  });
  AddVersion("new", "1");
  AddVersion("old", "1", "changed");
  manager_->ScanFolders();
  manager_->ScanFolders();
  EXPECT_EQ(Starts("new:1"), 2);
  EXPECT_EQ(Starts("old:1"), 2);
  EXPECT_EQ(Index(), "fresh:1 READY, new:1 UNAVAILABLE Internal: down, old:1 READY");
  factory_.set_before(nullptr);
  manager_->ScanFolders();
  EXPECT_EQ(Index(), "fresh:1 READY, new:1 READY, old:1 READY");
}

TEST_F(ManagerFoldersTest, PollingUnloadsNothingWhenTheRepositoryCannotBeRead) {
  options_.control_mode = ControlMode::kPoll;
  options_.poll_seconds = 3600;
  AddVersion("a", "1");
  ASSERT_TRUE(Start().ok());
  std::filesystem::rename(scratch_ / "models", scratch_ / "away");
  manager_->ScanFolders();
  EXPECT_EQ(Index(), "a:1 READY");
}

// ---- shutdown ----

TEST_F(ManagerFoldersTest, ShutdownStopsEveryModel) {
  options_.control_mode = ControlMode::kPoll;
  options_.poll_seconds = 3600;
  AddVersion("a", "1");
  AddVersion("b", "1");
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(manager_->Shutdown(SteadyNowNs() + 20 * kSecondNs).ok());
  EXPECT_EQ(factory_.journal.Count("stop a:1"), 1);
  EXPECT_EQ(factory_.journal.Count("stop b:1"), 1);
  EXPECT_EQ(Index(), "a:1 UNAVAILABLE unloaded, b:1 UNAVAILABLE unloaded");
  EXPECT_FALSE(manager_->serving());
}

TEST_F(ManagerFoldersTest, ShutdownLetsModelsCallEachOtherUntilAllAreAtRest) {
  AddVersion("a", "1");
  AddVersion("b", "1");
  options_.startup_models = {"*"};
  ASSERT_TRUE(Start().ok());
  CatalogReader reader(catalog_);
  auto request = reader.Find("a", 1);
  ASSERT_TRUE(request.ok());
  std::thread stopper([&] { EXPECT_TRUE(manager_->Shutdown(SteadyNowNs() + 20 * kSecondNs).ok()); });
  while (manager_->serving()) std::this_thread::yield();
  EXPECT_TRUE(reader.Find("b", 1).ok());
  EXPECT_EQ(factory_.journal.Count("stop b:1"), 0);
  request->reset();
  stopper.join();
  EXPECT_EQ(factory_.journal.Count("stop b:1"), 1);
}

TEST_F(ManagerFoldersTest, ShutdownDoesNotWaitForARequestPastItsDeadline) {
  AddVersion("a", "1");
  options_.startup_models = {"a"};
  ASSERT_TRUE(Start().ok());
  CatalogReader reader(catalog_);
  auto request = reader.Find("a", 1);
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(manager_->Shutdown(SteadyNowNs() + kSecondNs / 20).ok());
  EXPECT_EQ(factory_.journal.Count("stop a:1"), 1);
  request->reset();
}

TEST_F(ManagerFoldersTest, ShutdownTellsOfUserCodeThatHoldsUpALoad) {
  AddVersion("a", "1");
  ASSERT_TRUE(Start().ok());
  Door door;
  factory_.set_before([&](const ServableInfo&, const ModelLocation&, const FakeFactory::Progress&) {
    door.Pass();
    return OkStatus();
  });
  std::thread loader([&] { EXPECT_EQ(Load("a"), UnavailableError("Server exiting")); });
  door.WaitForVisitor();
  EXPECT_EQ(manager_->Shutdown(SteadyNowNs() - 10 * kSecondNs),
            UnavailableError("user code has not returned in 'a'"));
  door.Open();
  loader.join();
  EXPECT_EQ(factory_.journal.Count("stop a:1"), 1);
}

}  // namespace
}  // namespace braid
