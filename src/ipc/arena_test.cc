#include "ipc/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "base/clock.h"

namespace braid {
namespace {

constexpr size_t kKiB = 1 << 10;
constexpr size_t kMiB = 1 << 20;

const Segment* SegmentOf(const Buffer& buffer) {
  auto* block = dynamic_cast<SegmentBlock*>(buffer.owner());
  EXPECT_NE(block, nullptr);
  return block == nullptr ? nullptr : block->segment().get();
}

Buffer MustAllocate(Arena& arena, size_t size) {
  auto buffer = arena.Allocate(size);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  return buffer.ok() ? std::move(buffer).value() : Buffer();
}

size_t MappedSegments() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:braid") != std::string::npos) ++count;
  }
  return count;
}

int64_t Later() { return SteadyNowNs() + 3'600'000'000'000; }

TEST(Arena, BuffersOfEverySizeAreAlignedAndLieInTheirSegment) {
  SegmentIds ids;
  Arena arena(ids, {});
  for (size_t size = 1; size <= 3 * kMiB; size += 1 + size / 3) {
    for (size_t exact : {size, std::bit_ceil(size), std::bit_ceil(size) + 1}) {
      Buffer buffer = MustAllocate(arena, exact);
      ASSERT_EQ(buffer.size(), exact);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
      const Segment* segment = SegmentOf(buffer);
      const auto offset = static_cast<uint64_t>(buffer.data() - segment->base());
      EXPECT_TRUE(segment->Contains(offset, exact)) << exact;
      buffer.mutable_data()[0] = buffer.mutable_data()[exact - 1] = std::byte{1};
    }
  }
}

TEST(Arena, ASegmentOfOneBlockShowsNothingOfEarlierBuffers) {
  SegmentIds ids;
  Arena arena(ids, {});
  const auto zero_behind = [&](size_t size, int fill) {
    Buffer buffer = MustAllocate(arena, size);
    const Segment& segment = *SegmentOf(buffer);
    std::memset(buffer.mutable_data(), fill, size);
    const auto behind = std::span<const std::byte>(segment.base(), segment.size()).subspan(size);
    return std::ranges::all_of(behind, [](std::byte b) { return b == std::byte{0}; });
  };
  // All in one size class, so in one segment.
  for (size_t size : {112 * kKiB, 97 * kKiB, 110 * kKiB, 97 * kKiB + 1, 97 * kKiB}) {
    EXPECT_TRUE(zero_behind(size, 7)) << size;
  }
  EXPECT_EQ(arena.usage().segments, 1u);
}

TEST(Arena, KnowsItsBlocks) {
  SegmentIds ids;
  Arena arena(ids, {});
  Arena other(ids, {});
  const Buffer buffer = MustAllocate(arena, 1000);
  const auto& block = *static_cast<SegmentBlock*>(buffer.owner());
  EXPECT_TRUE(arena.Made(block));
  EXPECT_FALSE(other.Made(block));
}

TEST(Arena, NothingIsNeededForNoBytes) {
  SegmentIds ids;
  Arena arena(ids, {});
  Buffer buffer = MustAllocate(arena, 0);
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(buffer.owner(), nullptr);
  EXPECT_EQ(arena.usage().segments, 0u);
}

TEST(Arena, RefusesSizesThatCannotBe) {
  SegmentIds ids;
  Arena arena(ids, {});
  for (size_t size : {SIZE_MAX, SIZE_MAX / 4 + 1, SIZE_MAX / 4, size_t{1} << 60}) {
    EXPECT_FALSE(arena.Allocate(size).ok()) << size;
  }
  EXPECT_EQ(arena.usage().segment_bytes, 0u);
}

