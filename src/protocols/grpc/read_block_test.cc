#include "protocols/grpc/read_block.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

namespace braid {
namespace {

TEST(ReadBlock, IsUsedAgainWhileNothingIsKept) {
  ReadBlock block(64);
  const char* const start = block.Room().data();
  block.Fill(60);
  EXPECT_EQ(block.Room().data(), start);
  EXPECT_EQ(block.Room().size(), 64u);
}

TEST(ReadBlock, LeavesWhatIsKeptAsItIs) {
  ReadBlock block(64);
  const std::span<char> first = block.Room();
  std::memset(first.data(), 'a', 10);
  block.Fill(10);
  std::optional<Buffer> kept = block.buffer().Slice(0, 10);
  const std::span<char> second = block.Room();
  EXPECT_EQ(second.data(), first.data() + 10);
  EXPECT_EQ(second.size(), 54u);
  std::memset(second.data(), 'b', 40);
  block.Fill(40);
  // 14 bytes are left, less than a quarter.
  const std::span<char> third = block.Room();
  EXPECT_EQ(third.size(), 64u);
  std::memset(third.data(), 'c', third.size());
  EXPECT_EQ(kept->text(), std::string(10, 'a'));
}

}  // namespace
}  // namespace braid
