#include "protocols/console/process_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

namespace braid {
namespace {

TEST(ProcessMemory, LooksOnceAtATime) {
  ProcessMemory memory;
  std::vector<std::function<void()>> tasks;
  const auto run = [&](std::function<void()> task) {
    tasks.push_back(std::move(task));
    return true;
  };
  EXPECT_EQ(memory.ProportionalBytes(::getpid()), std::nullopt);
  // A process that there is not is left out.
  memory.Look({::getpid(), -1}, run);
  memory.Look({::getpid()}, run);
  ASSERT_EQ(tasks.size(), 1u);
  tasks[0]();
  ASSERT_TRUE(memory.ProportionalBytes(::getpid()).has_value());
  EXPECT_GT(*memory.ProportionalBytes(::getpid()), 1'000'000u);
  EXPECT_EQ(memory.ProportionalBytes(-1), std::nullopt);
  // What was found is good for a while.
  memory.Look({::getpid()}, run);
  EXPECT_EQ(tasks.size(), 1u);
}

TEST(ProcessMemory, TriesAgainWhenThereWasNoThread) {
  ProcessMemory memory;
  memory.Look({::getpid()}, [](const std::function<void()>&) { return false; });
  memory.Look({::getpid()}, [](const std::function<void()>& task) {
    task();
    return true;
  });
  EXPECT_TRUE(memory.ProportionalBytes(::getpid()).has_value());
}

TEST(OwnProcess, IsThisOne) {
  const OwnProcess process = ReadOwnProcess();
  EXPECT_GT(process.resident_bytes, 1'000'000u);
  EXPECT_GE(process.threads, 1u);
  EXPECT_GE(process.descriptors, 3u);
  EXPECT_LT(process.descriptors, 1000u);
  EXPECT_GT(process.cpu_us, 0u);
}

}  // namespace
}  // namespace braid