TEST(Arena, SmallBlocksShareASegmentByClass) {
  SegmentIds ids;
  Arena arena(ids, {});
  Buffer a = MustAllocate(arena, 1);
  Buffer b = MustAllocate(arena, 256);
  Buffer c = MustAllocate(arena, 257);
  Buffer d = MustAllocate(arena, 512);
  EXPECT_EQ(SegmentOf(a), SegmentOf(b));
  EXPECT_EQ(b.data() - a.data(), 256);
  EXPECT_EQ(SegmentOf(c), SegmentOf(d));
  EXPECT_NE(SegmentOf(a), SegmentOf(c));
  EXPECT_EQ(arena.usage().segments, 2u);
  EXPECT_EQ(arena.usage().segment_bytes, 2 * kMiB);
}

TEST(Arena, BlocksInUseNeverOverlap) {
  SegmentIds ids;
  Arena arena(ids, {});
  std::vector<Buffer> buffers;
  for (int i = 0; i < 6000; ++i) buffers.push_back(MustAllocate(arena, 1 + i % 700));
  std::sort(buffers.begin(), buffers.end(),
            [](const Buffer& a, const Buffer& b) { return a.data() < b.data(); });
  for (size_t i = 1; i < buffers.size(); ++i) {
    ASSERT_LE(buffers[i - 1].data() + buffers[i - 1].size(), buffers[i].data());
  }
}

TEST(Arena, LargeBlocksHaveASegmentOfTheirOwnWithLittleWaste) {
  SegmentIds ids;
  Arena arena(ids, {});
  EXPECT_EQ(SegmentOf(MustAllocate(arena, 64 * kKiB))->size(), kMiB);
  for (size_t size = 64 * kKiB + 1; size < 40 * kMiB; size += size / 7) {
    Buffer a = MustAllocate(arena, size);
    Buffer b = MustAllocate(arena, size);
    EXPECT_NE(SegmentOf(a), SegmentOf(b));
    EXPECT_EQ(a.data(), SegmentOf(a)->base());
    EXPECT_LE(SegmentOf(a)->size(), size + size / 4 + 4096) << size;
  }
}

TEST(Arena, TheBlockFreedLastIsUsedFirst) {
  SegmentIds ids;
  Arena arena(ids, {});
  for (size_t size : {size_t{1000}, 64 * kKiB, 64 * kKiB + 1, kMiB}) {
    std::optional<Buffer> a = MustAllocate(arena, size);
    std::optional<Buffer> b = MustAllocate(arena, size);
    std::optional<Buffer> c = MustAllocate(arena, size);
    const std::byte* place_a = a->data();
    const std::byte* place_b = b->data();
    const size_t mapped = arena.usage().segment_bytes;
    a.reset();
    b.reset();
    a = MustAllocate(arena, size);
    b = MustAllocate(arena, size);
    EXPECT_EQ(a->data(), place_b) << size;
    EXPECT_EQ(b->data(), place_a) << size;
    EXPECT_EQ(arena.usage().segment_bytes, mapped);
  }
}

TEST(Arena, ABlockIsFreedByItsLastHolder) {
  SegmentIds ids;
  Arena arena(ids, {});
  std::optional<Buffer> buffer = MustAllocate(arena, kMiB);
  const std::byte* place = buffer->data();
  std::optional<Buffer> slice = buffer->Slice(10, 10);
  EXPECT_FALSE(buffer->owner()->unique());
  buffer.reset();
  EXPECT_EQ(arena.usage().idle_bytes, 0u);
  EXPECT_TRUE(slice->owner()->unique());
  slice.reset();
  EXPECT_EQ(arena.usage().idle_bytes, kMiB);
  Buffer again = MustAllocate(arena, kMiB);
  EXPECT_EQ(again.data(), place);
  EXPECT_TRUE(again.owner()->unique());
}

