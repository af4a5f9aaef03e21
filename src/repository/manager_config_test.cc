#include "repository/manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "config/testing/scratch_folder.h"
#include "repository/testing/door.h"
#include "repository/testing/fake_config.h"
#include "repository/testing/fake_manager.h"

namespace braid {
namespace {

using testing::Door;
using testing::FakeBackend;
using testing::FakeConfigMakers;
using testing::FakeFactory;
using testing::FakePipeline;
using testing::FakeServable;
using ::testing::HasSubstr;
using testing::ScratchFolder;

constexpr int64_t kSecondNs = 1000000000;

std::string Model(const std::string& name, const std::string& more = "") {
  return R"({"config": {"name": ")" + name + R"(", "base_path": ")" + name + "\"" +
         (more.empty() ? "" : ", ") + more + "}}";
}
// A pipeline over models. Names that begin with "lib" are libraries.
std::string Pipeline(const std::string& name, const std::vector<std::string>& uses,
                     const std::string& more = "") {
  std::string nodes;
  for (const std::string& used : uses) {
    nodes += std::string(nodes.empty() ? "" : ", ") + R"({"name": "n_)" + used + R"(", "type": ")" +
             (used.starts_with("lib") ? R"(custom", "library_name": ")" : R"(DL model", "model_name": ")") +
             used + R"(", "inputs": [], "outputs": []})";
  }
  return R"({"name": ")" + name + R"(", "inputs": [], "outputs": [], "nodes": [)" + nodes + "]" + more + "}";
}
struct File {
  std::vector<std::string> models = {};
  std::vector<std::string> pipelines = {};
  std::vector<std::string> libraries = {};
  std::vector<std::string> graphs = {};
};
std::string Join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}
std::string Text(const File& file) {
  return R"({"model_config_list": [)" + Join(file.models) + R"(], "pipeline_config_list": [)" +
         Join(file.pipelines) + R"(], "custom_node_library_config_list": [)" + Join(file.libraries) +
         R"(], "mediapipe_config_list": [)" + Join(file.graphs) + "]}";
}

class ManagerConfigTest : public ::testing::Test {
 protected:
  ManagerConfigTest() : makers_(catalog_) {
    options_.config_path = scratch_ / "config.json";
    options_.poll_seconds = 0;
    options_.retire_wait_ns = 0;
    log_.set_enabled(LogLevel::kInfo, false);
    log_.set_enabled(LogLevel::kWarning, false);
    log_.set_enabled(LogLevel::kError, false);
  }
  ~ManagerConfigTest() override {
    if (manager_ == nullptr) return;
    EXPECT_TRUE(manager_->Shutdown(SteadyNowNs() + 5 * kSecondNs).ok());
  }

  void AddVersion(const std::string& model, const std::string& version, std::string_view text = "net") {
    scratch_.Write(model + "/" + version + "/model.xml", text);
  }
  void Write(const File& file) { scratch_.Write("config.json", Text(file)); }
  Status Start() {
    ManagerOptions options;
    options.folders = folders_;
    options.config = options_;
    options.exit_timeout_seconds = 5;
    manager_ = std::make_unique<Manager>(
        options, catalog_, testing::FakeFolderMakers(catalog_, backend_, factory_), makers_.Makers(), log_);
    return testing::StartStrictly(*manager_);
  }
  void StartWith(const File& file) {
    Write(file);
    const Status started = Start();
    EXPECT_TRUE(started.ok()) << started;
  }
  // Writes the file and reloads it.
  Result<bool> Reload(const File& file) {
    Write(file);
    return manager_->Reload();
  }

  // "a:1 READY, a:2 UNAVAILABLE(unloaded), p:1 READY, b".
  std::string Index() const {
    std::ostringstream text;
    for (const IndexEntry& entry : catalog_.Index(false)) {
      text << (text.tellp() > 0 ? ", " : "") << entry.name;
      if (!entry.version) continue;
      text << ':' << *entry.version << ' ' << VersionStateName(entry.state);
      if (entry.failure != StatusCode::kOk) text << " failed";
    }
    return text.str();
  }
  // Drains end on the manager's threads.
  void AwaitIndex(const std::string& expected) {
    const int64_t deadline = SteadyNowNs() + 20 * kSecondNs;
    while (Index() != expected && SteadyNowNs() < deadline) std::this_thread::yield();
    EXPECT_EQ(Index(), expected);
  }
  void AwaitCount(const std::string& line, int count) {
    const int64_t deadline = SteadyNowNs() + 20 * kSecondNs;
    while (makers_.journal.Count(line) < count && SteadyNowNs() < deadline) std::this_thread::yield();
    EXPECT_EQ(makers_.journal.Count(line), count);
  }
  int Starts(const std::string& who) const { return makers_.journal.Count("start " + who); }
  std::shared_ptr<Servable> Find(const std::string& name, int64_t version = -1) const {
    auto found = catalog_.Find(name, version);
    return found.ok() ? *found : nullptr;
  }
  std::string ReasonOf(const std::string& name) const {
    for (const IndexEntry& entry : catalog_.Index(false)) {
      if (entry.name == name) return entry.reason;
    }
    return "nothing";
  }
  StatusCode FailureOf(const std::string& name) const {
    for (const IndexEntry& entry : catalog_.Index(false)) {
      if (entry.name == name) return entry.failure;
    }
    return StatusCode::kOk;
  }

