#include "repository/servable_table.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"
#include "base/testing/failing_allocation.h"
#include "config/testing/scratch_folder.h"
#include "repository/testing/fake_backend.h"
#include "repository/testing/fake_manager.h"

namespace braid {
namespace {

using testing::FakeModel;
using testing::FakeServable;
using testing::Journal;

constexpr int64_t kSecondNs = 1000000000;

class ServableTableTest : public ::testing::Test {
 protected:
  ServableTableTest() { log_.set_enabled(LogLevel::kInfo, false); }
  ~ServableTableTest() override {
    table_.Close();
    table_.RetireAll();
    EXPECT_TRUE(drains_.WaitUntilEmpty(SteadyNowNs() + 20 * kSecondNs));
    drains_.Reap();
  }

  std::shared_ptr<Servable> Make(const std::string& name, int64_t version,
                                 ServableKind kind = ServableKind::kModel) {
    ServableInfo info;
    info.name = name;
    info.kind = kind;
    info.version = version;
    return std::make_shared<FakeServable>(std::move(info), std::make_unique<FakeModel>(ModelLocation{}),
                                          journal_);
  }
  static LoadRequest Request(const std::string& name) { return {name, {}, {}}; }
  LoadPlan Plan(std::map<int64_t, uint64_t> keys, const std::set<std::string>& uses = {}) {
    std::set<ServableUse> all;
    for (const std::string& name : uses) all.insert({name, -1});
    return {.source = {.folder = Folder::Open(scratch_ / ".").value()},
            .fingerprint = 1,
            .keys = std::move(keys),
            .uses = std::move(all),
            .uses_key = 0};
  }
  // Runs a successful load from disk; returns the built versions.
  std::vector<int64_t> Load(const std::string& name, LoadPlan plan) {
    EXPECT_TRUE(table_.Claim({name}).ok());
    auto built = LoadClaimed(Request(name), std::move(plan));
    table_.Release(name, OkStatus());
    return built;
  }
  std::vector<int64_t> LoadClaimed(const LoadRequest& request, LoadPlan plan) {
    const std::string& name = request.model_name;
    table_.NoteRequest(request);
    table_.NoteFolder(name, true);
    table_.NotePlan(request, plan);
    auto versions = table_.BeginBuilds(name, plan.keys);
    EXPECT_TRUE(versions.ok());
    ServableTable::Built built;
    for (const int64_t version : *versions) built.emplace(version, Make(name, version));
    ServableTable::RetiredServables leaving;
    EXPECT_TRUE(table_.Serve(request, plan, std::move(built), leaving));
    table_.Drain(std::move(leaving));
    return *versions;
  }
  // Runs a load from disk whose builds fail.
  void FailLoad(const std::string& name, LoadPlan plan) {
    EXPECT_TRUE(table_.Claim({name}).ok());
    table_.NoteRequest(Request(name));
    EXPECT_FALSE(table_.NotePlan(Request(name), plan));
    EXPECT_TRUE(table_.BeginBuilds(name, plan.keys).ok());
    table_.AbandonBuilds(name, {});
    table_.Release(name, InvalidArgumentError("lacks something"));
  }
  void ServeOfConfig(const std::string& name, int64_t version, ServableKind kind = ServableKind::kModel) {
    ASSERT_TRUE(table_.Own(name, kind).ok());
    ServableTable::RetiredServables leaving;
    EXPECT_TRUE(table_.Serve(Make(name, version, kind), leaving));
    table_.Drain(std::move(leaving));
  }
  void RetireOfConfig(const std::string& name, int64_t version) {
    ServableTable::RetiredServables leaving;
    table_.Retire(name, version, ServableKind::kModel, leaving);
    EXPECT_EQ(leaving.size(), 1u);
    table_.Drain(std::move(leaving));
  }
  Status Unload(const std::string& name) {
    ServableTable::RetiredServables leaving;
    BRAID_RETURN_IF_ERROR(table_.Unload(name, leaving));
    table_.Drain(std::move(leaving));
    return OkStatus();
  }

