// The sequences of loaded models over reloads, unloads and restarts: kept with a vault, dropped without one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/clock.h"
#include "config/testing/scratch_folder.h"
#include "repository/manager.h"
#include "repository/testing/door.h"
#include "repository/testing/fake_config.h"
#include "sequences/sequence_vault.h"
#include "sequences/testing/fake_sequences.h"

namespace braid {
namespace {

using testing::Door;
using testing::FakeBackend;
using testing::FakeConfigMakers;
using testing::FakeStateful;
using testing::Journal;
using testing::KeeperOf;
using testing::ScratchFolder;

constexpr int64_t kSecondNs = 1000000000;
using Sums = std::map<CorrelationId, int32_t>;
const Sums kOne = {{uint64_t{1}, 11}};

class HandOverTest : public ::testing::Test {
 protected:
  HandOverTest() {
    for (const LogLevel level : {LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
      log_.set_enabled(level, false);
    }
    OpenVault();
  }

  void OpenVault() {
    vault_.reset();
    auto vault = SequenceVault::Open({.path = scratch_ / "states", .interval_ns = 0}, log_);
    ASSERT_TRUE(vault.ok()) << vault.status();
    vault_ = std::move(vault).value();
  }
  template <class Condition>
  static void Await(Condition condition) {
    const int64_t deadline = SteadyNowNs() + 20 * kSecondNs;
    while (!condition() && SteadyNowNs() < deadline) std::this_thread::yield();
    EXPECT_TRUE(condition());
  }
  bool Exists(const std::string& file) const { return std::filesystem::exists(scratch_ / file); }

  ScratchFolder scratch_;
  Logger log_;
  std::unique_ptr<SequenceVault> vault_;
};

// ---- config.json ----

class ConfigHandOverTest : public HandOverTest {
 protected:
  ConfigHandOverTest() {
    scratch_.Write("m/1/model.xml", "net");
    Write("");
  }
  ~ConfigHandOverTest() override { Shutdown(); }