  ScratchFolder scratch_;
  Logger log_;
  Catalog catalog_{Dialect::kOvms};
  FakeConfigMakers makers_;
  FakeBackend backend_;
  FakeFactory factory_;
  ConfigOptions options_;
  std::optional<FolderOptions> folders_;
  std::unique_ptr<Manager> manager_;
};

TEST_F(ManagerConfigTest, LoadsTheNewestVersionOfEachModel) {
  AddVersion("a", "1");
  AddVersion("a", "3");
  AddVersion("a", "0");
  AddVersion("a", "x5");
  AddVersion("b", "1");
  StartWith({.models = {Model("a"), Model("b")}});
  EXPECT_EQ(Index(), "a:3 READY, b:1 READY");
  EXPECT_TRUE(manager_->serving());
  const auto servable = Find("a");
  EXPECT_EQ(static_cast<FakeServable&>(*servable).location().version_path, scratch_ / "a/3");
  EXPECT_EQ(servable->info().name, "a");
  EXPECT_EQ(servable->info().version, 3);
}

TEST_F(ManagerConfigTest, AVersionFolderMayBeALink) {
  scratch_.Write("elsewhere/model.xml", "net");
  std::filesystem::create_directories(scratch_ / "a");
  std::filesystem::create_directory_symlink(scratch_ / "elsewhere", scratch_ / "a/2");
  StartWith({.models = {Model("a")}});
  EXPECT_EQ(Index(), "a:2 READY");
}

TEST_F(ManagerConfigTest, FollowsTheVersionPolicy) {
  for (const char* version : {"1", "2", "3"}) AddVersion("a", version);
  StartWith({.models = {Model("a", R"("model_version_policy": {"all": {}})")}});
  EXPECT_EQ(Index(), "a:1 READY, a:2 READY, a:3 READY");

  auto reloaded =
      Reload({.models = {Model("a", R"("model_version_policy": {"latest": {"num_versions": 2}})")}});
  EXPECT_TRUE(reloaded.ok() && *reloaded) << reloaded.status();
  AwaitIndex("a:1 UNAVAILABLE, a:2 READY, a:3 READY");
  EXPECT_EQ(ReasonOf("a"), "unloaded");
  reloaded =
      Reload({.models = {Model("a", R"("model_version_policy": {"specific": {"versions": [1, 9]}})")}});
  EXPECT_TRUE(reloaded.ok()) << reloaded.status();
  AwaitIndex("a:1 READY, a:2 UNAVAILABLE, a:3 UNAVAILABLE");
  // Versions that stay are not loaded again.
  EXPECT_EQ(Starts("a:1"), 2);
  EXPECT_EQ(Starts("a:2"), 1);
  EXPECT_EQ(Starts("a:3"), 1);
}

TEST_F(ManagerConfigTest, AReloadTouchesWhatHasChangedAlone) {
  AddVersion("a", "1");
  AddVersion("b", "1");
  StartWith({.models = {Model("a"), Model("b")}});
  const auto a = Find("a");
  const auto b = Find("b");
  EXPECT_FALSE(*manager_->Reload());
  auto reloaded = Reload({.models = {Model("a"), Model("b", R"("nireq": 2)")}});
  ASSERT_TRUE(reloaded.ok()) << reloaded.status();
  EXPECT_TRUE(*reloaded);
  EXPECT_EQ(Find("a"), a);
  EXPECT_NE(Find("b"), b);
  EXPECT_TRUE(b->gate().closed());
  AwaitCount("stop b:1", 1);
  EXPECT_EQ(Index(), "a:1 READY, b:1 READY");
  EXPECT_FALSE(*manager_->Reload());
}

