#include "base/landlock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <functional>

#include "base/temporary_folder.h"

namespace braid {
namespace {

// Runs `body` in a child process and returns its exit code.
int InProcess(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

int Errno(int result) { return result < 0 ? errno : 0; }

TEST(LandlockTest, ADomainKeepsFilesAsTheyWereAndProcessesOut) {
  if (LandlockVersion() < kLandlockForAllFiles) GTEST_SKIP() << "this kernel has none";
  const auto folder = TemporaryFolder::Create("/tmp", "braid-test-").value();
  const std::string parent = "/proc/" + std::to_string(getpid()) + "/mem";
  const std::string name = folder->path() + "/file";
  const std::string other = folder->path() + "/other";
  EXPECT_EQ(InProcess([&] { return Errno(open(parent.c_str(), O_RDONLY)); }), 0);
  EXPECT_EQ(InProcess([&] {
              if (!EnterLandlockDomain().ok()) return 254;
              return Errno(open(parent.c_str(), O_RDONLY));
            }),
            EACCES);
  EXPECT_EQ(InProcess([&] {
              if (!EnterLandlockDomain().ok()) return 254;
              if (int fault = Errno(open(name.c_str(), O_CREAT | O_WRONLY, 0600)); fault != 0) return fault;
              if (int fault = Errno(mkdir(other.c_str(), 0700)); fault != 0) return fault;
              return Errno(rename(name.c_str(), (other + "/file").c_str()));
            }),
            0);
}

TEST(LandlockTest, SignalsStayWithinADomain) {
  if (LandlockVersion() < kLandlockForSignals) GTEST_SKIP() << "this kernel keeps none in";
  EXPECT_EQ(InProcess([parent = getpid()] {
              if (!EnterLandlockDomain().ok()) return 254;
              return Errno(kill(parent, 0));
            }),
            EPERM);
  EXPECT_EQ(InProcess([] { return EnterLandlockDomain().ok() ? Errno(kill(getpid(), 0)) : 254; }), 0);
}

TEST(LandlockTest, OnlyTheNamedFilesCanBeReached) {
  if (LandlockVersion() < 1) GTEST_SKIP() << "this kernel has none";
  const auto folder = TemporaryFolder::Create("/tmp", "braid-test-").value();
  const std::string readable = folder->path() + "/readable";
  const std::string writable = folder->path() + "/writable";
  const std::string other = folder->path() + "/other";
  for (const std::string& path : {readable, writable}) ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  for (const std::string& path : {readable + "/file", other}) std::ofstream(path) << "text";
  const auto confined = [&](const std::function<int()>& body) {
    return InProcess([&] {
      const Status entered = EnterLandlockDomain({{readable}, {writable, true}, {"/no/such/place"}});
      return entered.ok() ? body() : 254;
    });
  };
  EXPECT_EQ(confined([&] { return Errno(open((readable + "/file").c_str(), O_RDONLY)); }), 0);
  EXPECT_EQ(confined([&] { return Errno(open((readable + "/file").c_str(), O_WRONLY)); }), EACCES);
  EXPECT_EQ(confined([&] { return Errno(open((writable + "/new").c_str(), O_CREAT | O_WRONLY, 0600)); }), 0);
  EXPECT_EQ(confined([&] { return Errno(open(other.c_str(), O_RDONLY)); }), EACCES);
  EXPECT_EQ(confined([&] { return Errno(unlink(other.c_str())); }), EACCES);
}

}  // namespace
}  // namespace braid