  void Write(const std::string& more) {
    scratch_.Write("config.json",
                   R"({"model_config_list": [{"config": {"name": "m", "base_path": "m", "stateful": true)" +
                       more + "}}]}");
  }
  void Start() {
    ManagerOptions options;
    options.config.emplace();
    options.config->config_path = scratch_ / "config.json";
    options.config->poll_seconds = 0;
    options.exit_timeout_seconds = 5;
    options.sequence_vault = vault_.get();
    catalog_ = std::make_unique<Catalog>(Dialect::kOvms);
    makers_ = std::make_unique<FakeConfigMakers>(*catalog_);
    manager_ = std::make_unique<Manager>(options, *catalog_, FolderMakers(), makers_->Makers(), log_);
    Status loaded;
    const Status started = manager_->Start(loaded);
    EXPECT_TRUE(started.ok()) << started;
  }
  void Shutdown() {
    if (manager_ == nullptr) return;
    EXPECT_TRUE(manager_->Shutdown(SteadyNowNs() + 5 * kSecondNs).ok());
    manager_.reset();
  }
  void Restart() {
    Shutdown();
    OpenVault();
    Start();
  }
  void Reload(const std::string& more) {
    Write(more);
    const auto reloaded = manager_->Reload();
    ASSERT_TRUE(reloaded.ok()) << reloaded.status();
    ASSERT_TRUE(*reloaded);
  }
  std::shared_ptr<Servable> Find() const {
    auto found = catalog_->Find("m", -1);
    return found.ok() ? *found : nullptr;
  }

  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<FakeConfigMakers> makers_;
  std::unique_ptr<Manager> manager_;
};

TEST_F(ConfigHandOverTest, AReloadWaitsForTheLastRequest) {
  Start();
  const auto before = Find();
  EXPECT_EQ(before->info().sequence_identity.size(), 32u);
  auto request = ServableHandle::Enter(before);
  Reload(R"(, "nireq": 4)");
  const auto after = Find();
  ASSERT_NE(after, before);
  EXPECT_EQ(after->info().sequence_identity, before->info().sequence_identity);
  EXPECT_TRUE(KeeperOf(*after).holding());
  KeeperOf(*before).Set(uint64_t{1}, 11);
  request.reset();
  Await([&] { return !KeeperOf(*after).holding(); });
  EXPECT_EQ(KeeperOf(*after).sums(), kOne);
}

TEST_F(ConfigHandOverTest, AReloadLetsTheLastRequestsNotWaitForThoseThatAreHeld) {
  Start();
  const auto before = Find();
  auto request = ServableHandle::Enter(before);
  KeeperOf(*before).on_drain = [&] {
    EXPECT_TRUE(before->gate().closed());
    KeeperOf(*before).Set(uint64_t{1}, 11);
    request.reset();
  };
  Reload(R"(, "nireq": 4)");
  const auto after = Find();
  Await([&] { return !KeeperOf(*after).holding(); });
  EXPECT_EQ(KeeperOf(*after).sums(), kOne);
}

TEST_F(ConfigHandOverTest, TheServersEndLetsRequestsNotWaitForThoseThatDoNotCome) {
  Start();
  const auto last = Find();
  auto request = ServableHandle::Enter(last);
  KeeperOf(*last).on_drain = [&] {
    KeeperOf(*last).Set(uint64_t{1}, 11);
    request.reset();
  };
  Restart();
  EXPECT_EQ(KeeperOf(*Find()).sums(), kOne);
}

TEST_F(ConfigHandOverTest, AReloadWithAnotherModelFileDropsThem) {
  Start();
  const auto before = Find();
  KeeperOf(*before).Set(uint64_t{1}, 11);
  scratch_.Write("m/1/model.xml", "another net");
  Reload(R"(, "nireq": 4)");
  const auto after = Find();
  Await([&] { return KeeperOf(*after).restores() == 1; });
  EXPECT_EQ(KeeperOf(*after).sums(), Sums());
  EXPECT_FALSE(KeeperOf(*after).holding());
}

TEST_F(ConfigHandOverTest, AFailedReloadLeavesThemWhereTheyAre) {
  Start();
  const auto before = Find();
  KeeperOf(*before).Set(uint64_t{1}, 11);
  makers_->set_before([](const OvmsModelConfig&, int64_t) { return InternalError("no"); });
  Write(R"(, "nireq": 4)");
  EXPECT_FALSE(manager_->Reload().ok());
  EXPECT_EQ(Find(), before);
  makers_->set_before({});
  Reload(R"(, "nireq": 5)");
  const auto after = Find();
  Await([&] { return KeeperOf(*after).restores() == 1; });
  EXPECT_EQ(KeeperOf(*after).sums(), kOne);
}

TEST_F(ConfigHandOverTest, TheyOutlastARestart) {
  Start();
  KeeperOf(*Find()).Set(uint64_t{1}, 11);
  Restart();
  EXPECT_EQ(KeeperOf(*Find()).sums(), kOne);
  scratch_.Write("m/1/model.xml", "another net");
  Restart();
  EXPECT_EQ(KeeperOf(*Find()).sums(), Sums());
  EXPECT_TRUE(Exists("states/m.1.sequences.other-model"));
}

TEST_F(ConfigHandOverTest, TheyOutlastARequestThatIsStillRunningAtTheEnd) {
  Start();
  KeeperOf(*Find()).Set(uint64_t{1}, 11);
  const auto stuck = ServableHandle::Enter(Find());
  EXPECT_TRUE(manager_->Shutdown(SteadyNowNs() + kSecondNs / 10).ok());
  manager_.reset();
  OpenVault();
  Start();
  EXPECT_EQ(KeeperOf(*Find()).sums(), kOne);
}

TEST_F(ConfigHandOverTest, ARetiredVersionFindsThemWhenItComesBack) {
  Start();
  KeeperOf(*Find()).Set(uint64_t{1}, 11);
  scratch_.Write("config.json", R"({"model_config_list": []})");
  ASSERT_TRUE(manager_->Reload().ok());
  Await([this] { return Exists("states/m.1.sequences"); });
  Reload("");
  Await([this] { return KeeperOf(*Find()).sums() == kOne; });
}

TEST_F(ConfigHandOverTest, ALoadThatTheServersEndOvertakesKeepsThem) {
  Start();
  auto request = ServableHandle::Enter(Find());
  KeeperOf(*Find()).Set(uint64_t{1}, 11);
  Door door;
  makers_->set_before([&door](const OvmsModelConfig&, int64_t) {
    door.Pass();
    return OkStatus();
  });
  Write(R"(, "nireq": 4)");
  std::thread reload([this] { (void)manager_->Reload(); });
  door.WaitForVisitor();
  std::thread shutdown([this] { EXPECT_TRUE(manager_->Shutdown(SteadyNowNs() + 20 * kSecondNs).ok()); });
  Await([this] { return !manager_->serving(); });
  door.Open();
  reload.join();
  request.reset();
  shutdown.join();
  manager_.reset();
  OpenVault();
  Start();
  EXPECT_EQ(KeeperOf(*Find()).sums(), kOne);
}

TEST_F(ConfigHandOverTest, WithoutAVaultNothingIsHeldAndNothingKept) {
  vault_.reset();
  std::filesystem::remove_all(scratch_ / "states");
  Start();
  const auto before = Find();
  EXPECT_EQ(before->info().sequence_identity, "");
  auto request = ServableHandle::Enter(before);
  KeeperOf(*before).Set(uint64_t{1}, 11);
  Reload(R"(, "nireq": 4)");
  const auto after = Find();
  EXPECT_FALSE(KeeperOf(*after).holding());
  request.reset();
  Await([this] { return makers_->journal.Count("stop m:1") == 1; });
  EXPECT_EQ(KeeperOf(*after).restores(), 0);
  EXPECT_EQ(KeeperOf(*after).sums(), Sums());
  Shutdown();
  EXPECT_FALSE(Exists("states"));
}

// ---- model repositories ----

class ModelHandOverTest : public HandOverTest {
 protected:
  ModelHandOverTest() {
    Write("config.pbtxt", Config(1, 4));
    Write("1/model.py", "pass");
  }
  ~ModelHandOverTest() override { Shutdown(); }