TEST_F(ManagerConfigTest, VersionFoldersComeAndGo) {
  AddVersion("a", "1");
  StartWith({.models = {Model("a")}});
  AddVersion("a", "2");
  EXPECT_TRUE(*manager_->Reload());
  AwaitIndex("a:1 UNAVAILABLE, a:2 READY");
  EXPECT_EQ(catalog_.WhyNotFound("a", 1).message(), "Model with requested version is retired");
  scratch_.Remove("a/2");
  EXPECT_TRUE(*manager_->Reload());
  AwaitIndex("a:1 READY, a:2 UNAVAILABLE");
  scratch_.Remove("a/1");
  const auto empty = manager_->Reload();
  EXPECT_EQ(empty.status().message(), "Reloading models versions failed. Check server logs for more info.");
  EXPECT_EQ(empty.status().fault(), Fault::kNoModelVersionAvailable);
  AwaitIndex("a:1 UNAVAILABLE, a:2 UNAVAILABLE");
}

TEST_F(ManagerConfigTest, ARemovedModelStaysKnownAsRetired) {
  AddVersion("a", "1");
  AddVersion("b", "1");
  StartWith({.models = {Model("a"), Model("b")}});
  EXPECT_TRUE(*Reload({.models = {Model("b")}}));
  AwaitIndex("a:1 UNAVAILABLE, b:1 READY");
  AwaitCount("stop a:1", 1);
  EXPECT_EQ(catalog_.WhyNotFound("a", -1).message(), "Model with requested version is retired");
  EXPECT_TRUE(*Reload({.models = {Model("a"), Model("b")}}));
  EXPECT_EQ(Index(), "a:1 READY, b:1 READY");
}

TEST_F(ManagerConfigTest, AModelThatDoesNotLoadDoesNotStopOthers) {
  AddVersion("a", "1");
  AddVersion("b", "1");
  makers_.set_before([](const OvmsModelConfig& config, int64_t) {
    return config.name == "a" ? FaultError(Fault::kFileInvalid, "broken") : OkStatus();
  });
  StartWith({.models = {Model("a"), Model("b"), Model("missing"), Model("c", R"j("shape": "(x)")j")}});
  EXPECT_EQ(Index(), "a:1 UNAVAILABLE failed, b:1 READY, c, missing");
  EXPECT_EQ(ReasonOf("a"), "File not found or cannot open - broken");
  EXPECT_EQ(FailureOf("a"), StatusCode::kUnknown);
  EXPECT_EQ(catalog_.WhyNotFound("a", -1).message(), "Model with requested version is not loaded yet");
  // A reload retries failed loads.
  const auto failed = manager_->Reload();
  EXPECT_EQ(failed.status().message(), "Reloading models versions failed. Check server logs for more info.");
  EXPECT_EQ(Starts("a:1"), 2);
  makers_.set_before(nullptr);
  AddVersion("missing", "1");
  AddVersion("c", "1");
  (void)manager_->Reload();
  EXPECT_EQ(Index(), "a:1 READY, b:1 READY, c:1 UNAVAILABLE failed, missing:1 READY");
  EXPECT_THAT(ReasonOf("c"), HasSubstr("/model_config_list/3/config/shape: invalid shape '(x)'"));
}

TEST_F(ManagerConfigTest, AFailedReloadOfAModelKeepsWhatServes) {
  AddVersion("a", "1");
  StartWith({.models = {Model("a")}});
  const auto before = Find("a");
  makers_.set_before([](const OvmsModelConfig& config, int64_t) {
    return config.nireq == 2 ? FaultError(Fault::kCannotCompileModel) : OkStatus();
  });
  const auto failed = Reload({.models = {Model("a", R"("nireq": 2)")}});
  EXPECT_EQ(failed.status().message(), "Reloading config file failed. Check server logs for more info.");
  EXPECT_EQ(failed.status().fault(), Fault::kCannotCompileModel);
  EXPECT_EQ(Find("a"), before);
  EXPECT_FALSE(before->gate().closed());
  EXPECT_EQ(Index(), "a:1 READY");
  // The same for an invalid entry; then the entry is corrected.
  EXPECT_FALSE(Reload({.models = {Model("a", R"j("shape": "(x)")j")}}).ok());
  EXPECT_EQ(Find("a"), before);
  EXPECT_TRUE(Reload({.models = {Model("a")}}).ok());
  EXPECT_EQ(Find("a"), before);
  EXPECT_EQ(Starts("a:1"), 2);
}

TEST_F(ManagerConfigTest, ABrokenNewVersionKeepsTheOldOneServing) {
  AddVersion("a", "1");
  StartWith({.models = {Model("a")}});
  makers_.set_before([](const OvmsModelConfig&, int64_t version) {
    return version == 2 ? FaultError(Fault::kFileInvalid) : OkStatus();
  });
  AddVersion("a", "2");
  EXPECT_FALSE(manager_->Reload().ok());
  EXPECT_EQ(Index(), "a:1 READY, a:2 UNAVAILABLE failed");
  makers_.set_before(nullptr);
  EXPECT_TRUE(*manager_->Reload());
  AwaitIndex("a:1 UNAVAILABLE, a:2 READY");
}

