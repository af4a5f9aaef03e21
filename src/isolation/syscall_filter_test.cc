#include "isolation/syscall_filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>

#include "base/temporary_folder.h"
#include "base/unique_fd.h"

namespace braid {
namespace {

// Returns the error of `call` in a process under the filter; 0 if it succeeds.
int Under(IsolationLevel level, const std::function<long()>& call, FileFacts facts = FileFacts::kAll) {
  const SyscallFilter filter = SyscallFilter::Of(level, facts).value();
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

// The kernel's number; the system's headers may not have the call yet.
constexpr long kFchmodat2 = 452;
constexpr long kSetxattrat = 463;
constexpr long kRemovexattrat = 466;
constexpr long kFileSetattr = 469;

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
  // The kernel ignores the upper half of the register.
  constexpr long kDisguised = (1L << 32) | RLIMIT_LOCKS;
  EXPECT_EQ(Under(kBasic, [&] { return syscall(SYS_setrlimit, kDisguised, &limit); }), EPERM);
  EXPECT_EQ(Under(kBasic, [&] { return syscall(SYS_prlimit64, 0, kDisguised, &limit, nullptr); }), EPERM);
}

TEST_F(SyscallFilterTest, NothingIsTypedIntoATerminal) {
  char letter = 'x';
  // Otherwise the kernel reports that it is not a terminal.
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const unsigned long call : {TIOCSTI, TIOCLINUX}) {
    EXPECT_EQ(Under(kBasic, [&] { return ioctl(null.get(), call, &letter); }), EPERM);
    // The kernel ignores the upper half of the register.
    EXPECT_EQ(Under(kBasic, [&] { return syscall(SYS_ioctl, null.get(), (1UL << 32) | call, &letter); }),
              EPERM);
  }
  EXPECT_EQ(Under(kBasic, [&] { return ioctl(null.get(), TCGETS, &letter); }), ENOTTY);
}

TEST_F(SyscallFilterTest, NoProgramIsMadeItsOwnersForAll) {
  const auto folder = TemporaryFolder::Create("/tmp", "braid-test-").value();
  const std::string path = folder->path() + "/file";
  const auto under = [](const std::function<long()>& call) {
    return Under(kStrict, call, FileFacts::kWithoutSetId);
  };
  const auto make = [&path](int flags, mode_t mode) {
    return open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, mode);
  };
  EXPECT_EQ(under([&] { return make(O_CREAT, 0755); }), 0);
  EXPECT_EQ(under([&] { return chmod(path.c_str(), 0600); }), 0);
  for (const mode_t bit : {S_ISUID, S_ISGID}) {
    EXPECT_EQ(under([&] { return make(O_CREAT, 0755 | bit); }), EPERM);
    EXPECT_EQ(
        under([&] { return open(folder->path().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0755 | bit); }),
        EPERM);
    EXPECT_EQ(under([&] { return make(0, 0755 | bit); }), 0) << "the mode is nothing there";
    EXPECT_EQ(under([&] { return creat(path.c_str(), 0755 | bit); }), EPERM);
    EXPECT_EQ(under([&] { return mknod((path + "2").c_str(), S_IFREG | 0755 | bit, 0); }), EPERM);
    EXPECT_EQ(under([&] { return chmod(path.c_str(), 0755 | bit); }), EPERM);
    EXPECT_EQ(under([&] { return fchmodat(AT_FDCWD, path.c_str(), 0755 | bit, 0); }), EPERM);
    EXPECT_EQ(under([&] { return syscall(kFchmodat2, AT_FDCWD, path.c_str(), 0755 | bit, 0); }), EPERM);
  }
  EXPECT_EQ(under([&] { return syscall(SYS_openat2, AT_FDCWD, path.c_str(), nullptr, 0); }), ENOSYS);
}

TEST_F(SyscallFilterTest, FactsOfFilesStayWhereNoMountKeepsThem) {
  const auto folder = TemporaryFolder::Create("/tmp", "braid-test-").value();
  const char* const path = folder->path().c_str();
  const auto under = [](const std::function<long()>& call) { return Under(kStrict, call, FileFacts::kNone); };
  EXPECT_EQ(under([path] { return chmod(path, 0755); }), EPERM);
  EXPECT_EQ(under([path] { return syscall(kFchmodat2, AT_FDCWD, path, 0755, 0); }), EPERM);
  EXPECT_EQ(under([path] { return chown(path, 1, 1); }), EPERM);
  EXPECT_EQ(under([path] { return utimensat(AT_FDCWD, path, nullptr, 0); }), EPERM);
  EXPECT_EQ(under([path] { return setxattr(path, "user.braid", "1", 1, 0); }), EPERM);
  for (const long call : {kSetxattrat, kRemovexattrat, kFileSetattr})
    EXPECT_EQ(under([call] { return syscall(call, 0, 0, 0, 0, 0, 0); }), EPERM) << call;
  EXPECT_EQ(under([path] {
              long flags = 0;
              return ioctl(open(path, O_RDONLY | O_CLOEXEC), FS_IOC_SETFLAGS, &flags);
            }),
            EPERM);
}

TEST_F(SyscallFilterTest, FactsOfOpenFilesMayBeAllThatChange) {
  const auto folder = TemporaryFolder::Create("/tmp", "braid-test-").value();
  const char* const path = folder->path().c_str();
  const UniqueFd open_folder(open(path, O_RDONLY | O_CLOEXEC));
  const int file = open_folder.get();
  const auto under = [](const std::function<long()>& call) {
    return Under(kStrict, call, FileFacts::kOfOpenFiles);
  };
  EXPECT_EQ(under([file] { return fchmod(file, 0755); }), 0);
  EXPECT_EQ(under([file] { return fchmod(file, 02755); }), EPERM);
  EXPECT_EQ(under([file] { return futimens(file, nullptr); }), 0);
  EXPECT_EQ(under([file] { return fsetxattr(file, "user.braid", "1", 1, 0); }), EPERM);
  EXPECT_EQ(under([path] { return chmod(path, 0755); }), EPERM);
  EXPECT_EQ(under([path] { return utimensat(AT_FDCWD, path, nullptr, 0); }), EPERM);
  EXPECT_EQ(under([] { return socket(AF_UNIX, SOCK_STREAM, 0); }), EACCES);
}

TEST_F(SyscallFilterTest, SocketsAndNamespacesAreOfTheLevel) {
  const auto internet = [] { return socket(AF_INET, SOCK_STREAM, 0); };
  EXPECT_EQ(Under(kBasic, internet), 0);
  EXPECT_EQ(Under(kStrict, internet), EACCES);
  EXPECT_EQ(Under(kSeparate, internet), 0) << "in a network of its own";
  for (const int family : {AF_UNIX, AF_INET6, AF_NETLINK})
    EXPECT_EQ(Under(kSeparate, [family] { return socket(family, SOCK_DGRAM, 0); }), 0) << family;
  for (const int family : {AF_VSOCK, AF_ALG, AF_X25, AF_PACKET})
    EXPECT_EQ(Under(kSeparate, [family] { return socket(family, SOCK_STREAM, 0); }), EACCES) << family;
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
