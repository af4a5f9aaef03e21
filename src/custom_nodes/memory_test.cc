#include "custom_nodes/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <new>

namespace braid::custom_nodes {
namespace {

constexpr Memory::Kind kData{false, Memory::Kind::Part::kData, 0};
constexpr Memory::Kind kInfo{true, Memory::Kind::Part::kArray, 0};

TEST(Memory, BlocksAreAlignedAndNeverNull) {
  Memory memory({});
  for (const size_t bytes : {0, 1, 63, 64, 65, 100000}) {
    void* const block = memory.Take(kData, bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0);
    std::memset(block, 7, bytes);
    memory.Give(block);
  }
  memory.Give(nullptr);
  EXPECT_THROW(memory.Take(kData, std::numeric_limits<size_t>::max()), std::bad_alloc);
}

TEST(Memory, KeepsReleasedBlocksOfAKind) {
  Memory memory({.outputs = 1, .infos = 0});
  void* const first = memory.Take(kData, 1000);
  void* const second = memory.Take(kData, 1000);
  memory.Give(first);
  memory.Give(second);  // one is kept already
  EXPECT_EQ(memory.Take(kData, 500), first);
  // Other kinds have blocks of their own.
  void* const info = memory.Take(kInfo, 500);
  EXPECT_NE(info, first);
  memory.Give(info);
  memory.Give(first);
  // A block that is too small goes.
  void* const large = memory.Take(kData, 100000);
  std::memset(large, 7, 100000);
  memory.Give(large);
  EXPECT_EQ(memory.Take(kData, 10), large);
  memory.Give(large);
  memory.Keep({.outputs = 0, .infos = 3});
  EXPECT_EQ(memory.kept().infos, 3);
}

}  // namespace
}  // namespace braid::custom_nodes