TEST_F(ManagerConfigTest, AFolderElsewhereTakesOverWhenItsVersionsAreLoaded) {
  AddVersion("a", "1");
  AddVersion("new", "2");
  StartWith({.models = {Model("a")}});
  const std::string moved = R"({"config": {"name": "a", "base_path": "new"}})";
  makers_.set_before([](const OvmsModelConfig&, int64_t version) {
    return version == 2 ? FaultError(Fault::kFileInvalid) : OkStatus();
  });
  EXPECT_FALSE(Reload({.models = {moved}}).ok());
  EXPECT_EQ(Index(), "a:1 READY, a:2 UNAVAILABLE failed");
  EXPECT_FALSE(Reload({.models = {R"({"config": {"name": "a", "base_path": "nothing"}})"}}).ok());
  EXPECT_EQ(Find("a", 1)->gate().closed(), false);
  makers_.set_before(nullptr);
  EXPECT_TRUE(Reload({.models = {moved}}).ok());
  AwaitIndex("a:1 UNAVAILABLE, a:2 READY");
}

TEST_F(ManagerConfigTest, AFileThatIsWrongChangesNothing) {
  AddVersion("a", "1");
  StartWith({.models = {Model("a")}});
  const auto before = Find("a");
  scratch_.Write("config.json", R"({"model_config_list": [], "x": 1})");
  auto failed = manager_->Reload();
  EXPECT_EQ(failed.status().message(), "Reloading config file failed. Check server logs for more info.");
  EXPECT_EQ(failed.status().fault(), Fault::kJsonInvalid);
  EXPECT_FALSE(manager_->Reload().ok());
  scratch_.Remove("config.json");
  failed = manager_->Reload();
  EXPECT_EQ(failed.status().message(), "Config file not found or cannot open.");
  EXPECT_EQ(failed.status().fault(), Fault::kFileInvalid);
  EXPECT_EQ(Find("a"), before);
  EXPECT_TRUE(Reload({.models = {Model("a")}}).ok());
  EXPECT_EQ(Find("a"), before);
}

TEST_F(ManagerConfigTest, StartIsRefusedForAFileThatCannotBeUsed) {
  EXPECT_THAT(Start().message(), HasSubstr("File not found or cannot open - "));
  scratch_.Write("config.json", "{");
  EXPECT_EQ(Start().fault(), Fault::kJsonInvalid);
  EXPECT_FALSE(manager_->serving());
  std::filesystem::remove(scratch_ / "config.json");
  ASSERT_EQ(::mkfifo((scratch_ / "config.json").c_str(), 0600), 0);
  EXPECT_THAT(Start().message(), HasSubstr("not a file"));
}

TEST_F(ManagerConfigTest, TellsTheMetricsSection) {
  scratch_.Write("config.json", R"({"model_config_list": [], "monitoring": {"metrics": {"enable": true}}})");
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(manager_->metrics()->enable);
}

TEST_F(ManagerConfigTest, ALoadedModelKeepsItsTypeOfStatefulness) {
  AddVersion("a", "1");
  StartWith({.models = {Model("a")}});
  const auto before = Find("a");
  EXPECT_EQ(Reload({.models = {Model("a", R"("stateful": true)")}}).status().fault(), Fault::kNone);
  EXPECT_EQ(Find("a"), before);
  EXPECT_EQ(Starts("a:1"), 1);
  EXPECT_TRUE(Reload({.models = {}}).ok());
  EXPECT_TRUE(Reload({.models = {Model("a", R"("stateful": true)")}}).ok());
  EXPECT_EQ(Index(), "a:1 READY");
}

TEST_F(ManagerConfigTest, PollingSeesTheFileAndTheFolders) {
  AddVersion("a", "1");
  options_.poll_seconds = 1;
  StartWith({.models = {Model("a")}});
  AddVersion("a", "2");
  AwaitIndex("a:1 UNAVAILABLE, a:2 READY");
  AddVersion("b", "1");
  Write({.models = {Model("a"), Model("b")}});
  AwaitIndex("a:1 UNAVAILABLE, a:2 READY, b:1 READY");
  EXPECT_FALSE(*manager_->Reload());
}

TEST_F(ManagerConfigTest, PollingTriesAFailedVersionAgainWhenItsFilesHaveChanged) {
  AddVersion("a", "1", "half a n");
  options_.poll_seconds = 1;
  std::atomic<bool> broken = true;
  makers_.set_before([&broken](const OvmsModelConfig&, int64_t) {
    return broken ? FaultError(Fault::kFileInvalid) : OkStatus();
  });
  StartWith({.models = {Model("a")}});
  EXPECT_EQ(Index(), "a:1 UNAVAILABLE failed");
  std::this_thread::sleep_for(std::chrono::milliseconds(2300));
  EXPECT_EQ(Starts("a:1"), 1);
  broken = false;
  AddVersion("a", "1", "half a network");
  AwaitIndex("a:1 READY");
}

