#include "sequences/sequence_cleaner.h"

#include <gtest/gtest.h>

#include <memory>

#include "scheduling/testing/manual_timers.h"
#include "serving/testing/fake_keeper.h"

namespace braid {
namespace {

ServableInfo Named(std::string name) {
  ServableInfo info;
  info.name = std::move(name);
  return info;
}

class KeepingServable final : public Servable {
 public:
  explicit KeepingServable(bool keeps) : Servable(Named(keeps ? "keeps" : "plain")), keeps_(keeps) {}

  BufferAllocator& input_allocator() override { return allocator_; }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  SequenceKeeper* sequences() override { return keeps_ ? &keeper : nullptr; }
  void Stop(int64_t) override {}

  FakeKeeper keeper;

 private:
  const bool keeps_;
  HeapAllocator allocator_;
};

constexpr int64_t kSecond = 1'000'000'000;

class SequenceCleanerTest : public testing::Test {
 protected:
  SequenceCleanerTest() {
    catalog_.Publish(keeps_);
    catalog_.Publish(std::make_shared<KeepingServable>(false));
  }

  Catalog catalog_;
  ManualTimers timers_;
  const std::shared_ptr<KeepingServable> keeps_ = std::make_shared<KeepingServable>(true);
};

TEST_F(SequenceCleanerTest, LooksEachInterval) {
  SequenceCleaner cleaner(catalog_, timers_, 10 * kSecond);
  timers_.Advance(9 * kSecond);
  EXPECT_EQ(keeps_->keeper.looks, 0);
  timers_.Advance(kSecond);
  EXPECT_EQ(keeps_->keeper.looks, 1);
  timers_.Advance(30 * kSecond);
  EXPECT_EQ(keeps_->keeper.looks, 4);
}

TEST_F(SequenceCleanerTest, ZeroIsNever) {
  SequenceCleaner cleaner(catalog_, timers_, 0);
  timers_.Advance(1000 * kSecond);
  EXPECT_EQ(keeps_->keeper.looks, 0);
}

TEST_F(SequenceCleanerTest, LeavesNoTimer) {
  { SequenceCleaner cleaner(catalog_, timers_, kSecond); }
  EXPECT_EQ(timers_.size(), 0u);
}

}  // namespace
}  // namespace braid
