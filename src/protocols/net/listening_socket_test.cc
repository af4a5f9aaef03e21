#include "protocols/net/listening_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unix_address.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class ListeningSocketTest : public ::testing::Test {
 protected:
  ListeningSocketTest() {
    std::string made = (std::filesystem::temp_directory_path() / "listen-XXXXXX").string();
    EXPECT_NE(::mkdtemp(made.data()), nullptr);
    folder_ = made;
    path_ = folder_ + "/s";
  }
  ~ListeningSocketTest() override { std::filesystem::remove_all(folder_); }

  // Whether a client can connect.
  bool Connects() const {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un name = UnixName(path_);
    return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
  }
  // Leaves the file of a dead server.
  void LeaveDeadSocket() const {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un name = UnixName(path_);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  }
  mode_t Mode() const {
    struct stat found {};
    EXPECT_EQ(::lstat(path_.c_str(), &found), 0);
    return found.st_mode & 0777;
  }
  std::string Why() const { return ListenAtPath(path_, 0600).status().message(); }

  std::string folder_;
  std::string path_;
};

TEST_F(ListeningSocketTest, TheFileHasItsModeAndEndsWithTheSocket) {
  for (const mode_t mask : {0777, 0}) {
    for (const uint32_t mode : {0600, 0660, 0666}) {
      const mode_t before = ::umask(mask);
      const auto listener = ListenAtPath(path_, mode);
      ::umask(before);
      ASSERT_TRUE(listener.ok()) << listener.status();
      EXPECT_EQ(Mode(), mode);
      EXPECT_TRUE(Connects());
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
}

TEST_F(ListeningSocketTest, ADeadSocketIsReplacedALivingOneIsNot) {
  LeaveDeadSocket();
  const auto first = ListenAtPath(path_, 0600);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = ListenAtPath(path_, 0600);
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(), "Socket 'unix:" + path_ + "' already in use");
  EXPECT_TRUE(Connects());
}

TEST_F(ListeningSocketTest, FilesOfOthersStay) {
  std::ofstream(path_) << "mine";
  EXPECT_THAT(Why(), EndsWith("the file exists and is not a socket; remove it or choose another path"));
  EXPECT_EQ(std::filesystem::file_size(path_), 4u);
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(folder_ + "/away", path_);
  EXPECT_THAT(Why(), HasSubstr("is not a socket"));
  std::filesystem::remove(path_);
  {
    const auto listener = ListenAtPath(path_, 0600);
    ASSERT_TRUE(listener.ok());
    std::filesystem::remove(path_);
    std::ofstream(path_) << "another";
  }
  EXPECT_EQ(std::filesystem::file_size(path_), 7u);
}

TEST_F(ListeningSocketTest, FaultsNameTheAddress) {
  path_ = folder_ + "/none/s";
  EXPECT_EQ(Why(), "cannot listen on unix:" + path_ + ": the folder " + folder_ +
                       "/none: No such file or directory");
}

TEST_F(ListeningSocketTest, TheWaitForAFolderEnds) {
  const UniqueFd held(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  // Port 0 leads to no second wait.
  EXPECT_EQ(ListenOn("unix:" + path_, 0, false).status().message(),
            "cannot listen on unix:" + path_ + ": another process locks the folder " + folder_);
}

TEST_F(ListeningSocketTest, OneOfManyReplacesADeadSocket) {
  for (int round = 0; round < 20; ++round) {
    LeaveDeadSocket();
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<UnixListener>> kept(4);
    std::vector<Status> failed(4);
    for (size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        auto listener = ListenAtPath(path_, 0600);
        failed[i] = listener.status();
        if (listener.ok()) kept[i] = std::make_unique<UnixListener>(std::move(listener).value());
      });
    }
    for (std::thread& thread : threads) thread.join();
    int served = 0;
    for (size_t i = 0; i < 4; ++i) {
      if (kept[i] != nullptr) {
        ++served;
      } else {
        EXPECT_THAT(failed[i].message(), EndsWith("already in use"));
      }
    }
    EXPECT_EQ(served, 1);
    EXPECT_TRUE(Connects());
  }
}

TEST_F(ListeningSocketTest, AListHasOnePort) {
  EXPECT_THAT(ListedAddresses("127.0.0.1, ::1 ,unix:/x"), ElementsAre("127.0.0.1", "::1", "unix:/x"));
  const auto sockets = ListenOn("unix:" + path_ + ",127.0.0.1,127.0.0.2,::1", 0, false, 0660);
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  ASSERT_EQ(sockets->size(), 4u);
  EXPECT_EQ(Mode(), 0660u);
  const uint16_t port = PortOf(*sockets);
  EXPECT_NE(port, 0);
  for (const char* address : {"127.0.0.1", "127.0.0.2", "::1"}) {
    EXPECT_EQ(ListenOn(address, port, false).status().message(),
              "Socket '" + std::string(address) + ":" + std::to_string(port) + "' already in use");
  }
  const auto alone = ListenOn("unix:" + folder_ + "/t", 0, false);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(PortOf(*alone), 0);
}

TEST_F(ListeningSocketTest, AllAddressesOfBothFamiliesFitInOneList) {
  const auto sockets = ListenOn("0.0.0.0,::", 0, false);
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  // Alone, "::" takes IPv4 too.
  const auto both = ListenOn("::", 0, false);
  ASSERT_TRUE(both.ok());
  EXPECT_THAT(ListenOn("127.0.0.1", PortOf(*both), false).status().message(), EndsWith("already in use"));
}

TEST_F(ListeningSocketTest, AConnectionTellsItsKind) {
  const auto sockets = ListenOn("unix:" + path_, 0, false);
  ASSERT_TRUE(sockets.ok());
  EXPECT_TRUE(Connects());
  Refusals refusals(nullptr);
  const auto limits = std::make_shared<ConnectionLimits>(ConnectionLimits::Options{1, 1}, refusals);
  std::vector<bool> kinds;
  EXPECT_TRUE(AcceptAll(sockets->front().fd.get(), *limits,
                        [&](const AcceptedSocket& client) { kinds.push_back(client.is_unix); }));
  EXPECT_THAT(kinds, ElementsAre(true));
}

TEST_F(ListeningSocketTest, LoopbackIsThisMachine) {
  for (const char* here : {"unix:/x", "127.0.0.1,unix:/x", "::1,127.1.2.3"})
    EXPECT_TRUE(IsLoopback(here)) << here;
  for (const char* open : {"0.0.0.0,unix:/x", "unix:/x,::"}) EXPECT_FALSE(IsLoopback(open)) << open;
}

}  // namespace
}  // namespace braid