TEST_F(ManagerConfigTest, ASingleModelNeedsNoFile) {
  AddVersion("m", "1");
  options_.config_path.clear();
  options_.single_model = *ModelConfigFromOptions({{"model_name", "x"}, {"model_path", scratch_ / "m"}}, "/");
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Index(), "x:1 READY");
  AddVersion("m", "2");
  EXPECT_TRUE(*manager_->Reload());
  AwaitIndex("x:1 UNAVAILABLE, x:2 READY");
}

TEST_F(ManagerConfigTest, GraphsBringTheirModels) {
  scratch_.Write("g/graph.pbtxt", "node {}");
  scratch_.Write("g/subconfig.json",
                 R"({"model_config_list": [)" + Model("inside") + ", " + Model("a") + "]}");
  AddVersion("g/inside", "1");
  AddVersion("a", "1");
  StartWith({.models = {Model("a"), Model("g")}, .graphs = {R"({"name": "h"})", R"({"name": "a"})"}});
  EXPECT_EQ(Index(), "a:1 READY, g:1 READY, h:1 UNAVAILABLE failed, inside:1 READY");
  EXPECT_EQ(catalog_.WhyNotFound("h", -1).message(), "Mediapipe is not loaded yet");
  EXPECT_EQ(FailureOf("h"), StatusCode::kFailedPrecondition);
  EXPECT_THAT(ReasonOf("h"), HasSubstr("File not found or cannot open - "));
  EXPECT_EQ(static_cast<FakeServable&>(*Find("a")).location().version_path, scratch_ / "a/1");
  EXPECT_TRUE(Reload({.models = {Model("a")}}).ok());
  AwaitIndex("a:1 READY, g:1 UNAVAILABLE, h:1 UNAVAILABLE, inside:1 UNAVAILABLE");
  EXPECT_EQ(catalog_.WhyNotFound("g", -1).message(), "Mediapipe is retired");
}

TEST_F(ManagerConfigTest, AGraphIsMadeAnewWhenItsFilesHaveChanged) {
  scratch_.Write("g/graph.pbtxt", "node {}");
  scratch_.Write("g/model.py", "1");
  StartWith({.graphs = {R"({"name": "g"})"}});
  const auto first = Find("g");
  EXPECT_FALSE(*manager_->Reload());
  EXPECT_EQ(Find("g"), first);

  scratch_.Write("g/graph.pbtxt", "node { }");
  EXPECT_TRUE(*manager_->Reload());
  const auto second = Find("g");
  EXPECT_NE(second, first);
  EXPECT_TRUE(first->gate().closed());

  scratch_.Write("g/model.py", "2");
  EXPECT_TRUE(*manager_->Reload());
  const auto third = Find("g");
  EXPECT_NE(third, second);

  // The running graph stays if its successor does not load, and is replaced once it does.
  scratch_.Write("g/graph.pbtxt", "broken");
  EXPECT_FALSE(manager_->Reload().ok());
  EXPECT_EQ(Find("g"), third);
  EXPECT_FALSE(third->gate().closed());
  scratch_.Write("g/graph.pbtxt", "node {}");
  EXPECT_TRUE(*manager_->Reload());
  EXPECT_NE(Find("g"), third);
}

TEST_F(ManagerConfigTest, FilesOfGraphsAreWatchedOnDemand) {
  scratch_.Write("g/graph.pbtxt", "broken");
  options_.watch_graph_files = true;
  options_.poll_seconds = 1;
  StartWith({.graphs = {R"({"name": "g"})"}});
  EXPECT_EQ(Index(), "g:1 UNAVAILABLE failed");
  scratch_.Write("g/graph.pbtxt", "node {}");
  AwaitIndex("g:1 READY");
}

TEST_F(ManagerConfigTest, ASingleGraphTakesNoOptionsOfModels) {
  scratch_.Write("m/1/graph.pbtxt", "node {}");
  options_.config_path.clear();
  options_.single_model =
      *ModelConfigFromOptions({{"model_name", "x"}, {"model_path", scratch_ / "m"}, {"nireq", "2"}}, "/");
  EXPECT_THAT(Start().message(), HasSubstr("'x' is a graph"));
  options_.single_model->nireq = 0;
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Index(), "x:1 READY");
}

