#include "serving/servable_reference.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

class EmptyServable final : public Servable {
 public:
  EmptyServable(std::string name, int64_t version) : Servable(Info(std::move(name), version)) {}
  BufferAllocator& input_allocator() override { return allocator_; }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override {}

 private:
  static ServableInfo Info(std::string name, int64_t version) {
    ServableInfo info;
    info.name = std::move(name);
    info.version = version;
    return info;
  }
  HeapAllocator allocator_;
};

TEST(ServableReference, FollowsTheCatalog) {
  Catalog catalog;
  const ServableReference latest(catalog, "m", -1);
  const ServableReference second(catalog, "m", 2);
  EXPECT_EQ(latest.Enter().status().message(), "Request for unknown model: 'm' is not found");
  catalog.Publish(std::make_shared<EmptyServable>("m", 1));
  EXPECT_EQ((*latest.Get())->info().version, 1);
  EXPECT_EQ(second.Get().status().message(), "Request for unknown model: 'm' version 2 is not found");
  catalog.Publish(std::make_shared<EmptyServable>("m", 2));
  EXPECT_EQ((*latest.Enter())->get().info().version, 2);
  EXPECT_EQ((*second.Enter())->get().info().version, 2);
  catalog.SetState("m", 2, VersionState::kUnavailable, "unloaded");
  EXPECT_EQ((*latest.Enter())->get().info().version, 1);
}

TEST(ServableReference, KeepsNothingAlive) {
  Catalog catalog;
  const ServableReference reference(catalog, "m", -1);
  auto servable = std::make_shared<EmptyServable>("m", 1);
  const std::weak_ptr<Servable> alive = servable;
  catalog.Publish(std::move(servable));
  ASSERT_TRUE(reference.Enter().ok());
  catalog.RemoveModel("m");
  EXPECT_TRUE(alive.expired());
  EXPECT_FALSE(reference.Get().ok());
}

TEST(ServableReference, APlaceCanBeSharedAfterTheGateHasClosed) {
  Catalog catalog;
  auto servable = std::make_shared<EmptyServable>("m", 1);
  catalog.Publish(servable);
  const ServableReference reference(catalog, "m", -1);
  auto handle = *reference.Enter();
  servable->gate().Close();
  EXPECT_FALSE(reference.Enter().ok());
  auto another = handle->Another();
  handle.reset();
  EXPECT_EQ(servable->gate().inside(), 1u);
  another.reset();
  EXPECT_EQ(servable->gate().inside(), 0u);
}

}  // namespace
}  // namespace braid
