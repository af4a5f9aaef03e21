#include "isolation/start_program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <spdlog/fmt/fmt.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/check.h"
#include "base/guard.h"
#include "base/landlock.h"
#include "base/temporary_folder.h"
#include "base/testing/failing_allocation.h"
#include "base/unique_fd.h"
#include "isolation/syscall_filter.h"

namespace braid {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Returns the output of a line of sh.
std::string Shell(const std::string& line, Confinement confinement,
                  std::vector<std::string> variables = {"PATH=/bin"}) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const Result<pid_t> pid = StartProgram({.arguments = {"/bin/sh", "-c", line},
                                          .variables = std::move(variables),
                                          .descriptors = {null.get(), in.get(), in.get()},
                                          .confinement = std::move(confinement)});
  if (!pid.ok()) return pid.status().message();
  in.Reset();
  std::string text;
  std::array<char, 4096> block{};
  for (ssize_t length = 0; (length = read(out.get(), block.data(), block.size())) > 0;)
    text.append(block.data(), static_cast<size_t>(length));
  int status = 0;
  waitpid(*pid, &status, 0);
  return text;
}

std::string MountsInSight() {
  std::ifstream file("/proc/self/mountinfo");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(StartProgramTest, ItHasItsVariablesAndDescriptorsAndNoMore) {
  // A descriptor that was left open by mistake.
  const UniqueFd stray(open("/dev/zero", O_RDONLY));
  EXPECT_EQ(Shell("echo $NAME; ls /proc/self/fd | tr '\\n' ' '", {.level = IsolationLevel::kNone},
                  {"NAME=value", "PATH=/bin"}),
            "value\n0 1 2 3 ")
      << "3 is that of the folder that ls reads";
}

// This process's ignored signals; bit 0 is signal 1.
uint64_t IgnoredSignals() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigIgn:")) return std::stoull(line.substr(7), nullptr, 16);
  return 0;
}

TEST(StartProgramTest, ItIgnoresAndBlocksWhatTheServerWasStartedWith) {
  struct Restore {
    ~Restore() {
      for (const int number : {SIGPIPE, SIGHUP, SIGUSR1}) std::signal(number, SIG_DFL);
    }
  } restore;
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGUSR1, [](int) {});
  const auto bit = [](int number) { return uint64_t{1} << (number - 1); };
  // The tests may be started with ignored signals: some container runtimes ignore glibc's two internal ones.
  const uint64_t ignored = IgnoredSignals();
  EXPECT_EQ(ignored & (bit(SIGPIPE) | bit(SIGHUP)), bit(SIGPIPE) | bit(SIGHUP));
  EXPECT_EQ(
      Shell("cat /proc/self/status | grep -E 'Sig(Blk|Ign|Cgt)'", {.level = IsolationLevel::kBasic}),
      fmt::format("SigBlk:\t{:016x}\nSigIgn:\t{:016x}\nSigCgt:\t{:016x}\n", 0, ignored & ~bit(SIGPIPE), 0));
  EXPECT_NE(std::signal(SIGUSR1, SIG_DFL), SIG_DFL) << "the server's own stay";
}

// The network namespace of a program, as it prints it.
std::string NetworkOf(bool no_network) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
  const UniqueFd out(ends[0]);
  const UniqueFd in(ends[1]);
  const Result<pid_t> pid = StartProgram({.arguments = {"/bin/readlink", "/proc/self/ns/net"},
                                          .variables = {},
                                          .descriptors = {in.get(), in.get(), in.get()},
                                          .no_network = no_network});
  if (!pid.ok()) return pid.status().message();
  waitpid(*pid, nullptr, 0);
  std::array<char, 256> block{};
  return {block.data(),
          static_cast<size_t>(std::max<ssize_t>(read(out.get(), block.data(), block.size()), 0))};
}

TEST(StartProgramTest, ItMayBeWithoutANetwork) {
  const std::string ours = std::filesystem::read_symlink("/proc/self/ns/net").string() + "\n";
  EXPECT_EQ(NetworkOf(false), ours);
  const std::string other = NetworkOf(true);
  EXPECT_THAT(other, StartsWith("net:["));
  if (other == ours) GTEST_SKIP() << "this system takes no network away";
}

TEST(StartProgramTest, TheThreadThatStartsItIsNotConfined) {
  EXPECT_THAT(Shell("grep -E 'NoNewPrivs|Seccomp:' /proc/self/status", {.level = IsolationLevel::kBasic}),
              HasSubstr(HasSyscallFilters() ? "NoNewPrivs:\t1\nSeccomp:\t2" : "NoNewPrivs:\t1"));
  EXPECT_EQ(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0);
  EXPECT_LE(prctl(PR_GET_SECCOMP, 0, 0, 0, 0), 0);
}

TEST(StartProgramTest, BasicKeepsFilesAndStrictDoesNot) {
  EXPECT_THAT(Shell("cat /proc/1/comm >/dev/null; cat /etc/shadow 2>&1 | head -c 4",
                    {.level = IsolationLevel::kBasic}),
              StartsWith(geteuid() == 0 ? "root" : "cat:"));
  if (LandlockVersion() < 1) GTEST_SKIP() << "this kernel has no Landlock";
  const std::vector<LandlockPath> files = {
      {"/bin"}, {"/usr"}, {"/lib"}, {"/lib64"}, {"/etc/ld.so.cache"}, {"/dev/null", true}};
  EXPECT_THAT(Shell("cat /etc/shadow", {.level = IsolationLevel::kStrict, .files = files}),
              HasSubstr(CanMakeMountTrees() ? "No such file" : "Permission denied"));
  EXPECT_EQ(Shell("echo here", {.level = IsolationLevel::kStrict, .files = files}), "here\n");
}