TEST(Arena, TrimGivesBackWhatIsIdleBeyondTheKeptAndTellsItsIds) {
  SegmentIds ids;
  Arena::Options options;
  options.keep_bytes = 2 * kMiB;
  options.idle_ns = 1'000'000'000;
  Arena arena(ids, options);
  const size_t mapped_before = MappedSegments();
  std::vector<uint32_t> all_ids;
  {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 5; ++i) buffers.push_back(MustAllocate(arena, kMiB));
    for (const Buffer& buffer : buffers) all_ids.push_back(SegmentOf(buffer)->id());
    EXPECT_FALSE(arena.has_excess());
    EXPECT_THAT(arena.Trim(Later()), testing::IsEmpty());
  }
  EXPECT_EQ(arena.usage().idle_bytes, 5 * kMiB);
  EXPECT_EQ(MappedSegments(), mapped_before + 5);
  EXPECT_TRUE(arena.has_excess());
  EXPECT_THAT(arena.Trim(SteadyNowNs() + options.idle_ns / 2), testing::IsEmpty());

  const std::vector<uint32_t> gone = arena.Trim(SteadyNowNs() + options.idle_ns);
  EXPECT_EQ(gone.size(), 3u);
  EXPECT_THAT(all_ids, testing::IsSupersetOf(gone));
  EXPECT_EQ(arena.usage().segment_bytes, 2 * kMiB);
  EXPECT_EQ(arena.usage().idle_bytes, 2 * kMiB);
  EXPECT_EQ(arena.usage().segments, 2u);
  EXPECT_EQ(MappedSegments(), mapped_before + 2);
  EXPECT_FALSE(arena.has_excess());
  EXPECT_THAT(arena.Trim(Later()), testing::IsEmpty());

  std::vector<Buffer> again;
  for (int i = 0; i < 3; ++i) again.push_back(MustAllocate(arena, kMiB));
  EXPECT_EQ(arena.usage().segments, 3u);
  EXPECT_THAT(gone, testing::Not(testing::Contains(SegmentOf(again[2])->id())));
}

TEST(Arena, TrimLeavesSegmentsWithABlockInUse) {
  SegmentIds ids;
  Arena::Options options;
  options.keep_bytes = 0;
  Arena arena(ids, options);
  std::optional<Buffer> a = MustAllocate(arena, 100);
  std::optional<Buffer> b = MustAllocate(arena, 100);
  a.reset();
  EXPECT_THAT(arena.Trim(Later()), testing::IsEmpty());
  std::memset(b->mutable_data(), 1, 100);
  b.reset();
  EXPECT_EQ(arena.Trim(Later()).size(), 1u);
  EXPECT_EQ(arena.usage().segment_bytes, 0u);
  MustAllocate(arena, 100);
}

TEST(Arena, BudgetErrorNamesTheOption) {
  SegmentIds ids;
  Arena::Options options;
  options.max_bytes = 3 * kMiB;
  options.max_bytes_option = "--shm-bytes";
  Arena arena(ids, options);
  Buffer buffer = MustAllocate(arena, 2 * kMiB);
  auto refused = arena.Allocate(2 * kMiB);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(refused.status().message(),
            "shared memory budget of 3145728 bytes is used up (2097152 in use, 2097152 more wanted); raise "
            "--shm-bytes");
  EXPECT_TRUE(arena.Allocate(kMiB).ok());
  EXPECT_FALSE(arena.Allocate(size_t{1} << 40).ok());
}

TEST(Arena, WhatIsIdleMakesRoomInTheBudgetForOtherSizes) {
  SegmentIds ids;
  Arena::Options options;
  options.max_bytes = 3 * kMiB;
  Arena arena(ids, options);
  uint32_t first_id = 0;
  {
    Buffer a = MustAllocate(arena, kMiB);
    Buffer b = MustAllocate(arena, kMiB);
    first_id = SegmentOf(a)->id();
  }
  Buffer in_use = MustAllocate(arena, 10);
  Buffer large = MustAllocate(arena, kMiB + kMiB / 4);
  EXPECT_LE(arena.usage().segment_bytes, 3 * kMiB);
  // Peers still map the destroyed segment, so it is reported although there is no more memory to trim.
  EXPECT_TRUE(arena.has_excess());
  EXPECT_THAT(arena.Trim(SteadyNowNs()), testing::Contains(first_id));
  EXPECT_FALSE(arena.has_excess());
}

