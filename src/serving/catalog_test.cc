#include "serving/catalog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/clock.h"
#include "serving/faults.h"

namespace braid {
namespace {

class FakeServable final : public Servable {
 public:
  static ServableInfo Info(std::string name, int64_t version) {
    ServableInfo info;
    info.name = std::move(name);
    info.version = version;
    return info;
  }
  FakeServable(std::string name, int64_t version) : Servable(Info(std::move(name), version)) {}

  BufferAllocator& input_allocator() override { return allocator_; }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return readiness_; }
  void Stop(int64_t) override {}

  Readiness readiness_;

 private:
  HeapAllocator allocator_;
};

std::shared_ptr<FakeServable> Make(std::string name, int64_t version) {
  return std::make_shared<FakeServable>(std::move(name), version);
}

TEST(Catalog, FindsTheHighestReadyVersion) {
  Catalog catalog;
  CatalogReader reader(catalog);
  catalog.Publish(Make("m", 2));
  catalog.Publish(Make("m", 10));
  catalog.SetState("m", 11, VersionState::kLoading, "");
  EXPECT_EQ(reader.Find("m", -1).value()->get().info().version, 10);
  EXPECT_EQ(reader.Find("m", 2).value()->get().info().version, 2);
}

TEST(Catalog, AnswersWithTheTextsOfTheContract) {
  Catalog catalog;
  CatalogReader reader(catalog);
  EXPECT_EQ(reader.Find("nope", -1).status(),
            NotFoundError("Request for unknown model: 'nope' is not found"));
  EXPECT_EQ(reader.Find("nope", 9).status(),
            NotFoundError("Request for unknown model: 'nope' version 9 is not found"));
  catalog.SetState("m", 1, VersionState::kUnavailable, "broken");
  EXPECT_EQ(reader.Find("m", -1).status(),
            NotFoundError("Request for unknown model: 'm' has no available versions"));
  EXPECT_EQ(reader.Find("m", 1).status(),
            NotFoundError("Request for unknown model: 'm' version 1 is not found"));
  EXPECT_EQ(catalog.Versions("m", -1).status().message(),
            "Request for unknown model: 'm' has no available versions");
  EXPECT_EQ(catalog.Versions("x", -1).status().message(), "Request for unknown model: 'x' is not found");
}

TEST(Catalog, HidesAVersionThatLeaves) {
  Catalog catalog;
  CatalogReader reader(catalog);
  catalog.Publish(Make("m", 1));
  ASSERT_TRUE(reader.Find("m", 1).ok());
  catalog.SetState("m", 1, VersionState::kUnloading, "");
  EXPECT_FALSE(reader.Find("m", 1).ok());
  catalog.RemoveModel("m");
  EXPECT_EQ(reader.Find("m", -1).status().message(), "Request for unknown model: 'm' is not found");
}

TEST(Catalog, GivesBackTheServableThatWasReplaced) {
  Catalog catalog;
  CatalogReader reader(catalog);
  auto before = Make("m", 1);
  auto after = Make("m", 1);
  EXPECT_EQ(catalog.Publish(before), nullptr);
  auto handle = reader.Find("m", 1).value();
  EXPECT_EQ(catalog.Publish(after), before);
  EXPECT_EQ(&handle->get(), before.get());
  EXPECT_EQ(&reader.Find("m", 1).value()->get(), after.get());
}

TEST(Catalog, DoesNotFindAServableWhoseGateIsClosed) {
  Catalog catalog;
  CatalogReader reader(catalog);
  auto servable = Make("m", 1);
  catalog.Publish(servable);
  servable->gate().Close();
  EXPECT_FALSE(reader.Find("m", -1).ok());
  EXPECT_FALSE(reader.Find("m", 1).ok());
}

TEST(Catalog, KeepsTheServableInsideWhileAHandleLives) {
  auto servable = Make("m", 1);
  auto handle = ServableHandle::Enter(servable);
  servable->gate().Close();
  EXPECT_EQ(servable->gate().inside(), 1u);
  EXPECT_EQ(ServableHandle::Enter(servable), nullptr);
  handle.reset();
  EXPECT_EQ(servable->gate().inside(), 0u);
}

TEST(Catalog, SaysWhyAModelHasNoVersions) {
  Catalog catalog;
  catalog.SetReason("m", "nothing is kept of a model that is not known");
  catalog.AddModel("m");
  EXPECT_EQ(catalog.Index(false)[0].reason, "");
  catalog.SetReason("m", "no such field");
  EXPECT_EQ(catalog.Index(false)[0].reason, "no such field");
  EXPECT_EQ(catalog.Index(false)[0].state, VersionState::kUnavailable);
  EXPECT_TRUE(catalog.Index(true).empty());
  catalog.RemoveModel("m");
  catalog.AddModel("m");
  EXPECT_EQ(catalog.Index(false)[0].reason, "");
}

TEST(Catalog, ListsModelsByNameThenVersion) {
  Catalog catalog;
  catalog.AddModel("z");
  catalog.Publish(Make("b", 2));
  auto sick = Make("b", 1);
  sick->readiness_ = {false, "being restarted"};
  catalog.Publish(sick);
  catalog.SetState("a", 1, VersionState::kLoading, "installing");
  auto index = catalog.Index(false);
  ASSERT_EQ(index.size(), 4u);
  EXPECT_EQ(index[0].name, "a");
  EXPECT_EQ(index[0].state, VersionState::kLoading);
  EXPECT_EQ(index[0].reason, "installing");
  EXPECT_EQ(index[1].version, 1);
  EXPECT_EQ(index[1].state, VersionState::kUnavailable);
  EXPECT_EQ(index[1].reason, "being restarted");
  EXPECT_EQ(index[2].state, VersionState::kReady);
  EXPECT_EQ(index[3].name, "z");
  EXPECT_FALSE(index[3].version.has_value());
  index = catalog.Index(true);
  ASSERT_EQ(index.size(), 1u);
  EXPECT_EQ(index[0].version, 2);
}

TEST(Catalog, TakesAReasonOnlyInItsState) {
  Catalog catalog;
  catalog.SetState("m", 1, VersionState::kLoading, "one");
  catalog.SetReason("m", 1, VersionState::kUnloading, "two");
  catalog.SetReason("x", 1, VersionState::kLoading, "three");
  EXPECT_EQ(catalog.Index(false)[0].reason, "one");
  catalog.SetReason("m", 1, VersionState::kLoading, "four");
  ASSERT_EQ(catalog.Index(false).size(), 1u);
  EXPECT_EQ(catalog.Index(false)[0].reason, "four");
}

TEST(Catalog, IsReadyWhenAllAreReadyUnloadedOrReplaced) {
  Catalog catalog;
  EXPECT_TRUE(catalog.AllReady());
  auto servable = Make("m", 1);
  catalog.Publish(servable);
  catalog.SetState("u", 1, VersionState::kUnavailable, "unloaded");
  EXPECT_TRUE(catalog.AllReady());
  catalog.SetState("m", 2, VersionState::kUnloading, "");
  EXPECT_TRUE(catalog.AllReady());
  catalog.SetState("u", 1, VersionState::kUnloading, "");
  EXPECT_FALSE(catalog.AllReady()) << "no other version of it serves";
  catalog.SetState("u", 1, VersionState::kUnavailable, "unloaded");
  servable->readiness_.ready = false;
  EXPECT_FALSE(catalog.AllReady());
  servable->readiness_.ready = true;
  catalog.SetState("f", 1, VersionState::kUnavailable, "failed");
  EXPECT_FALSE(catalog.AllReady());
}

TEST(Catalog, LosesNoRequestToAReload) {
  Catalog catalog;
  catalog.Publish(Make("m", 1));
  std::atomic<bool> stop{false};
  std::atomic<int> lost{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      CatalogReader reader(catalog);
      while (!stop) {
        if (!reader.Find("m", -1).ok()) ++lost;
      }
    });
  }
  for (int i = 0; i < 300; ++i) {
    auto before = catalog.Publish(Make("m", 1));
    before->gate().Close();
    EXPECT_TRUE(before->gate().WaitUntilEmpty(SteadyNowNs() + 60'000'000'000));
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(lost, 0);
}

TEST(Catalog, TellsWhichModelsAreLoadedOnDemand) {
  Catalog catalog;
  catalog.SetOnDemand("m", true);  // ignored: it is not known
  catalog.AddModel("m");
  EXPECT_EQ(catalog.WhyNotFound("m", -1).fault(), Fault::kNone);
  catalog.SetOnDemand("m", true);
  EXPECT_EQ(catalog.WhyNotFound("m", -1).fault(), Fault::kLoadsOnDemand);
  EXPECT_EQ(catalog.WhyNotFound("m", 4).fault(), Fault::kLoadsOnDemand);
  EXPECT_TRUE(catalog.IsReadyOnDemand("m", -1));
  EXPECT_TRUE(catalog.AllReady());
  EXPECT_EQ(catalog.Index(false).front().reason, "on demand");

  catalog.SetState("m", 1, VersionState::kLoading, "");
  EXPECT_EQ(catalog.WhyNotFound("m", 1).fault(), Fault::kLoadsOnDemand);
  EXPECT_TRUE(catalog.AllReady());

  catalog.SetState("m", 1, VersionState::kUnavailable, "broken");
  EXPECT_EQ(catalog.WhyNotFound("m", 1).fault(), Fault::kLoadsOnDemand);  // to be tried again
  EXPECT_FALSE(catalog.IsReadyOnDemand("m", -1));
  EXPECT_TRUE(catalog.AllReady());
  EXPECT_EQ(catalog.Index(false).front().reason, "broken");

  catalog.Publish(Make("m", 1));
  EXPECT_EQ(catalog.WhyNotFound("m", 2).fault(), Fault::kNone);
  EXPECT_FALSE(catalog.IsReadyOnDemand("m", 1));

  catalog.SetState("m", 1, VersionState::kUnavailable, "unloaded");
  EXPECT_EQ(catalog.Index(false).front().reason, "on demand");
  EXPECT_TRUE(catalog.IsReadyOnDemand("m", 1));
  EXPECT_FALSE(catalog.IsReadyOnDemand("m", 2));
  catalog.SetOnDemand("m", false);
  EXPECT_EQ(catalog.WhyNotFound("m", 1).fault(), Fault::kNone);
  EXPECT_EQ(catalog.Index(false).front().reason, "unloaded");
}

}  // namespace
}  // namespace braid