TEST_F(ManagerConfigTest, PipelinesAreMadeAfterTheModels) {
  AddVersion("a", "1");
  StartWith({.models = {Model("a")},
             .pipelines = {Pipeline("outer", {"p"}), Pipeline("p", {"a", "lib"}), Pipeline("q", {"b"}),
                           Pipeline("r", {"libbad"})},
             .libraries = {R"({"name": "lib", "base_path": "x.so"})",
                           R"({"name": "libbad", "base_path": "missing.so"})"}});
  EXPECT_EQ(Index(), "a:1 READY, outer:1 READY, p:1 READY, q:1 UNAVAILABLE failed, r:1 UNAVAILABLE failed");
  EXPECT_EQ(FailureOf("q"), StatusCode::kFailedPrecondition);
  EXPECT_EQ(catalog_.WhyNotFound("q", -1).message(), "Pipeline is not loaded yet");
  EXPECT_THAT(ReasonOf("r"), HasSubstr("libbad"));
}

TEST_F(ManagerConfigTest, APipelineFollowsItsModels) {
  AddVersion("a", "1");
  const File with = {.models = {Model("a")}, .pipelines = {Pipeline("p", {"a"}), Pipeline("outer", {"p"})}};
  StartWith(with);
  const auto first = Find("p");
  const auto outer = Find("outer");
  AddVersion("a", "2");
  EXPECT_TRUE(*manager_->Reload());
  const auto second = Find("p");
  EXPECT_NE(first, second);
  EXPECT_NE(Find("outer"), outer);
  EXPECT_TRUE(first->gate().closed());
  AwaitCount("stop p", 1);
  // It is unavailable without its model, and comes back with it.
  EXPECT_TRUE(Reload({.models = {}, .pipelines = with.pipelines}).ok());
  AwaitIndex("a:1 UNAVAILABLE, a:2 UNAVAILABLE, outer:1 UNAVAILABLE failed, p:1 UNAVAILABLE failed");
  EXPECT_EQ(catalog_.WhyNotFound("p", -1).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Reload(with).ok());
  AwaitIndex("a:1 UNAVAILABLE, a:2 READY, outer:1 READY, p:1 READY");
}

TEST_F(ManagerConfigTest, APipelineThatChangesIsMadeAnewAndOthersAreNot) {
  AddVersion("a", "1");
  StartWith({.models = {Model("a")}, .pipelines = {Pipeline("p", {"a"}), Pipeline("q", {"a"})}});
  const auto p = Find("p");
  const auto q = Find("q");
  const std::string changed = Pipeline("p", {"a"}, R"(, "convert_precision": true)");
  EXPECT_TRUE(*Reload({.models = {Model("a")}, .pipelines = {changed, Pipeline("q", {"a"})}}));
  EXPECT_NE(Find("p"), p);
  EXPECT_EQ(Find("q"), q);
  // An invalid definition is not applied.
  const auto second = Find("p");
  const auto failed = Reload({.models = {Model("a")}, .pipelines = {Pipeline("p", {"a", "b"})}});
  EXPECT_EQ(failed.status().message(), "Reloading config file failed. Check server logs for more info.");
  EXPECT_EQ(Find("p"), second);
  AwaitIndex("a:1 READY, p:1 READY, q:1 UNAVAILABLE");
  EXPECT_EQ(catalog_.WhyNotFound("q", -1).message(), "Pipeline is retired");
  // The previous definition is remade with the newer model too.
  AddVersion("a", "2");
  EXPECT_FALSE(manager_->Reload().ok());
  EXPECT_NE(Find("p"), second);
  AwaitIndex("a:1 UNAVAILABLE, a:2 READY, p:1 READY, q:1 UNAVAILABLE");
}

TEST_F(ManagerConfigTest, APipelineIsMadeAnewWithAnotherLibrary) {
  const std::vector<std::string> pipelines = {Pipeline("p", {"lib"}), Pipeline("q", {"libbad"})};
  const std::string bad = R"({"name": "libbad", "base_path": "missing.so"})";
  StartWith({.pipelines = pipelines, .libraries = {R"({"name": "lib", "base_path": "x.so"})", bad}});
  const auto before = Find("p");
  EXPECT_FALSE(manager_->Reload().ok());
  EXPECT_EQ(Find("p"), before);
  EXPECT_EQ(makers_.journal.Count("open lib"), 1);
  EXPECT_EQ(makers_.journal.Count("open libbad"), 2);
  EXPECT_FALSE(
      Reload({.pipelines = pipelines, .libraries = {R"({"name": "lib", "base_path": "y.so"})", bad}}).ok());
  EXPECT_NE(Find("p"), before);
  EXPECT_TRUE(Reload({.pipelines = pipelines,
                      .libraries = {R"({"name": "lib", "base_path": "y.so"})",
                                    R"({"name": "libbad", "base_path": "z.so"})"}})
                  .ok());
  EXPECT_EQ(Index(), "p:1 READY, q:1 READY");
}

