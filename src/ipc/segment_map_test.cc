#include "ipc/segment_map.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace braid {
namespace {

std::shared_ptr<Segment> Make(uint32_t id, size_t size = 4096) { return Segment::Create(id, size).value(); }

TEST(SegmentMap, FindsByName) {
  SegmentMap map;
  EXPECT_EQ(map.Find(1), nullptr);
  auto one = Make(1);
  map.Add(one);
  map.Add(Make(2));
  EXPECT_EQ(map.size(), 2u);
  EXPECT_EQ(map.Find(1), one);
  EXPECT_EQ(map.Find(2)->id(), 2u);
  EXPECT_EQ(map.Find(3), nullptr);
}

TEST(SegmentMap, RemovedSegmentStaysMappedForWhoHoldsIt) {
  SegmentMap map;
  map.Add(Make(1));
  auto held = map.Find(1);
  map.Remove(1);
  map.Remove(1);
  map.Remove(77);
  EXPECT_EQ(map.Find(1), nullptr);
  EXPECT_EQ(map.size(), 0u);
  EXPECT_EQ(held.use_count(), 1);
  std::memset(held->base(), 1, held->size());
}

TEST(SegmentMap, LaterSegmentTakesThePlaceOfOneWithTheSameName) {
  SegmentMap map;
  auto first = Make(1);
  auto second = Make(1);
  map.Add(first);
  map.Add(second);
  EXPECT_EQ(map.size(), 1u);
  EXPECT_EQ(map.Find(1), second);
  EXPECT_EQ(first.use_count(), 1);
}

TEST(SegmentMap, WaitsForAnotherThreadToAdd) {
  SegmentMap map;
  EXPECT_EQ(map.WaitFor(1, 0), nullptr);
  EXPECT_EQ(map.WaitFor(1, 1'000'000), nullptr);
  std::thread adder([&map] {
    map.Add(Make(2));
    map.Add(Make(1));
  });
  auto found = map.WaitFor(1, INT64_MAX);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->id(), 1u);
  adder.join();
}

class SegmentMapOnChannel : public testing::Test {
 protected:
  SegmentMapOnChannel() {
    Channel::WorkerEnd worker_end;
    server_ = Channel::CreateServerEnd({}, worker_end).value();
    worker_ = Channel::OpenWorkerEnd(std::move(worker_end)).value();
  }
  std::unique_ptr<Channel> server_;
  std::unique_ptr<Channel> worker_;
  SegmentMap map_;
};

TEST_F(SegmentMapOnChannel, TakesWhatWaitsUntilTheSegmentIsThere) {
  for (uint32_t id : {1, 2, 3}) ASSERT_TRUE(worker_->SendSegment(*Make(id), id + 10).ok());
  auto found = map_.FindOrReceive(12, *server_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->id(), 12u);
  EXPECT_EQ(map_.size(), 2u) << "the third is left until it is named";
  EXPECT_TRUE(map_.FindOrReceive(11, *server_).ok());
  EXPECT_TRUE(map_.FindOrReceive(13, *server_).ok());
}

TEST_F(SegmentMapOnChannel, SegmentThatWasNotHandedOverIsAnError) {
  ASSERT_TRUE(worker_->SendSegment(*Make(1), 1).ok());
  auto found = map_.FindOrReceive(9, *server_);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(found.status().message(), "a message names unknown segment 9");
}

TEST_F(SegmentMapOnChannel, HangUpIsAnError) {
  worker_.reset();
  auto found = map_.FindOrReceive(9, *server_);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), StatusCode::kUnavailable);
}

TEST_F(SegmentMapOnChannel, APeerThatSendsWithoutEndIsNotFollowedForEver) {
  std::atomic<bool> stop{false};
  std::thread peer([&] {
    auto segment = Make(1);
    while (!stop) (void)worker_->SendSegment(*segment, 1).ok();
  });
  EXPECT_FALSE(map_.FindOrReceive(9, *server_).ok());
  stop = true;
  peer.join();
}

TEST_F(SegmentMapOnChannel, ManyThreadsFindTheSame) {
  constexpr uint32_t kSegments = 100;
  for (uint32_t id = 0; id < kSegments; ++id) ASSERT_TRUE(worker_->SendSegment(*Make(id), id).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (uint32_t id = 0; id < kSegments; ++id) {
        auto found = map_.FindOrReceive(id, *server_);
        ASSERT_TRUE(found.ok()) << found.status();
        ASSERT_EQ((*found)->id(), id);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(map_.size(), kSegments);
}

}  // namespace
}  // namespace braid
