#include "base/process_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <optional>

namespace braid {
namespace {

TEST(ProcessMemory, IsKnownOfProcessesThatWereAskedFor) {
  ProcessMemory memory;
  EXPECT_EQ(memory.ProportionalBytes(::getpid()), std::nullopt);
  // A process that does not exist has no memory use, and a second call does not wait for it again.
  memory.Ask({::getpid(), -1}, 30'000'000'000);
  ASSERT_TRUE(memory.ProportionalBytes(::getpid()).has_value());
  EXPECT_GT(*memory.ProportionalBytes(::getpid()), 1'000'000u);
  EXPECT_EQ(memory.ProportionalBytes(-1), std::nullopt);
  memory.Ask({-1}, 30'000'000'000);
  EXPECT_EQ(memory.ProportionalBytes(-1), std::nullopt);
}

TEST(ProcessMemory, IsNoMoreThanWhatIsResident) {
  const auto proportional = ReadProportionalBytes(::getpid());
  const auto resident = ReadResidentBytes(::getpid());
  ASSERT_TRUE(proportional && resident);
  EXPECT_GT(*proportional, 100'000u);
  // Both are rounded, and measured at different times.
  EXPECT_LT(*proportional, *resident + 1'000'000u);
  EXPECT_EQ(ReadProportionalBytes(-1), std::nullopt);
  EXPECT_EQ(ReadResidentBytes(-1), std::nullopt);
}

TEST(OwnProcess, IsThisOne) {
  const OwnProcess process = ReadOwnProcess();
  EXPECT_GT(process.resident_bytes, 1'000'000u);
  EXPECT_GE(process.threads, 1u);
  EXPECT_GE(process.descriptors, 3u);
  EXPECT_LT(process.descriptors, 1000u);
  EXPECT_GT(process.cpu_us, 0u);
}

TEST(KeepReadable, LastsUntilTheProcessEnds) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[1]);
    char byte = 0;
    _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  std::shared_ptr<const void> readable = KeepReadable(pid);
  ASSERT_NE(readable, nullptr);
  EXPECT_GT(ReadProportionalBytes(pid).value_or(0), 0U);
  close(ends[1]);
  waitpid(pid, nullptr, 0);
  close(ends[0]);
  EXPECT_EQ(ReadProportionalBytes(pid), std::nullopt);
  readable.reset();
  EXPECT_EQ(ReadProportionalBytes(pid), std::nullopt);
  EXPECT_EQ(KeepReadable(pid), nullptr);
}

}  // namespace
}  // namespace braid