TEST(StartProgramTest, AConfinementIsEnteredWithoutAnAllocation) {
  for (const IsolationLevel level : {IsolationLevel::kBasic, IsolationLevel::kStrict}) {
    if (level == IsolationLevel::kStrict && LandlockVersion() < 1) continue;
    const PreparedConfinement confinement =
        PreparedConfinement::Make(
            {.level = level, .files = {{"/usr"}, {"/a/path/that/does/not/exist/anywhere"}}})
            .value();
    const pid_t pid = fork();
    if (pid == 0) {
      FailingAllocation failing(0, 1000);
      const bool entered = Guarded([&] { return confinement.Enter(); }).ok();
      _exit(entered && failing.Stop() == 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0) << IsolationLevelName(level);
  }
}

TEST(StartProgramTest, ItLeadsASessionWithoutATerminal) {
  EXPECT_EQ(Shell("read -r pid _ _ _ group session terminal _ < /proc/self/stat; "
                  "echo $((pid - group)) $((pid - session)) $terminal",
                  {.level = IsolationLevel::kNone}),
            "0 0 0\n");
}

TEST(StartProgramTest, SaysWhichProgramThereIsNot) {
  const Result<pid_t> none =
      StartProgram({.arguments = {"/no/such/program"}, .variables = {}, .descriptors = {}});
  EXPECT_EQ(none.status().message(), "'/no/such/program': cannot be run: No such file or directory");
}

TEST(ConfineProcessTest, ItChangesWhatItHasOpenAndHasNoSockets) {
  if (LandlockVersion() < 1 || !HasSyscallFilters()) GTEST_SKIP() << "needs Landlock and seccomp";
  const auto folder = TemporaryFolder::Create("/tmp", "braid-test-").value();
  const std::string outside = folder->path() + "/outside";
  std::ofstream(outside) << "";
  std::filesystem::create_directory(folder->path() + "/own");
  const pid_t pid = fork();
  if (pid == 0) {
    EXPECT_TRUE(ConfineProcess({{folder->path() + "/own", true}}).ok());
    const UniqueFd made(open((folder->path() + "/own/made").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_EQ(fchmod(made.get(), 0755), 0);
    EXPECT_TRUE(chmod(outside.c_str(), 0666) != 0 && errno == EPERM);
    EXPECT_TRUE(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EACCES);
    _exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(StartProgramTest, StrictHasItsOwnSystemVMemoryWhereItMayMount) {
  if (LandlockVersion() < 1 || !CanMakeMountTrees()) GTEST_SKIP() << "needs mounts, and Landlock";
  const std::string own = std::filesystem::read_symlink("/proc/self/ns/ipc");
  EXPECT_NE(
      Shell("readlink /proc/self/ns/ipc", {.level = IsolationLevel::kStrict,
                                           .files = {{"/bin"}, {"/usr"}, {"/lib"}, {"/lib64"}, {"/proc"}}}),
      own + "\n");
}

TEST(StartProgramTest, SeparateIsAnotherUser) {
  if (!ReportIsolation(IsolationLevel::kSeparate).refused.empty()) GTEST_SKIP() << "needs root and Landlock";
  const std::vector<LandlockPath> files = {
      {"/bin"}, {"/usr"}, {"/lib"}, {"/lib64"}, {"/proc"}, {"/etc/ld.so.cache"}, {"/dev/null", true}};
  EXPECT_EQ(Shell("id -u; id -G; echo $$; ls /root",
                  {.level = IsolationLevel::kSeparate, .files = files, .user_id = 70042}),
            "70042\n70042\n1\nls: cannot access '/root': No such file or directory\n");
  EXPECT_NE(geteuid(), 70042U);
}

// There, "/" is not a mount, and the program's mounts must not appear in the mounts from which they were
// copied.
TEST(StartProgramTest, StrictAndSeparateWorkInAChroot) {
  if (!ReportIsolation(IsolationLevel::kSeparate).refused.empty()) GTEST_SKIP() << "needs root and Landlock";
  constexpr int kInAChroot = 77;
  const auto folder = TemporaryFolder::Create(testing::TempDir(), "braid-chroot-").value();
  const pid_t pid = fork();
  if (pid == 0) {
    BRAID_CHECK(unshare(CLONE_NEWNS) == 0);
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      BRAID_CHECK(errno == EINVAL);
      _exit(kInAChroot);
    }
    std::filesystem::create_directory(folder->path() + "/run");
    for (const std::string name : {"bin", "usr", "lib", "lib64", "etc", "proc", "dev"}) {
      if (!std::filesystem::exists("/" + name)) continue;
      const std::string target = folder->path() + "/" + name;
      std::filesystem::create_directory(target);
      BRAID_CHECK(mount(("/" + name).c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0);
    }
    BRAID_CHECK(mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr) == 0);
    BRAID_CHECK(chroot(folder->path().c_str()) == 0 && chdir("/usr") == 0);
    const std::string before = MountsInSight();
    const std::vector<LandlockPath> files = {{"/bin"},   {"/usr"}, {"/lib"},
                                             {"/lib64"}, {"/etc"}, {"/dev/null", true}};
    for (const IsolationLevel level : {IsolationLevel::kStrict, IsolationLevel::kSeparate}) {
      EXPECT_EQ(Shell("pwd", {.level = level, .files = files, .user_id = 70042}), "/\n");
      EXPECT_EQ(TryConfinement({.level = level, .user_id = 70042}).message(), "");
    }
    EXPECT_EQ(MountsInSight(), before);
    _exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (WEXITSTATUS(status) == kInAChroot) GTEST_SKIP() << "this is one, so that the other tests show it";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace braid