TEST(Arena, BuffersOutliveTheArena) {
  const size_t mapped_before = MappedSegments();
  SegmentIds ids;
  std::optional<Buffer> small;
  std::optional<Buffer> large;
  {
    Arena arena(ids, {});
    small = MustAllocate(arena, 100);
    large = MustAllocate(arena, kMiB);
    MustAllocate(arena, 5 * kMiB);
    EXPECT_EQ(MappedSegments(), mapped_before + 3);
  }
  EXPECT_EQ(MappedSegments(), mapped_before + 2) << "what is idle goes with the arena";
  std::memset(small->mutable_data(), 1, small->size());
  std::memset(large->mutable_data(), 2, large->size());
  small.reset();
  EXPECT_EQ(MappedSegments(), mapped_before + 1);
  std::memset(large->mutable_data(), 3, large->size());
  large.reset();
  EXPECT_EQ(MappedSegments(), mapped_before);
}

TEST(Arena, SegmentOutlivesBufferAndArenaForWhoHoldsIt) {
  SegmentIds ids;
  std::shared_ptr<Segment> segment;
  {
    Arena arena(ids, {});
    Buffer buffer = MustAllocate(arena, kMiB);
    segment = dynamic_cast<SegmentBlock*>(buffer.owner())->segment();
  }
  std::memset(segment->base(), 1, segment->size());
}

// Buffers move between threads and are freed by other threads than their allocator, while another thread
// trims. In the end some outlive the arena.
TEST(Arena, ManyThreadsAllocateWriteAndFree) {
  const size_t mapped_before = MappedSegments();
  SegmentIds ids;
  Arena::Options options;
  options.keep_bytes = kMiB;
  options.idle_ns = 0;
  options.max_bytes = 64 * kMiB;
  auto arena = std::make_unique<Arena>(ids, options);
  std::mutex mutex;
  std::vector<Buffer> exchange;  // guarded by mutex
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};

  auto check = [&failures](const Buffer& buffer) {
    const std::byte first = buffer.data()[0];
    for (size_t at = 0; at < buffer.size(); at += 997) {
      if (buffer.data()[at] != first) ++failures;
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 3000; ++i) {
        const size_t size = 1 + random() % (random() % 8 == 0 ? 300 * kKiB : 4 * kKiB);
        auto buffer = arena->Allocate(size);
        if (!buffer.ok()) continue;
        std::memset(buffer->mutable_data(), static_cast<int>(random() & 255), size);
        std::optional<Buffer> other;
        {
          std::lock_guard lock(mutex);
          if (exchange.size() < 32) {
            exchange.push_back(*buffer);
          } else {
            other = std::exchange(exchange[random() % exchange.size()], *buffer);
          }
        }
        if (other) check(*other);
      }
    });
  }
  std::thread trimmer([&] {
    while (!stop) {
      arena->Trim(SteadyNowNs());
      std::this_thread::yield();
    }
  });
  for (auto& thread : threads) thread.join();
  stop = true;
  trimmer.join();
  arena.reset();
  for (const Buffer& buffer : exchange) check(buffer);
  std::thread last([&] { exchange.clear(); });
  last.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(MappedSegments(), mapped_before);
}

// The arena is destroyed while other threads release the last buffers.
TEST(Arena, ClosingRacesWithTheLastBuffers) {
  SegmentIds ids;
  for (int round = 0; round < 200; ++round) {
    auto arena = std::make_unique<Arena>(ids, Arena::Options{});
    std::vector<Buffer> a;
    std::vector<Buffer> b;
    for (int i = 0; i < 4; ++i) {
      a.push_back(MustAllocate(*arena, 1000));
      b.push_back(MustAllocate(*arena, i % 2 ? 100 * kKiB : 1000));
    }
    std::thread first([&] { a.clear(); });
    std::thread second([&] { b.clear(); });
    arena.reset();
    first.join();
    second.join();
  }
}

}  // namespace
}  // namespace braid