  // A write must be detected even if the file system's clock has not advanced.
  void Write(const std::string& file, const std::string& text) {
    scratch_.Write("models/m/" + file, text);
    struct timespec times[2] = {};
    times[0].tv_sec = times[1].tv_sec = 1000000 + ++writes_;
    ::utimensat(AT_FDCWD, (scratch_ / ("models/m/" + file)).c_str(), times, 0);
  }
  static std::string Config(int instances, int state_size) {
    return "backend: 'python' input { name: 'IN' data_type: TYPE_FP32 dims: [4] } "
           "output { name: 'OUT' data_type: TYPE_FP32 dims: [4] } instance_group { kind: KIND_CPU count: " +
           std::to_string(instances) +
           " } sequence_batching { state { input_name: 'S_IN' output_name: 'S_OUT' data_type: TYPE_INT32 "
           "dims: [" +
           std::to_string(state_size) + "] } }";
  }
  void Start() {
    FolderOptions folders;
    folders.model_repositories = {scratch_ / "models"};
    folders.control_mode = ControlMode::kExplicit;
    folders.startup_models = {"m"};
    folders.temporary_directory = scratch_.path();
    ManagerOptions options;
    options.folders = folders;
    options.exit_timeout_seconds = 5;
    options.sequence_vault = vault_.get();
    catalog_ = std::make_unique<Catalog>();
    FolderMakers makers;
    makers.backends = {&backend_};
    makers.make_model = [this](ServableInfo info, std::unique_ptr<BackendModel> model,
                               const std::function<void(const std::string&)>&) {
      return Result<std::shared_ptr<Servable>>(
          std::make_shared<FakeStateful>(std::move(info), std::move(model), journal_));
    };
    manager_ = std::make_unique<Manager>(options, *catalog_, std::move(makers), ConfigMakers(), log_);
    Status started;
    EXPECT_TRUE(manager_->Start(started).ok());
    EXPECT_TRUE(started.ok()) << started;
  }
  void Shutdown() {
    if (manager_ == nullptr) return;
    EXPECT_TRUE(manager_->Shutdown(SteadyNowNs() + 5 * kSecondNs).ok());
    manager_.reset();
  }
  Status Load() { return manager_->Load({.model_name = "m", .config_json = {}, .files = {}}); }
  std::shared_ptr<Servable> Find() const {
    auto found = catalog_->Find("m", -1);
    return found.ok() ? *found : nullptr;
  }