TEST_F(ManagerConfigTest, ANameBelongsToOneKind) {
  AddVersion("a", "1");
  StartWith({.models = {Model("a")},
             .pipelines = {Pipeline("a", {}), Pipeline("p", {"a"})},
             .graphs = {R"({"name": "p"})"}});
  EXPECT_EQ(Index(), "a:1 READY, p:1 READY");
  EXPECT_EQ(Find("a")->info().kind, ServableKind::kModel);
  EXPECT_EQ(Find("p")->info().kind, ServableKind::kPipeline);
  // Another kind may take a name that was given up.
  scratch_.Write("p/graph.pbtxt", "node {}");
  EXPECT_TRUE(Reload({.pipelines = {Pipeline("a", {})}, .graphs = {R"({"name": "p"})"}}).ok());
  AwaitIndex("a:1 READY, p:1 READY");
  EXPECT_EQ(Find("a")->info().kind, ServableKind::kPipeline);
  EXPECT_EQ(Find("p")->info().kind, ServableKind::kGraph);
  AwaitCount("stop a:1", 1);
  std::filesystem::remove(scratch_ / "p/graph.pbtxt");
  EXPECT_EQ(Reload({.models = {Model("a"), Model("p")}}).status().fault(), Fault::kNoModelVersionAvailable);
  AwaitIndex("a:1 READY, p");
  EXPECT_EQ(Find("a")->info().kind, ServableKind::kModel);
}

// Requests enter continuously while models and pipelines are reloaded.
TEST_F(ManagerConfigTest, NoRequestIsLostToAReload) {
  AddVersion("a", "1");
  const std::vector<std::string> pipelines = {Pipeline("p", {"a"})};
  StartWith({.models = {Model("a")}, .pipelines = pipelines});
  std::atomic<bool> done = false;
  std::atomic<int> lost = 0;
  std::atomic<int> served = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      CatalogReader reader(catalog_);
      while (!done) {
        auto model = reader.Find("a", -1);
        auto pipeline = reader.Find("p", -1);
        if (!model.ok() || !pipeline.ok()) {
          ++lost;
          continue;
        }
        ++served;
        // The servables behind the pipeline are open, or a newer pipeline is in the catalog already.
        if (!dynamic_cast<FakePipeline&>((*pipeline)->get()).CanRun() &&
            Find("p").get() == &(*pipeline)->get()) {
          ++lost;
        }
      }
    });
  }
  for (int i = 1; i <= 30; ++i) {
    EXPECT_TRUE(
        Reload({.models = {Model("a", R"("nireq": )" + std::to_string(i))}, .pipelines = pipelines}).ok());
    if (i % 10 == 0) {
      AddVersion("a", std::to_string(i));
      EXPECT_TRUE(manager_->Reload().ok());
    }
  }
  while (served < 100) std::this_thread::yield();
  done = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(lost, 0);
  AwaitCount("stop p", 33);
}

TEST_F(ManagerConfigTest, AVersionStopsWhenItsLastRequestHasLeft) {
  AddVersion("a", "1");
  StartWith({.models = {Model("a")}});
  CatalogReader reader(catalog_);
  auto handle = reader.Find("a", -1);
  ASSERT_TRUE(handle.ok());
  EXPECT_TRUE(*Reload({}));
  EXPECT_EQ(Index(), "a:1 UNLOADING");
  EXPECT_EQ(makers_.journal.Count("stop a:1"), 0);
  handle = NotFoundError("left");
  AwaitIndex("a:1 UNAVAILABLE");
  AwaitCount("stop a:1", 1);
}

TEST_F(ManagerConfigTest, AReloadWaitsForTheRequestsOfWhatItRetires) {
  AddVersion("a", "1");
  options_.retire_wait_ns = 60 * kSecondNs;
  StartWith({.models = {Model("a")}});
  CatalogReader reader(catalog_);
  auto handle = reader.Find("a", -1);
  ASSERT_TRUE(handle.ok());
  std::thread reload([&] {
    EXPECT_TRUE(*Reload({}));
    EXPECT_EQ(Index(), "a:1 UNAVAILABLE");
  });
  AwaitIndex("a:1 UNLOADING");
  handle = NotFoundError("left");
  reload.join();
}

TEST_F(ManagerConfigTest, ShutdownStopsEverythingOnce) {
  AddVersion("a", "1");
  StartWith({.models = {Model("a")}, .pipelines = {Pipeline("p", {"a"})}});
  EXPECT_TRUE(manager_->Shutdown(SteadyNowNs() + 5 * kSecondNs).ok());
  EXPECT_EQ(makers_.journal.Count("stop a:1"), 1);
  EXPECT_EQ(makers_.journal.Count("stop p"), 1);
  EXPECT_EQ(Index(), "a:1 UNAVAILABLE, p:1 UNAVAILABLE");
  EXPECT_EQ(manager_->Reload().status().message(), "Server exiting");
  EXPECT_FALSE(manager_->serving());
}

