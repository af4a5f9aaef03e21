// A failed allocation of a sequence's model fails only the request that needs the memory; the instance
// continues with the others.
#include <gtest/gtest.h>

#include <new>

#include "base/guard.h"
#include "sequences/testing/sequence_harness.h"

namespace braid {
namespace {

constexpr char kState[] =
    "state { input_name: 'IN_STATE' output_name: 'OUT_STATE' data_type: TYPE_INT32 dims: [ 1000 ] }";

class NoMemory final : public BufferAllocator {
 public:
  Result<Buffer> Allocate(size_t) override { throw std::bad_alloc(); }
};

class FailedAllocations : public ::testing::Test, protected SequenceHarness {};

TEST_F(FailedAllocations, ARequestThatIsNotPreparedFailsAndTheNextOneRuns) {
  Tensor initial{"IN_STATE", DataType::kInt32, {1, 1000}, HeapAllocator().Allocate(4000).value()};
  Start(1, kState, 1, false, {initial});
  NoMemory none;
  backend_->input_memory_ = &none;
  for (int i = 0; i < 3; ++i) {
    const auto failed = Send(uint64_t{7}, kBoth);
    EXPECT_EQ(failed.sink->status(), OutOfMemory());
    ASSERT_FALSE(failed.waits());
  }
  backend_->input_memory_ = nullptr;
  EXPECT_EQ(instance().executed(), 0u);
  EXPECT_EQ(failures(FailureReason::kBackend), 3u);
  const auto next = Send(uint64_t{7}, kStart);
  ASSERT_EQ(Running(), "7");
  Finish();
  EXPECT_FALSE(next.waits());
  EXPECT_EQ(model_->pending_requests(), 0);
}

}  // namespace
}  // namespace braid