  int writes_ = 0;
  Journal journal_;
  FakeBackend backend_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<Manager> manager_;
};

TEST_F(ModelHandOverTest, AReloadWaitsForTheLastRequest) {
  Start();
  const auto before = Find();
  EXPECT_EQ(before->info().sequence_identity.size(), 32u);
  auto request = ServableHandle::Enter(before);
  Write("config.pbtxt", Config(3, 4));
  ASSERT_TRUE(Load().ok());
  const auto after = Find();
  ASSERT_NE(after, before);
  EXPECT_TRUE(KeeperOf(*after).holding());
  KeeperOf(*before).Set(uint64_t{1}, 11);
  request.reset();
  Await([&] { return !KeeperOf(*after).holding(); });
  EXPECT_EQ(KeeperOf(*after).sums(), kOne);
}

TEST_F(ModelHandOverTest, AReloadAndAnUnloadLetTheLastRequestsNotWaitForOthers) {
  Start();
  auto before = Find();
  auto request = ServableHandle::Enter(before);
  KeeperOf(*before).on_drain = [&] {
    KeeperOf(*before).Set(uint64_t{1}, 11);
    request.reset();
  };
  Write("config.pbtxt", Config(3, 4));
  ASSERT_TRUE(Load().ok());
  const auto after = Find();
  Await([&] { return KeeperOf(*after).restores() == 1 && !KeeperOf(*after).holding(); });
  EXPECT_EQ(KeeperOf(*after).sums(), kOne);
  auto last = ServableHandle::Enter(after);
  KeeperOf(*after).on_drain = [&] { last.reset(); };
  ASSERT_TRUE(manager_->Unload("m", false, {}).ok());
  Await([this] { return journal_.Count("stop m:1") == 2; });
}

TEST_F(ModelHandOverTest, OtherFilesAndOtherStatesDropThem) {
  Start();
  for (const auto& [file, text] : std::vector<std::pair<std::string, std::string>>{
           {"1/model.py", "return"}, {"config.pbtxt", Config(1, 5)}}) {
    KeeperOf(*Find()).Set(uint64_t{1}, 11);
    Write(file, text);
    ASSERT_TRUE(Load().ok());
    Await([this] { return KeeperOf(*Find()).restores() == 1; });
    EXPECT_EQ(KeeperOf(*Find()).sums(), Sums());
  }
}

TEST_F(ModelHandOverTest, TheyOutlastAnUnloadAndARestart) {
  Start();
  KeeperOf(*Find()).Set(uint64_t{1}, 11);
  ASSERT_TRUE(manager_->Unload("m", false, {}).ok());
  // The first one may still be draining.
  ASSERT_TRUE(Load().ok());
  Await([this] { return KeeperOf(*Find()).sums() == kOne; });
  Shutdown();
  OpenVault();
  Start();
  EXPECT_EQ(KeeperOf(*Find()).sums(), kOne);
}

TEST_F(ModelHandOverTest, WithoutAVaultTheyEnd) {
  vault_.reset();
  std::filesystem::remove_all(scratch_ / "states");
  Start();
  EXPECT_EQ(Find()->info().sequence_identity, "");
  KeeperOf(*Find()).Set(uint64_t{1}, 11);
  Write("config.pbtxt", Config(3, 4));
  ASSERT_TRUE(Load().ok());
  Await([this] { return journal_.Count("stop m:1") == 1; });
  EXPECT_EQ(KeeperOf(*Find()).restores(), 0);
  EXPECT_EQ(KeeperOf(*Find()).sums(), Sums());
  EXPECT_FALSE(Exists("states"));
}

}  // namespace
}  // namespace braid