TEST_F(ManagerConfigTest, ShutdownWhileAModelIsLoading) {
  AddVersion("a", "1");
  AddVersion("b", "1");
  StartWith({.models = {Model("a")}});
  Door door;
  makers_.set_before([&door](const OvmsModelConfig&, int64_t) {
    door.Pass();
    return OkStatus();
  });
  Write({.models = {Model("a"), Model("b")}});
  std::thread reload([this] { EXPECT_FALSE(manager_->Reload().ok()); });
  door.WaitForVisitor();
  EXPECT_EQ(Index(), "a:1 READY, b:1 LOADING");
  const int64_t begin = SteadyNowNs();
  const Status stuck = manager_->Shutdown(SteadyNowNs() + kSecondNs / 10);
  EXPECT_EQ(stuck.code(), StatusCode::kUnavailable);
  EXPECT_LT(SteadyNowNs() - begin, 4 * kSecondNs);
  EXPECT_EQ(makers_.journal.Count("stop a:1"), 1);
  door.Open();
  reload.join();
  // A load that ends too late is stopped and never served.
  EXPECT_EQ(makers_.journal.Count("stop b:1"), 1);
  EXPECT_EQ(Find("b"), nullptr);
}

TEST_F(ManagerConfigTest, ReloadsFromManyThreadsTakeTurns) {
  AddVersion("a", "1");
  options_.poll_seconds = 1;
  StartWith({.models = {Model("a")}, .pipelines = {Pipeline("p", {"a"})}});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int k = 0; k < 20; ++k) {
        AddVersion("a", std::to_string(2 + i * 20 + k));
        EXPECT_TRUE(manager_->Reload().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(Find("a", 81), nullptr);
  EXPECT_TRUE(static_cast<FakePipeline&>(*Find("p")).UpToDate());
}

// Model folders beside the config.json.
class TwoSourcesTest : public ManagerConfigTest {
 protected:
  TwoSourcesTest() {
    std::filesystem::create_directories(scratch_ / "models");
    std::filesystem::create_directories(scratch_ / "tmp");
    folders_.emplace();
    folders_->model_repositories = {scratch_ / "models"};
    folders_->control_mode = ControlMode::kExplicit;
    folders_->temporary_directory = scratch_ / "tmp";
  }
  void AddFolder(const std::string& name) {
    scratch_.Write("models/" + name + "/config.pbtxt",
                   "backend: 'python' input { name: 'IN' data_type: TYPE_FP32 dims: [4] }");
    scratch_.Write("models/" + name + "/1/model.py", "pass");
  }
};

TEST_F(TwoSourcesTest, APipelineFollowsAModelOfAFolder) {
  AddFolder("py");
  StartWith({.pipelines = {Pipeline("p", {"py"})}});
  EXPECT_EQ(Index(), "p:1 UNAVAILABLE failed, py");
  ASSERT_TRUE(manager_->Load({"py", {}, {}}).ok());
  AwaitIndex("p:1 READY, py:1 READY");
  ASSERT_TRUE(manager_->Unload("py", false, {}).ok());
  AwaitIndex("p:1 UNAVAILABLE failed, py:1 UNAVAILABLE");
  ASSERT_TRUE(manager_->Load({"py", {}, {}}).ok());
  AwaitIndex("p:1 READY, py:1 READY");
}

TEST_F(TwoSourcesTest, ANameIsThatOfWhoCameFirst) {
  AddFolder("both");
  AddVersion("both", "7");
  StartWith({.models = {Model("both")}, .pipelines = {Pipeline("both", {})}});
  EXPECT_EQ(Index(), "both");
  ASSERT_TRUE(manager_->Load({"both", {}, {}}).ok());
  EXPECT_EQ(Index(), "both:1 READY");
  EXPECT_FALSE(manager_->Reload().ok());
  EXPECT_EQ(Index(), "both:1 READY");

  AddVersion("mine", "1");
  EXPECT_TRUE(Reload({.models = {Model("mine")}}).ok());
  AddFolder("mine");
  EXPECT_EQ(manager_->Load({"mine", {}, {}}).message(), "Given model name is already occupied - mine");
  EXPECT_TRUE(manager_->Unload("mine", false, {}).ok());
  scratch_.Remove("models/mine");
  (void)manager_->Load({"mine", {}, {}});
  EXPECT_EQ(Index(), "both:1 READY, mine:1 READY");
}

}  // namespace
}  // namespace braid
