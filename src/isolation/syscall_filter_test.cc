#include "isolation/syscall_filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

namespace braid {
namespace {

// The error of `call` in a process under the filter; 0: none.
int Under(IsolationLevel level, const std::function<long()>& call) {
  const SyscallFilter filter = SyscallFilter::Of(level).value();
  const pid_t pid = fork();
  if (pid == 0) {
    if (!filter.Enter().ok()) _exit(254);
    _exit(call() < 0 ? errno : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

constexpr auto kBasic = IsolationLevel::kBasic;
constexpr auto kStrict = IsolationLevel::kStrict;
constexpr auto kSeparate = IsolationLevel::kSeparate;

class SyscallFilterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasSyscallFilters()) GTEST_SKIP() << "this kernel has none";
  }
};

TEST_F(SyscallFilterTest, OtherProcessesCannotBeTracedOrLimited) {
  const pid_t parent = getpid();
  EXPECT_EQ(Under(kBasic, [parent] { return ptrace(PTRACE_ATTACH, parent, 0, 0); }), EPERM);
  EXPECT_EQ(Under(kBasic, [parent] { return syscall(SYS_process_vm_readv, parent, 0, 0, 0, 0, 0); }), EPERM);
  const rlimit limit{64, 64};
  EXPECT_EQ(Under(kBasic, [&] { return prlimit(parent, RLIMIT_NOFILE, &limit, nullptr); }), EPERM);
  rlimit read{};
  EXPECT_EQ(Under(kBasic, [&] { return prlimit(parent, RLIMIT_NOFILE, nullptr, &read); }), 0);
  EXPECT_EQ(Under(kBasic, [&] { return prlimit(0, RLIMIT_NOFILE, &limit, nullptr); }), 0);
}

TEST_F(SyscallFilterTest, TheLimitThatMarksAFamilyStays) {
  const rlimit limit{7, 7};
  EXPECT_EQ(Under(kBasic, [&] { return setrlimit(RLIMIT_LOCKS, &limit); }), EPERM);
  // The kernel looks at half of the register.
  constexpr long kDisguised = (1L << 32) | RLIMIT_LOCKS;
  EXPECT_EQ(Under(kBasic, [&] { return syscall(SYS_setrlimit, kDisguised, &limit); }), EPERM);
  EXPECT_EQ(Under(kBasic, [&] { return syscall(SYS_prlimit64, 0, kDisguised, &limit, nullptr); }), EPERM);
}

TEST_F(SyscallFilterTest, SocketsAndNamespacesAreOfTheLevel) {
  const auto internet = [] { return socket(AF_INET, SOCK_STREAM, 0); };
  EXPECT_EQ(Under(kBasic, internet), 0);
  EXPECT_EQ(Under(kStrict, internet), EACCES);
  EXPECT_EQ(Under(kSeparate, internet), 0) << "in a network of its own";
  EXPECT_EQ(Under(kStrict, [] { return socket(AF_UNIX, SOCK_STREAM, 0); }), 0);
  EXPECT_EQ(Under(kStrict, [] { return unshare(CLONE_NEWUTS); }), EPERM);
  EXPECT_EQ(Under(kStrict, [] { return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); }), EPERM);
  EXPECT_EQ(Under(kStrict, [] { return syscall(SYS_clone3, 0, 0); }), ENOSYS);
  EXPECT_EQ(Under(kStrict, [] { return syscall(SYS_io_uring_setup, 1, 0); }), ENOSYS);
  EXPECT_EQ(Under(kStrict,
                  [] {
                    const pid_t child = fork();
                    if (child == 0) _exit(0);
                    return child;
                  }),
            0)
      << "processes can be started";
}

}  // namespace
}  // namespace braid
