#include "ipc/segment_budget.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "ipc/channel.h"
#include "ipc/segment.h"

namespace braid {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class SegmentBudgetTest : public ::testing::Test {
 protected:
  SegmentBudgetTest() {
    Channel::Options options;
    options.imports = std::make_shared<SegmentBudget>(SegmentBudget::Limits{
        .segments = 3, .bytes = 4 * kMiB, .segments_option = "--n", .bytes_option = "--b"});
    Channel::WorkerEnd end;
    server_ = Channel::CreateServerEnd(options, end).value();
    worker_ = Channel::OpenWorkerEnd(std::move(end)).value();
  }

  // Imports a segment as the server does for a worker.
  Result<std::shared_ptr<Segment>> HandOver(size_t size) {
    const auto segment = Segment::Create(7, size).value();
    EXPECT_TRUE(worker_->SendSegment(*segment, segment->id()).ok());
    return server_->ReceiveSegment(false);
  }

  std::unique_ptr<Channel> server_;
  std::unique_ptr<Channel> worker_;
};

TEST_F(SegmentBudgetTest, BoundsTheNumberOfThoseThatAreMapped) {
  std::vector<std::shared_ptr<Segment>> held;
  for (int i = 0; i < 3; ++i) held.push_back(HandOver(4096).value());
  EXPECT_EQ(HandOver(4096).status(),
            ResourceExhaustedError("it sent more than 3 segments of shared memory (--n)"));
  // Mapped segments count, not those that the worker names.
  held.pop_back();
  EXPECT_TRUE(HandOver(4096).ok());
}

TEST_F(SegmentBudgetTest, BoundsTheirBytesPagesOrNot) {
  auto half = HandOver(3 * kMiB).value();
  EXPECT_EQ(HandOver(2 * kMiB).status(),
            ResourceExhaustedError("it sent more than 4194304 bytes of shared memory (--b)"));
  // It takes only address space, until the limit is reached.
  EXPECT_EQ(HandOver(size_t{1} << 36).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(HandOver(kMiB).ok());
  half = nullptr;
  EXPECT_TRUE(HandOver(4 * kMiB).ok());
}

TEST_F(SegmentBudgetTest, OutlivesTheChannel) {
  auto held = HandOver(4096).value();
  server_ = nullptr;
  held = nullptr;
}

}  // namespace
}  // namespace braid
