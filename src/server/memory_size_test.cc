#include "server/memory_size.h"

#include <gtest/gtest.h>

#include "config/testing/scratch_folder.h"

namespace braid {
namespace {

TEST(MemorySize, IsTheLeastOfMachineAndGroup) {
  const testing::ScratchFolder groups;
  const uint64_t machine = MemorySize(groups / "nothing");
  EXPECT_GT(machine, uint64_t{64} << 20);
  groups.Write("memory.max", "max\n");
  EXPECT_EQ(MemorySize(groups / ""), machine);
  groups.Write("memory.max", "1048576\n");
  EXPECT_EQ(MemorySize(groups / ""), 1048576u);
  groups.Write("memory/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(MemorySize(groups / ""), 4096u);
  groups.Write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(MemorySize(groups / ""), 1048576u);
}

}  // namespace
}  // namespace braid
