#include "sequences/sequence_vault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/guard.h"
#include "base/testing/failing_allocation.h"
#include "config/testing/scratch_folder.h"
#include "sequences/testing/fake_sequences.h"

namespace braid {
namespace {

using testing::FakeModel;
using testing::FakeStateful;
using ::testing::HasSubstr;
using testing::Journal;
using testing::KeeperOf;
using ::testing::Not;
using testing::ScratchFolder;

constexpr int64_t kSecondNs = 1000000000;
using Sums = std::map<CorrelationId, int32_t>;

class SequenceVaultTest : public ::testing::Test {
 protected:
  SequenceVaultTest() {
    Logger::Options options;
    options.file = logs_ / "log";
    log_ = std::move(*Logger::Create(options));
    options_ = {.path = scratch_ / "states", .interval_ns = 0, .hold_ns = 30 * kSecondNs};
    Open();
  }

  void Open() {
    vault_.reset();
    auto vault = SequenceVault::Open(options_, *log_);
    ASSERT_TRUE(vault.ok()) << vault.status();
    vault_ = std::move(vault).value();
  }
  std::shared_ptr<FakeStateful> Make(const std::string& identity = "id", const std::string& name = "m") {
    ServableInfo info;
    info.name = name;
    info.sequence_identity = identity;
    return std::make_shared<FakeStateful>(std::move(info), std::make_unique<FakeModel>(ModelLocation()),
                                          journal_);
  }
  std::shared_ptr<FakeStateful> Enter(const std::string& identity = "id", const std::string& name = "m") {
    auto servable = Make(identity, name);
    vault_->Enter(servable);
    return servable;
  }
  // One run of a model that leaves these sequences behind.
  void Save(const Sums& sums, const std::string& identity = "id") {
    const auto servable = Enter(identity);
    for (const auto& [id, sum] : sums) servable->keeper.Set(id, sum);
    vault_->Leave(*servable);
  }
  std::string File(const std::string& suffix = "", const std::string& name = "m") const {
    return scratch_ / ("states/" + name + ".1.sequences" + suffix);
  }
  static bool Exists(const std::string& path) { return std::filesystem::exists(path); }
  std::string Log() {
    log_->Flush();
    std::ifstream file(logs_ / "log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t CountInLog(const std::string& text) {
    const std::string log = Log();
    size_t count = 0;
    for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++count;
    return count;
  }

  ScratchFolder logs_;
  ScratchFolder scratch_;
  std::unique_ptr<Logger> log_;
  Journal journal_;
  SequenceVault::Options options_;
  std::unique_ptr<SequenceVault> vault_;
};

// ---- restart ----

TEST_F(SequenceVaultTest, SequencesOutlastARestart) {
  const Sums sums = {{uint64_t{1}, 11}, {std::string("user"), 12}};
  Save(sums);
  EXPECT_TRUE(Exists(File()));
  EXPECT_THAT(Log(), HasSubstr("'m' version 1: 2 sequences saved"));

  Open();
  const auto servable = Enter();
  EXPECT_EQ(servable->keeper.sums(), sums);
  EXPECT_FALSE(servable->keeper.holding());
  EXPECT_THAT(Log(), HasSubstr("'m' version 1: 2 sequences restored, as of 0 s ago"));
  // It stays until a newer one replaces it.
  EXPECT_TRUE(Exists(File()));
  vault_->Leave(*servable);
  Open();
  EXPECT_EQ(Enter()->keeper.sums(), sums);
}

TEST_F(SequenceVaultTest, WhateverAllocationFailsNothingIsLostAndTheShutdownEnds) {
  int failed = 1;
  for (int tried = 0; failed > 0; ++tried) {
    ASSERT_LT(tried, 1000);
    Open();
    const auto servable = Enter();
    servable->keeper.Set(uint64_t{1}, tried + 1);
    {
      FailingAllocation failing(tried, 1);
      (void)Guarded([&] { vault_->SaveChanged(); });
      failed = failing.Stop();
    }
    servable->keeper.Set(uint64_t{2}, tried + 1);
    FailingAllocation failing(tried, 2);
    const Status left = Guarded([&] { vault_->Leave(*servable); });
    failed += failing.Stop();
    ASSERT_EQ(left, OkStatus()) << "allocation " << tried;
    const int64_t deadline_ns = SteadyNowNs() + 20 * kSecondNs;
    vault_->BeginShutdown(deadline_ns);
    ASSERT_EQ(vault_->Shutdown(deadline_ns), OkStatus()) << "allocation " << tried;
    EXPECT_LT(SteadyNowNs(), deadline_ns) << "allocation " << tried;
    Open();
    const auto next = Enter();
    EXPECT_EQ(next->keeper.sums(), (Sums{{uint64_t{1}, tried + 1}, {uint64_t{2}, tried + 1}}));
    vault_->Leave(*next);
  }
}

TEST_F(SequenceVaultTest, EachVersionHasItsOwn) {
  ServableInfo info;
  info.name = "m";
  info.version = 2;
  info.sequence_identity = "id";
  const auto second =
      std::make_shared<FakeStateful>(std::move(info), std::make_unique<FakeModel>(ModelLocation()), journal_);
  vault_->Enter(second);
  EXPECT_FALSE(second->keeper.holding());
  second->keeper.Set(uint64_t{1}, 22);
  Save({{uint64_t{1}, 11}});
  vault_->Leave(*second);
  EXPECT_EQ(Enter()->keeper.sums(), (Sums{{uint64_t{1}, 11}}));
}

TEST_F(SequenceVaultTest, ThereIsNoFileWithoutSequences) {
  Save({});
  EXPECT_FALSE(Exists(File()));
  Save({{uint64_t{1}, 11}});
  EXPECT_TRUE(Exists(File()));
  const auto servable = Enter();
  servable->keeper.Set(uint64_t{1}, 0);
  vault_->SaveChanged();
  EXPECT_FALSE(Exists(File()));
  vault_->Leave(*servable);
  EXPECT_FALSE(Exists(File()));
}

TEST_F(SequenceVaultTest, WhatDoesNotFitIsSaid) {
  Save({{uint64_t{1}, 11}, {uint64_t{2}, 12}});
  const auto servable = Make();
  servable->keeper.most = 1;
  vault_->Enter(servable);
  EXPECT_EQ(servable->keeper.sums(), (Sums{{uint64_t{1}, 11}}));
  EXPECT_THAT(Log(), HasSubstr("'m' version 1: 1 sequence restored of 2"));
}

TEST_F(SequenceVaultTest, SequencesOfAnotherModelAreSetAside) {
  Save({{uint64_t{1}, 11}});
  const auto other = Enter("other");
  EXPECT_EQ(other->keeper.sums(), Sums());
  EXPECT_FALSE(other->keeper.holding());
  EXPECT_FALSE(Exists(File()));
  EXPECT_TRUE(Exists(File(".other-model")));
  EXPECT_THAT(Log(), HasSubstr("'m' version 1: 1 sequence dropped: they were saved by another model"));
}

TEST_F(SequenceVaultTest, ADamagedFileIsReportedAndSetAside) {
  Save({{uint64_t{1}, 11}});
  std::filesystem::resize_file(File(), std::filesystem::file_size(File()) - 1);
  const auto servable = Enter();
  EXPECT_EQ(servable->keeper.sums(), Sums());
  EXPECT_TRUE(Exists(File(".damaged")));
  EXPECT_FALSE(Exists(File()));
  EXPECT_THAT(Log(), HasSubstr("'m' version 1: its sequences cannot be restored from " + File() +
                               ": it is damaged: "));
  // The servable continues.
  servable->keeper.Set(uint64_t{2}, 5);
  vault_->Leave(*servable);
  EXPECT_EQ(Enter()->keeper.sums(), (Sums{{uint64_t{2}, 5}}));
}

TEST_F(SequenceVaultTest, AFileOfALaterServerIsSetAside) {
  Save({{uint64_t{1}, 11}});
  std::fstream file(File(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8);
  file.put(2);
  file.close();
  EXPECT_EQ(Enter()->keeper.sums(), Sums());
  EXPECT_TRUE(Exists(File(".other-format")));
  EXPECT_THAT(Log(), HasSubstr("it has format 2, but this server reads format 1"));
}

TEST_F(SequenceVaultTest, KnowsWhatItCannotSave) {
  const auto own = Make();
  own->keeper.is_savable = false;
  vault_->Enter(own);
  EXPECT_THAT(Log(), HasSubstr("'m' version 1: its sequences cannot be saved: the model keeps"));
  const auto unknown = Enter("");
  const auto stateless = std::make_shared<testing::FakeServable>(
      ServableInfo(), std::make_unique<FakeModel>(ModelLocation()), journal_);
  vault_->Enter(stateless);
  for (Servable* servable : std::initializer_list<Servable*>{own.get(), unknown.get(), stateless.get()}) {
    if (servable->sequences() != nullptr) KeeperOf(*servable).Set(uint64_t{1}, 1);
    vault_->SaveChanged();
    vault_->Leave(*servable);
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "states"));
}

TEST_F(SequenceVaultTest, HoldsNoShareAfterwards) {
  std::weak_ptr<Servable> weak;
  {
    const auto servable = Enter();
    weak = servable;
    vault_->Leave(*servable);
  }
  EXPECT_TRUE(weak.expired());
}

// ---- saves at intervals ----

TEST_F(SequenceVaultTest, SavesWhatHasChanged) {
  const auto servable = Enter();
  servable->keeper.Set(uint64_t{1}, 11);
  vault_->SaveChanged();
  ASSERT_TRUE(Exists(File()));
  std::filesystem::remove(File());
  vault_->SaveChanged();
  EXPECT_FALSE(Exists(File()));
  servable->keeper.Set(uint64_t{1}, 12);
  vault_->SaveChanged();
  ASSERT_TRUE(Exists(File()));

  // The state that a killed server leaves.
  std::filesystem::copy(scratch_ / "states", scratch_ / "killed");
  servable->keeper.Set(uint64_t{1}, 13);
  options_.path = scratch_ / "killed";
  Open();
  EXPECT_EQ(Enter()->keeper.sums(), (Sums{{uint64_t{1}, 12}}));
}

TEST_F(SequenceVaultTest, WhatWasRestoredNeedsNoSave) {
  Save({{uint64_t{1}, 11}});
  const auto servable = Enter();
  std::filesystem::remove(File());
  vault_->SaveChanged();
  vault_->Leave(*servable);
  EXPECT_FALSE(Exists(File()));
}

TEST_F(SequenceVaultTest, SavesByItself) {
  options_.interval_ns = 1000000;
  Open();
  const auto servable = Enter();
  const auto await = [this](bool there) {
    const int64_t deadline = SteadyNowNs() + 20 * kSecondNs;
    while (Exists(File()) != there && SteadyNowNs() < deadline) std::this_thread::yield();
    EXPECT_EQ(Exists(File()), there);
  };
  servable->keeper.Set(uint64_t{1}, 11);
  await(true);
  servable->keeper.Set(uint64_t{1}, 0);
  await(false);
  servable->keeper.Set(uint64_t{2}, 11);
  await(true);
  vault_->BeginShutdown(SteadyNowNs() + 20 * kSecondNs);
  vault_->Leave(*servable);
  EXPECT_TRUE(vault_->Shutdown(SteadyNowNs() + 20 * kSecondNs).ok());
}

TEST_F(SequenceVaultTest, AFailureIsReportedOnceUntilItWorksAgain) {
  const auto servable = Enter();
  const auto healthy = Enter("id", "n");
  // Blocks the name of the temporary file.
  const std::string obstacle = scratch_ / "states/.m.1.sequences.tmp";
  for (int round = 1; round <= 2; ++round) {
    std::filesystem::create_directory(obstacle);
    for (int i = 1; i < 4; ++i) {
      servable->keeper.Set(uint64_t{1}, i);
      healthy->keeper.Set(uint64_t{1}, i);
      vault_->SaveChanged();
    }
    EXPECT_EQ(CountInLog("'m' version 1: its sequences cannot be saved to " + File() + ": create: "), round);
    EXPECT_EQ(CountInLog("saved again"), round - 1);
    EXPECT_TRUE(Exists(File("", "n")));
    std::filesystem::remove(obstacle);
    vault_->SaveChanged();
    EXPECT_TRUE(Exists(File()));
    EXPECT_EQ(CountInLog("'m' version 1: its sequences are saved again"), round);
  }
}

TEST_F(SequenceVaultTest, AFinalSaveThatFailsSaysWhatIsLost) {
  const auto servable = Enter();
  servable->keeper.Set(uint64_t{1}, 11);
  std::filesystem::create_directory(scratch_ / "states/.m.1.sequences.tmp");
  vault_->Leave(*servable);
  EXPECT_THAT(Log(), HasSubstr("'m' version 1: 1 sequence cannot be saved to " + File() +
                               ": create: File exists; the earlier save stays"));
}

TEST_F(SequenceVaultTest, WhatIsNotWrittenByTheDeadlineIsGivenUp) {
  Save({{uint64_t{1}, 11}});
  const auto servable = Enter();
  servable->keeper.Set(uint64_t{1}, 12);
  vault_->BeginShutdown(SteadyNowNs() - 1);
  vault_->Leave(*servable);
  EXPECT_THAT(Log(), HasSubstr("cannot be saved to " + File() + ": it took too long; the earlier save"));
  EXPECT_TRUE(vault_->Shutdown(SteadyNowNs()).ok());
  Open();
  EXPECT_EQ(Enter()->keeper.sums(), (Sums{{uint64_t{1}, 11}}));
}

// ---- reload ----

TEST_F(SequenceVaultTest, AReloadHandsSequencesOver) {
  const auto before = Enter();
  before->keeper.Set(uint64_t{1}, 11);
  const int64_t begin_ns = SteadyNowNs();
  const auto after = Enter();
  EXPECT_GE(after->keeper.hold_deadline_ns(), begin_ns + 30 * kSecondNs);
  EXPECT_LE(after->keeper.hold_deadline_ns(), SteadyNowNs() + 30 * kSecondNs);
  // The effect of the last request.
  before->keeper.Set(uint64_t{1}, 12);
  vault_->Leave(*before);
  EXPECT_FALSE(after->keeper.holding());
  EXPECT_EQ(after->keeper.sums(), (Sums{{uint64_t{1}, 12}}));
  EXPECT_FALSE(Exists(File()));  // a hand-over needs no file
  EXPECT_THAT(Log(), HasSubstr("'m' version 1: 1 sequence carried over from the previous version"));
  vault_->SaveChanged();
  EXPECT_TRUE(Exists(File()));
}

TEST_F(SequenceVaultTest, AReloadToAnotherModelEndsSequences) {
  const auto before = Enter();
  before->keeper.Set(uint64_t{1}, 11);
  vault_->SaveChanged();
  const auto after = Enter("other");
  EXPECT_TRUE(after->keeper.holding());
  vault_->Leave(*before);
  EXPECT_FALSE(after->keeper.holding());
  EXPECT_EQ(after->keeper.sums(), Sums());
  EXPECT_EQ(after->keeper.restores(), 1);
  EXPECT_TRUE(Exists(File(".other-model")));
  EXPECT_FALSE(Exists(File()));
  EXPECT_THAT(Log(), HasSubstr("'m' version 1: 1 sequence dropped: the new version is a different model"));
}

TEST_F(SequenceVaultTest, AReloadWithoutSequencesLetsRequestsGoOn) {
  const auto before = Enter();
  const auto after = Enter("other");
  vault_->Leave(*before);
  EXPECT_FALSE(after->keeper.holding());
  EXPECT_EQ(after->keeper.restores(), 1);
  EXPECT_THAT(Log(), Not(HasSubstr("sequence")));
}

TEST_F(SequenceVaultTest, NothingIsSavedOfOneThatWaits) {
  const auto before = Enter();
  before->keeper.Set(uint64_t{1}, 11);
  vault_->SaveChanged();
  const auto after = Enter();
  before->keeper.Set(uint64_t{1}, 12);
  vault_->SaveChanged();
  vault_->Leave(*before);
  vault_->SaveChanged();
  std::filesystem::copy(scratch_ / "states", scratch_ / "killed");
  options_.path = scratch_ / "killed";
  Open();
  EXPECT_EQ(Enter()->keeper.sums(), (Sums{{uint64_t{1}, 12}}));
}

TEST_F(SequenceVaultTest, ANewVersionThatIsDiscardedChangesNothing) {
  const auto before = Enter();
  before->keeper.Set(uint64_t{1}, 11);
  {
    const auto discarded = Enter();
    vault_->Leave(*discarded);
  }
  const auto after = Enter();
  EXPECT_TRUE(after->keeper.holding());
  vault_->Leave(*before);
  EXPECT_EQ(after->keeper.sums(), (Sums{{uint64_t{1}, 11}}));
}

// Two reloads while a request of the first one runs: the second has no requests to wait for, and ends first.
TEST_F(SequenceVaultTest, SequencesPassOverAVersionThatLeftEarly) {
  const auto first = Enter();
  first->keeper.Set(uint64_t{1}, 11);
  first->keeper.Set(uint64_t{2}, 12);
  const auto second = Enter();
  // Its hold has run out, and this sequence began anew.
  second->keeper.Set(uint64_t{2}, 99);
  const auto third = Enter();
  vault_->Leave(*second);
  EXPECT_TRUE(third->keeper.holding());
  vault_->Leave(*first);
  EXPECT_FALSE(third->keeper.holding());
  EXPECT_EQ(third->keeper.sums(), (Sums{{uint64_t{1}, 11}, {uint64_t{2}, 99}}));
}

TEST_F(SequenceVaultTest, ALastOneThatLeavesEarlyIsSavedWithThoseBeforeIt) {
  const auto first = Enter();
  first->keeper.Set(uint64_t{1}, 11);
  const auto second = Enter();
  second->keeper.Set(uint64_t{2}, 12);
  vault_->Leave(*second);
  EXPECT_FALSE(Exists(File()));
  vault_->Leave(*first);
  Open();
  EXPECT_EQ(Enter()->keeper.sums(), (Sums{{uint64_t{1}, 11}, {uint64_t{2}, 12}}));
}

// The server stops: both have requests that do not end in time.
TEST_F(SequenceVaultTest, OneThatStopsIsHandedNothing) {
  const auto first = Enter();
  first->keeper.Set(uint64_t{1}, 11);
  const auto second = Enter();
  vault_->BeginStop(*second);
  vault_->Leave(*first);
  EXPECT_EQ(second->keeper.restores(), 0);
  vault_->Leave(*second);
  Open();
  EXPECT_EQ(Enter()->keeper.sums(), (Sums{{uint64_t{1}, 11}}));
}

TEST_F(SequenceVaultTest, WhatIsLostByAStopIsKeptAsItStood) {
  for (const bool one_ends : {false, true}) {
    const auto servable = Enter(one_ends ? "b" : "a");
    servable->keeper.Set(uint64_t{1}, 11);
    servable->keeper.Set(uint64_t{2}, 12);
    vault_->BeginStop(*servable);
    if (one_ends) servable->keeper.Set(uint64_t{2}, 0);
    servable->keeper.LoseAll();
    vault_->Leave(*servable);
    // It is unknown whether the ended sequence is one of the missing ones.
    const auto after = Enter(one_ends ? "b" : "a");
    EXPECT_EQ(after->keeper.sums(), one_ends ? Sums() : (Sums{{uint64_t{1}, 11}, {uint64_t{2}, 12}}));
    vault_->Leave(*after);
  }
}

TEST_F(SequenceVaultTest, AStopTakesTheLastStates) {
  const auto servable = Enter();
  servable->keeper.Set(uint64_t{1}, 11);
  vault_->BeginStop(*servable);
  servable->keeper.Set(uint64_t{1}, 12);
  vault_->Leave(*servable);
  EXPECT_EQ(Enter()->keeper.sums(), (Sums{{uint64_t{1}, 12}}));
}

TEST_F(SequenceVaultTest, OfTwoModelsThatLeaveTheNewerIsSaved) {
  const auto first = Enter();
  first->keeper.Set(uint64_t{1}, 11);
  const auto second = Enter("other");
  second->keeper.Set(uint64_t{2}, 12);
  vault_->Leave(*second);
  vault_->Leave(*first);
  EXPECT_THAT(Log(), HasSubstr("'m' version 1: 1 sequence dropped: the new version is a different model"));
  Open();
  EXPECT_EQ(Enter("other")->keeper.sums(), (Sums{{uint64_t{2}, 12}}));
}

// With any interleaving of threads, a sequence is in one place, and none is lost.
TEST_F(SequenceVaultTest, SequencesSurviveARaceOfReloadsAndSaves) {
  options_.interval_ns = 100000;
  options_.hold_ns = 0;
  Open();
  constexpr int kReloads = 300;
  std::mt19937 random(20240917);
  Sums expected;
  std::shared_ptr<FakeStateful> current = Enter();
  std::vector<std::thread> drains;
  for (int i = 1; i <= kReloads; ++i) {
    current->keeper.Set(uint64_t(i), i);
    expected[uint64_t(i)] = i;
    // Now and then no servable exists for a moment.
    const bool gap = random() % 4 == 0;
    std::shared_ptr<FakeStateful> next = gap ? nullptr : Enter();
    drains.emplace_back([this, old = current, spin = random() % 2000] {
      for (unsigned n = 0; n < spin; ++n) std::this_thread::yield();
      vault_->Leave(*old);
    });
    current = gap ? Enter() : next;
    if (drains.size() == 8) {
      for (auto& drain : drains) drain.join();
      drains.clear();
    }
  }
  for (auto& drain : drains) drain.join();
  EXPECT_EQ(current->keeper.sums(), expected);
  vault_->Leave(*current);
  Open();
  EXPECT_EQ(Enter()->keeper.sums(), expected);
}

}  // namespace
}  // namespace braid
