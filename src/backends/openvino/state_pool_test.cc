#include "backends/openvino/state_pool.h"

#include <gtest/gtest.h>

#include <thread>

namespace braid {
namespace {

Buffer Take(StatePool& pool) { return {nullptr, 0, pool.Take()}; }

TEST(StatePool, PiecesComeBackAndAreUsedAgain) {
  auto pool = StatePool::Make(ov::element::f32, {2, 8});
  Buffer one = Take(*pool);
  EXPECT_EQ(static_cast<StatePool::Piece*>(one.owner())->tensor().get_byte_size(), 64u);
  const BufferOwner* place = one.owner();
  Buffer copy = one;
  one = Buffer();
  EXPECT_EQ(pool->free_pieces(), 0u);
  copy = Buffer();
  EXPECT_EQ(pool->free_pieces(), 1u);
  const Buffer again = Take(*pool);
  EXPECT_EQ(again.owner(), place);
  EXPECT_TRUE(again.owner()->unique());
  EXPECT_EQ(pool->free_pieces(), 0u);
}

TEST(StatePool, KeepsAFewOfThemAndNotTooMuchMemory) {
  struct Case {
    size_t bytes;
    size_t kept;
  };
  for (const Case& each : {Case{16, 64}, Case{size_t{4} << 20, 4}, Case{size_t{64} << 20, 1}}) {
    auto pool = StatePool::Make(ov::element::u8, {each.bytes});
    std::vector<Buffer> taken(100);
    for (Buffer& buffer : taken) buffer = Take(*pool);
    taken.clear();
    EXPECT_EQ(pool->free_pieces(), each.kept);
  }
}

// A piece counts with the size that it has grown to.
TEST(StatePool, CountsTheMemoryOfPiecesThatGrow) {
  auto pool = StatePool::Make(ov::element::u8, {0});
  std::vector<Buffer> taken(100);
  for (Buffer& buffer : taken) {
    buffer = Take(*pool);
    static_cast<StatePool::Piece*>(buffer.owner())->tensor().set_shape({size_t{8} << 20});
  }
  taken.clear();
  EXPECT_EQ(pool->free_pieces(), 2u);
}

TEST(StatePool, PiecesOutliveThePool) {
  auto pool = StatePool::Make(ov::element::f32, {4});
  Buffer kept = Take(*pool);
  Buffer other = Take(*pool);
  other = Buffer();
  std::weak_ptr<StatePool> watched = pool;
  pool.reset();
  EXPECT_FALSE(watched.expired());
  static_cast<StatePool::Piece*>(kept.owner())->tensor().data<float>()[3] = 1;
  kept = Buffer();
  EXPECT_TRUE(watched.expired());
}

TEST(StatePool, ManyThreadsTakeAndGiveBack) {
  auto pool = StatePool::Make(ov::element::i64, {1});
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 2000; ++i) {
        const Buffer one = Take(*pool);
        const Buffer two = Take(*pool);
        auto* value = static_cast<StatePool::Piece*>(one.owner())->tensor().data<int64_t>();
        *value = t;
        EXPECT_NE(one.owner(), two.owner());
        EXPECT_EQ(*value, t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(pool->free_pieces(), 8u);
}

}  // namespace
}  // namespace braid
