#include "workers/child_reaper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <future>

namespace braid {
namespace {

pid_t ForkThat(void (*body)()) {
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    body();
    _exit(0);
  }
  return pid;
}

TEST(ChildReaper, TellsExitCodesAndSignals) {
  auto reaper = *ChildReaper::Create();
  std::promise<ExitCause> exited;
  std::promise<ExitCause> killed;
  pid_t sleeper = 0;
  {
    ChildReaper::SpawnScope scope(*reaper);
    ASSERT_TRUE(
        reaper->Watch(ForkThat([] { _exit(3); }), [&](ExitCause cause) { exited.set_value(cause); }).ok());
    sleeper = ForkThat([] { pause(); });
    ASSERT_TRUE(reaper->Watch(sleeper, [&](ExitCause cause) { killed.set_value(cause); }).ok());
  }
  EXPECT_EQ(exited.get_future().get().ToString(), "it exited with code 3");
  reaper->Kill(sleeper, SIGKILL);
  EXPECT_EQ(killed.get_future().get().ToString(), "it was ended by signal 9 (Killed)");
  // Reaped: the process does not exist any more.
  EXPECT_EQ(kill(sleeper, 0), -1);
}

TEST(ChildReaper, ReapsWhatAChildHasOrphaned) {
  auto reaper = *ChildReaper::Create();
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  std::promise<ExitCause> exited;
  {
    ChildReaper::SpawnScope scope(*reaper);
    const pid_t pid = fork();
    if (pid == 0) {
      const pid_t orphan = fork();
      if (orphan == 0) _exit(0);
      [[maybe_unused]] ssize_t written = write(pipe_fds[1], &orphan, sizeof(orphan));
      _exit(0);
    }
    ASSERT_TRUE(reaper->Watch(pid, [&](ExitCause cause) { exited.set_value(cause); }).ok());
  }
  exited.get_future().get();
  pid_t orphan = 0;
  ASSERT_EQ(read(pipe_fds[0], &orphan, sizeof(orphan)), static_cast<ssize_t>(sizeof(orphan)));
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  // The reaper checks each second; signalling a process that is gone fails.
  for (int i = 0; i < 500 && kill(orphan, 0) == 0; ++i) usleep(10'000);
  EXPECT_EQ(kill(orphan, 0), -1);
}

TEST(ChildReaper, EndsTheFamilyOfAChild) {
  auto reaper = *ChildReaper::Create();
  int go[2];
  int life[2];
  ASSERT_EQ(pipe(go), 0);
  ASSERT_EQ(pipe(life), 0);
  std::promise<ExitCause> exited;
  {
    ChildReaper::SpawnScope scope(*reaper);
    const pid_t pid = fork();
    if (pid == 0) {
      char byte = 0;
      [[maybe_unused]] ssize_t got = read(go[0], &byte, 1);
      if (fork() == 0) {
        setsid();
        if (fork() == 0) pause();
      }
      _exit(0);
    }
    const auto family = ProcessFamily::Found(pid);
    ASSERT_TRUE(family.ok()) << family.status();
    ASSERT_TRUE(reaper
                    ->Watch(
                        pid, [&](ExitCause cause) { exited.set_value(cause); }, *family)
                    .ok());
  }
  close(life[1]);
  ASSERT_EQ(write(go[1], "x", 1), 1);
  exited.get_future().get();
  // The end of the pipe: the daemon, its last owner, is gone.
  char byte = 0;
  EXPECT_EQ(read(life[0], &byte, 1), 0);
  for (int fd : {go[0], go[1], life[0]}) close(fd);
}

}  // namespace
}  // namespace braid