  std::string Index() const { return testing::IndexText(catalog_); }
  void AwaitIndex(const std::string& expected) {
    const int64_t deadline = SteadyNowNs() + 20 * kSecondNs;
    while (Index() != expected && SteadyNowNs() < deadline) std::this_thread::yield();
    EXPECT_EQ(Index(), expected);
  }

  testing::ScratchFolder scratch_;
  Logger log_;
  Journal journal_;
  Catalog catalog_;
  Drains drains_{5};
  ServableTable table_{catalog_, drains_, log_};
};

using Versions = std::vector<int64_t>;

TEST_F(ServableTableTest, ClaimsAllOrNone) {
  ASSERT_TRUE(table_.Claim({"a", "b"}).ok());
  const Status busy =
      UnavailableError("a related model 'b' to a load/unload request is currently loading or unloading");
  EXPECT_EQ(table_.Claim({"b", "c"}), busy);
  EXPECT_EQ(table_.CheckUnclaimed({"b"}), busy);
  EXPECT_TRUE(table_.CheckUnclaimed({"c"}).ok());
  EXPECT_EQ(table_.Unfinished(), (std::vector<std::string>{"a", "b"}));
  table_.Release("a", OkStatus());
  table_.Release("b", OkStatus());
  EXPECT_TRUE(table_.Claim({"b", "c"}).ok());
  table_.Release("b", OkStatus());
  table_.Release("c", OkStatus());
  // None of them is on disk or in memory.
  EXPECT_TRUE(table_.Unfinished().empty());
  EXPECT_EQ(Index(), "");
}

TEST_F(ServableTableTest, BuildsWhatHasAnotherKeyAndRetiresWhatIsNotInThePlan) {
  EXPECT_EQ(Load("m", Plan({{1, 10}, {2, 20}})), (Versions{1, 2}));
  EXPECT_EQ(Index(), "m:1 READY, m:2 READY");
  EXPECT_EQ(Load("m", Plan({{2, 20}, {3, 30}})), Versions{3});
  AwaitIndex("m:1 UNAVAILABLE unloaded, m:2 READY, m:3 READY");
  EXPECT_EQ(Load("m", Plan({{2, 21}, {3, 30}})), Versions{2});
  const int64_t deadline = SteadyNowNs() + 20 * kSecondNs;
  while (journal_.Count("stop m:2") == 0 && SteadyNowNs() < deadline) std::this_thread::yield();
  EXPECT_EQ(journal_.Count("stop m:2"), 1);
  EXPECT_EQ(Index(), "m:1 UNAVAILABLE unloaded, m:2 READY, m:3 READY");
}

TEST_F(ServableTableTest, AbandonedBuildsLeaveWhatServes) {
  Load("m", Plan({{1, 10}}));
  ASSERT_TRUE(table_.Claim({"m"}).ok());
  const auto versions = table_.BeginBuilds("m", {{1, 11}, {2, 20}, {3, 30}});
  ASSERT_TRUE(versions.ok());
  EXPECT_EQ(*versions, (Versions{1, 2, 3}));
  table_.NoteProgress("m", 1, "not seen");
  table_.NoteProgress("m", 2, "half way");
  EXPECT_EQ(Index(), "m:1 READY, m:2 LOADING half way, m:3 LOADING");
  table_.AbandonBuilds("m", {{1, "no luck"}, {3, "none either"}});
  table_.Release("m", InternalError("no luck"));
  EXPECT_EQ(Index(), "m:1 READY, m:2 UNAVAILABLE unloaded, m:3 UNAVAILABLE none either");
}

TEST_F(ServableTableTest, KnowsWhichModelsAreLoadedAgainWhenTheirFilesChange) {
  table_.NoteFolders({"never", "failed", "m", "files"});
  EXPECT_EQ(table_.ReloadOf("never"), std::nullopt);
  EXPECT_EQ(table_.ReloadOf("unknown"), std::nullopt);
  FailLoad("failed", Plan({{1, 10}}));
  ASSERT_TRUE(table_.ReloadOf("failed").has_value());

  ASSERT_TRUE(table_.Claim({"m"}).ok());
  LoadClaimed({"m", "{}", {}}, Plan({{1, 10}}));
  table_.Release("m", OkStatus());
  ASSERT_TRUE(table_.ReloadOf("m").has_value());
  EXPECT_EQ(table_.ReloadOf("m")->config_json, "{}");
  LoadPlan changed = Plan({{1, 11}});
  changed.fingerprint = 2;
  FailLoad("m", std::move(changed));  // with the configuration of the disk
  EXPECT_EQ(table_.ReloadOf("m")->config_json, "{}");
  ASSERT_TRUE(Unload("m").ok());
  EXPECT_EQ(table_.ReloadOf("m"), std::nullopt);

  ASSERT_TRUE(table_.Claim({"files"}).ok());
  LoadPlan plan = Plan({{1, 10}});
  plan.source.temporary_files = std::make_shared<int>();
  LoadClaimed({"files", "{}", {{"1/model.py", "x"}}}, std::move(plan));
  table_.Release("files", OkStatus());
  EXPECT_EQ(table_.ReloadOf("files"), std::nullopt);
}

TEST_F(ServableTableTest, AServingVersionHasTheReasonWhyItsNewFilesDoNotServe) {
  Load("m", Plan({{1, 10}, {2, 20}}));
  table_.NoteReload("m", "no luck");
  table_.NoteReload("unknown", "no luck");
  EXPECT_EQ(Index(), "m:1 READY no luck, m:2 READY no luck");
  table_.NoteReload("m", "");
  EXPECT_EQ(Index(), "m:1 READY, m:2 READY");
}

TEST_F(ServableTableTest, AVersionThatIsLoadedAgainWhileItDrainsStaysReady) {
  Load("m", Plan({{1, 10}}));
  auto request = ServableHandle::Enter(catalog_.Find("m", 1).value());
  ASSERT_TRUE(Unload("m").ok());
  EXPECT_EQ(Index(), "m:1 UNLOADING");
  EXPECT_EQ(Load("m", Plan({{1, 10}})), Versions{1});
  request.reset();
  EXPECT_TRUE(drains_.WaitUntilEmpty(SteadyNowNs() + 20 * kSecondNs));
  EXPECT_EQ(Index(), "m:1 READY");
}

TEST_F(ServableTableTest, NothingNewServesOnceItIsClosed) {
  Load("m", Plan({{1, 10}}));
  ASSERT_TRUE(table_.Claim({"m"}).ok());
  const LoadPlan plan = Plan({{1, 11}, {2, 20}});
  ASSERT_TRUE(table_.BeginBuilds("m", plan.keys).ok());
  ServableTable::RetiredServables leaving;
  EXPECT_EQ(table_.Unload("m", leaving).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(leaving.empty());
  table_.Close();
  table_.RetireAll();
  EXPECT_FALSE(table_.Serves("m"));
  ServableTable::RetiredServables none;
  EXPECT_FALSE(table_.Serve(Request("m"), plan, {{1, Make("m", 1)}, {2, Make("m", 2)}}, none));
  EXPECT_TRUE(none.empty());
  table_.AbandonBuilds("m", {});
  table_.Release("m", UnavailableError("Server exiting"));
  AwaitIndex("m:1 UNAVAILABLE unloaded, m:2 UNAVAILABLE unloaded");
}

TEST_F(ServableTableTest, PollingLooksAtWhatDoesNotServeAndAtFoldersThatHaveChanged) {
  table_.NoteFolders({"m", "n"});
  EXPECT_EQ(Index(), "m, n");
  EXPECT_TRUE(table_.NeedsLoad("m", 1));
  EXPECT_TRUE(table_.NeedsLoad("unknown", 1));
  Load("m", Plan({{1, 10}}));
  EXPECT_FALSE(table_.NeedsLoad("m", 1));
  EXPECT_FALSE(table_.NeedsLoad("m", std::nullopt));
  EXPECT_TRUE(table_.NeedsLoad("m", 2));
  EXPECT_EQ(table_.GoneFrom({"n"}), std::vector<std::string>{"m"});
  table_.NoteFolders({});
  EXPECT_EQ(Index(), "m:1 READY");
  ASSERT_TRUE(Unload("m").ok());
  AwaitIndex("");
}

TEST_F(ServableTableTest, ANameOfTheConfigStaysInTheCatalog) {
  ASSERT_TRUE(table_.Own("theirs", ServableKind::kModel).ok());
  const Status occupied = AlreadyExistsError("Given model name is already occupied - theirs");
  table_.NoteFolders({"theirs"});
  ASSERT_TRUE(table_.Claim({"theirs"}).ok());
  EXPECT_EQ(table_.CheckFree("theirs"), occupied);
  EXPECT_EQ(table_.BeginBuilds("theirs", {{1, 10}}).status(), occupied);
  table_.Release("theirs", occupied);
  table_.NoteFolders({});
  EXPECT_EQ(Index(), "theirs");
}

TEST_F(ServableTableTest, ANameThatTheConfigBringsDuringALoadIsItsOwn) {
  ASSERT_TRUE(table_.Claim({"m"}).ok());
  EXPECT_TRUE(table_.CheckFree("m").ok());
  ASSERT_TRUE(table_.Own("m", ServableKind::kModel).ok());
  EXPECT_FALSE(table_.BeginBuilds("m", {{1, 10}}).ok());
  table_.Release("m", InternalError("occupied"));
  EXPECT_EQ(Index(), "m");
}

TEST_F(ServableTableTest, KnowsWhetherAPlanBringsAnythingNew) {
  Load("m", Plan({{1, 10}}));
  LoadPlan plan = Plan({{1, 10}});
  ASSERT_TRUE(table_.Claim({"m"}).ok());
  EXPECT_TRUE(table_.NotePlan(Request("m"), plan));
  EXPECT_FALSE(table_.NotePlan({"m", "{}", {}}, plan));
  EXPECT_FALSE(table_.NotePlan({"m", {}, {{"1/model.py", ""}}}, plan));
  plan.fingerprint = 2;
  EXPECT_FALSE(table_.NotePlan(Request("m"), plan));
  table_.Release("m", OkStatus());
}

TEST_F(ServableTableTest, GivesAStaleEnsembleOnce) {
  Load("m", Plan({{1, 10}}));
  ASSERT_TRUE(table_.Claim({"e"}).ok());
  LoadClaimed({"e", "{}", {}}, Plan({{1, 1}}, {"m"}));
  table_.Release("e", OkStatus());
  EXPECT_EQ(table_.made_uses(), (Dependencies{{"e", {"m"}}}));
  EXPECT_EQ(table_.ClaimIfDue("e"), std::nullopt);
  Load("m", Plan({{1, 11}}));
  const auto stale = table_.ClaimIfDue("e");
  ASSERT_TRUE(stale.has_value());
  EXPECT_EQ(stale->model_name, "e");
  EXPECT_EQ(stale->config_json, "{}");
  EXPECT_FALSE(table_.CheckUnclaimed({"e"}).ok());
  table_.Release("e", InvalidArgumentError("does not fit"));
  EXPECT_EQ(table_.ClaimIfDue("e"), std::nullopt);
  EXPECT_EQ(table_.ClaimIfDue("m"), std::nullopt);
}

TEST_F(ServableTableTest, AnEnsembleFollowsWhatIsOfTheConfig) {
  ServeOfConfig("theirs", 1);
  EXPECT_EQ(table_.KeptUses("theirs"), std::set<std::string>());
  EXPECT_EQ(table_.KeptUses("nobody's"), std::nullopt);
  Load("e", Plan({{1, 1}}, {"theirs"}));
  EXPECT_EQ(table_.ClaimIfDue("e"), std::nullopt);
  RetireOfConfig("theirs", 1);
  EXPECT_EQ(table_.ClaimIfDue("e"), std::nullopt);
  ServeOfConfig("theirs", 1);
  ASSERT_TRUE(table_.ClaimIfDue("e").has_value());
  table_.Release("e", InvalidArgumentError("does not fit"));
  EXPECT_EQ(table_.ClaimIfDue("e"), std::nullopt);
  ServeOfConfig("theirs", 2);
  ASSERT_TRUE(table_.ClaimIfDue("e").has_value());
  table_.Release("e", OkStatus());
}

TEST_F(ServableTableTest, NoTwoBuildsOfTheConfigAreTheSame) {
  std::set<uint64_t> keys = {table_.KeyOf({{"theirs", -1}})};
  for (int i = 0; i < 100; ++i) {
    ServeOfConfig("theirs", 1);
    EXPECT_TRUE(keys.insert(table_.KeyOf({{"theirs", -1}})).second);
  }
  const uint64_t now = table_.KeyOf({{"theirs", -1}});
  EXPECT_EQ(table_.KeyOf({{"theirs", -1}}), now);
  EXPECT_EQ(table_.KeyOf({{"theirs", 1}}) == table_.KeyOf({{"theirs", 2}}), false);
}

TEST_F(ServableTableTest, AnEnsembleThatWaitsForSomethingOfTheConfigIsGivenWhenItIsThere) {
  table_.NoteFolders({"e", "m"});
  FailLoad("e", Plan({{1, 1}}, {"m", "theirs"}));
  Load("m", Plan({{1, 10}}));
  EXPECT_EQ(table_.ClaimIfDue("e"), std::nullopt);
  ServeOfConfig("theirs", 1);
  const auto due = table_.ClaimIfDue("e");
  ASSERT_TRUE(due.has_value());
  EXPECT_EQ(due->model_name, "e");
  // The load fails; new builds of its models make the ensemble due again.
  table_.Release("e", InvalidArgumentError("does not fit"));
  EXPECT_EQ(table_.ClaimIfDue("e"), std::nullopt);
  Load("m", Plan({{1, 11}}));
  ASSERT_TRUE(table_.ClaimIfDue("e").has_value());
  table_.Release("e", InvalidArgumentError("does not fit"));
  // It was unloaded and is no longer wanted.
  EXPECT_TRUE(Unload("e").ok());
  ServeOfConfig("theirs", 1);
  EXPECT_EQ(table_.ClaimIfDue("e"), std::nullopt);
}

TEST_F(ServableTableTest, AnEnsembleThatLacksAModelOfAFolderIsNotGiven) {
  table_.NoteFolders({"e", "m"});
  FailLoad("e", Plan({{1, 1}}, {"m"}));
  Load("m", Plan({{1, 10}}));
  EXPECT_EQ(table_.ClaimIfDue("e"), std::nullopt);
}

// ---- the config.json ----

TEST_F(ServableTableTest, APipelineIsDueWhenWhatItUsesIsReplacedGoesOrComesBack) {
  ASSERT_TRUE(table_.Own("p", ServableKind::kPipeline).ok());
  table_.SetUses("p", {{"m", -1}, {"n", 2}});
  EXPECT_TRUE(table_.IsDue("p"));
  table_.NoteTry("p");
  EXPECT_FALSE(table_.IsDue("p"));
  ServeOfConfig("n", 1);
  EXPECT_FALSE(table_.IsDue("p"));
  ServeOfConfig("n", 2);
  EXPECT_TRUE(table_.IsDue("p"));
  Load("m", Plan({{1, 10}}));
  table_.NoteMade("p", table_.NoteTry("p"));
  ServeOfConfig("p", 1, ServableKind::kPipeline);
  EXPECT_FALSE(table_.IsDue("p"));
  EXPECT_TRUE(Unload("m").ok());
  EXPECT_TRUE(table_.IsDue("p"));
  table_.NoteTry("p");
  EXPECT_FALSE(table_.IsDue("p"));
  // A new definition is always tried.
  table_.SetUses("p", {{"m", -1}});
  EXPECT_TRUE(table_.IsDue("p"));
  EXPECT_FALSE(table_.IsDue("m"));
}

TEST_F(ServableTableTest, ANameIsThatOfOneKindUntilItIsNotWanted) {
  table_.Want({{"x", ServableKind::kModel}});
  EXPECT_EQ(Index(), "x");
  EXPECT_EQ(table_.KeptUses("x"), std::set<std::string>());
  EXPECT_FALSE(table_.CheckOwn("x", ServableKind::kGraph).ok());
  ServeOfConfig("x", 3);
  EXPECT_EQ(table_.Own("x", ServableKind::kPipeline).code(), StatusCode::kAlreadyExists);
  table_.Want({{"x", ServableKind::kPipeline}});
  EXPECT_EQ(Index(), "x:3 READY");
  EXPECT_TRUE(table_.Own("x", ServableKind::kPipeline).ok());
  EXPECT_EQ(Index(), "x");
  // Late results for the model change nothing.
  ServableTable::RetiredServables leaving;
  EXPECT_FALSE(table_.Serve(Make("x", 3), leaving));
  table_.SetFailed("x", 3, ServableKind::kModel, InternalError("no luck"), leaving);
  table_.Retire("x", 3, ServableKind::kModel, leaving);
  EXPECT_TRUE(leaving.empty());
  EXPECT_EQ(Index(), "x");
  table_.NoteFolders({"folder"});
  EXPECT_FALSE(table_.Own("folder", ServableKind::kModel).ok());
}

TEST_F(ServableTableTest, SaysWhyAModelIsMissing) {
  table_.NoteFolders({"m"});
  EXPECT_EQ(table_.WhyMissing("m"), "which has no loaded version.");
  EXPECT_EQ(table_.WhyMissing("unknown"), "which has no loaded version.");
  ASSERT_TRUE(table_.Claim({"m"}).ok());
  table_.Release("m", InvalidArgumentError(LoadFailed("m") + "no luck;\n"));
  EXPECT_EQ(table_.WhyMissing("m"),
            "which has no loaded version. Model 'm' loading failed with error: no luck;");
  ASSERT_TRUE(table_.Claim({"m"}).ok());
  table_.NoteUnreadable("m", "it has no such field");
  table_.Release("m", InternalError("gibberish"));
  EXPECT_EQ(table_.WhyMissing("m"), "which is not valid. Model 'm' loading failed with error: gibberish");
}

TEST_F(ServableTableTest, WhatIsReplacedIsDrainedWhateverAllocationFails) {
  ServeOfConfig("m", 1);
  std::shared_ptr<Servable> before = *catalog_.Find("m", 1);
  constexpr int kCount = 3;
  int tried = 0;
  for (int failed = kCount; failed == kCount; ++tried) {
    ASSERT_LT(tried, 1000);
    const auto after = Make("m", 1);
    FailingAllocation failing(tried, kCount);
    const Status replaced = Guarded([&]() -> Status {
      BRAID_RETURN_IF_ERROR(table_.Own("m", ServableKind::kModel));
      ServableTable::RetiredServables leaving;
      if (!table_.Serve(after, leaving)) return InternalError("it is closed");
      table_.Drain(std::move(leaving));
      return OkStatus();
    });
    EXPECT_TRUE(drains_.WaitUntilEmpty(SteadyNowNs() + 20 * kSecondNs));
    failed = failing.Stop();
    ASSERT_TRUE(replaced.ok()) << "allocation " << tried << ": " << replaced;
    ASSERT_FALSE(before->gate().Enter()) << "allocation " << tried;
    ASSERT_EQ(*catalog_.Find("m", 1), after);
    before = after;
    drains_.Reap();
  }
  EXPECT_GT(tried, 5);
}

}  // namespace
}  // namespace braid
