#include "base/process_family.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/unique_fd.h"

namespace braid {
namespace {

constexpr int64_t kMinute = 60'000'000'000;

// A pipe. As long as a process holds `held` open, reading `watched` blocks.
struct Pipe {
  Pipe() {
    int fds[2];
    EXPECT_EQ(pipe(fds), 0);
    watched.Reset(fds[0]);
    held.Reset(fds[1]);
  }
  bool IsHeld() {
    held.Reset();
    pollfd wait{watched.get(), POLLIN, 0};
    return poll(&wait, 1, 0) == 0;
  }
  void AwaitEnd() {
    held.Reset();
    char byte = 0;
    EXPECT_EQ(read(watched.get(), &byte, 1), 0);
  }
  UniqueFd watched;
  UniqueFd held;
};

// Forks; the child runs `body` once the caller has written a byte to `go`.
template <class Body>
pid_t ForkThat(int go, Body body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  char byte = 0;
  if (read(go, &byte, 1) == 1) body();
  _exit(0);
}

TEST(ProcessFamily, EndsWithDaemonsAndSessions) {
  Pipe go;
  Pipe life;
  Pipe started;
  const pid_t head = ForkThat(go.watched.get(), [&] {
    // A child, a new session, and a daemon, which runs another program and has no parent.
    if (fork() == 0) {
      [[maybe_unused]] ssize_t written = write(started.held.get(), "1", 1);
      pause();
    }
    if (fork() == 0) {
      setsid();
      if (fork() == 0) {
        [[maybe_unused]] ssize_t written = write(started.held.get(), "2", 1);
        execlp("sleep", "sleep", "1000", nullptr);
      }
      _exit(0);
    }
    pause();
  });
  const Result<ProcessFamily> family = ProcessFamily::Found(head);
  ASSERT_TRUE(family.ok()) << family.status();
  ASSERT_EQ(write(go.held.get(), "x", 1), 1);
  char byte = 0;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(read(started.watched.get(), &byte, 1), 1);
  EXPECT_TRUE(life.IsHeld());
  EXPECT_TRUE(family->End(kMinute));
  life.AwaitEnd();
  int status = 0;
  EXPECT_EQ(waitpid(head, &status, 0), head);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(family->Kill(), 0u);
}

TEST(ProcessFamily, CanBeChosenBeforeTheProcess) {
  Pipe life;
  Pipe go;
  const Result<ProcessFamily> family = ProcessFamily::Prepare();
  ASSERT_TRUE(family.ok()) << family.status();
  const pid_t head = ForkThat(go.watched.get(), [&] {
    const auto [resource, limit] = family->limit();
    setrlimit(static_cast<__rlimit_resource>(resource), &limit);
    if (fork() == 0) pause();
    _exit(0);
  });
  ASSERT_EQ(write(go.held.get(), "x", 1), 1);
  int status = 0;
  EXPECT_EQ(waitpid(head, &status, 0), head);
  EXPECT_TRUE(life.IsHeld());
  EXPECT_TRUE(family->End(kMinute));
  life.AwaitEnd();
}

TEST(ProcessFamily, EndsAroundTheCaller) {
  Pipe life;
  Pipe go;
  const pid_t head = ForkThat(go.watched.get(), [&] {
    if (fork() == 0) pause();
    const auto own = ProcessFamily::Own();
    _exit(own && own->End(kMinute) ? 7 : 1);
  });
  ASSERT_TRUE(ProcessFamily::Found(head).ok());
  ASSERT_EQ(write(go.held.get(), "x", 1), 1);
  life.AwaitEnd();
  int status = 0;
  EXPECT_EQ(waitpid(head, &status, 0), head);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(ProcessFamily, OthersAreLeftAlone) {
  EXPECT_FALSE(ProcessFamily::Own());
  Pipe go;
  const pid_t one = ForkThat(go.watched.get(), [] { pause(); });
  const pid_t other = ForkThat(go.watched.get(), [] { pause(); });
  const auto family = ProcessFamily::Found(one);
  ASSERT_TRUE(family.ok() && ProcessFamily::Found(other).ok());
  EXPECT_TRUE(family->End(kMinute));
  int status = 0;
  EXPECT_EQ(waitpid(one, &status, 0), one);
  EXPECT_EQ(waitpid(other, &status, WNOHANG), 0);
  kill(other, SIGKILL);
  EXPECT_EQ(waitpid(other, &status, 0), other);
}

TEST(ProcessFamily, ALowLimitIsNoMark) {
  Pipe go;
  const pid_t pid = ForkThat(go.watched.get(), [] { pause(); });
  const rlimit low{1000, 1000};
  ASSERT_EQ(prlimit(pid, RLIMIT_LOCKS, &low, nullptr), 0);
  EXPECT_EQ(ProcessFamily::Found(pid).status().code(), StatusCode::kUnsupported);
  kill(pid, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
}

}  // namespace
}  // namespace braid
