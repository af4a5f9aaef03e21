#include "isolation/mount_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/temporary_folder.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

class MountTreeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!CanMakeMountTrees()) GTEST_SKIP() << "needs mounts";
    fs::create_directories(root_ + "/data/deep/own");
    fs::create_directories(root_ + "/other");
    std::ofstream(root_ + "/data/file") << "text";
    fs::create_symlink("data", root_ + "/link");
    fs::create_symlink(root_ + "/link/deep", root_ + "/other/far");
  }

  // Runs `look` in a process whose root is the tree, and returns its result.
  static bool In(const std::vector<LandlockPath>& paths, const std::function<bool()>& look) {
    const MountTree tree = MountTree::Of(paths);
    const pid_t pid = fork();
    if (pid == 0) {
      const Status entered = tree.Enter(false);
      EXPECT_TRUE(entered.ok()) << entered;
      _exit(entered.ok() && look() ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return status == 0;
  }
  static bool CanWrite(const std::string& folder) {
    const int file = open((folder + "/new").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    return file >= 0 && close(file) == 0;
  }

  const std::shared_ptr<TemporaryFolder> folder_ = TemporaryFolder::Create("/tmp", "braid-tree-").value();
  const std::string root_ = folder_->path();
};

TEST_F(MountTreeTest, HasItsPathsAndNothingElse) {
  EXPECT_TRUE(In({{root_ + "/data"}, {root_ + "/no/such"}}, [&] {
    return fs::exists(root_ + "/data/file") && !fs::exists(root_ + "/other") && !fs::exists("/etc") &&
           fs::current_path() == "/" && !CanWrite("/") && !CanWrite(root_);
  }));
}

TEST_F(MountTreeTest, WhatIsReadKeepsItsFacts) {
  EXPECT_TRUE(In({{root_ + "/data"}, {"/dev/null", true}}, [&] {
    const auto refused = [](const std::string& path) {
      return chmod(path.c_str(), 0666) != 0 && errno == EROFS;
    };
    return refused(root_ + "/data/file") && refused(root_ + "/data") && refused("/dev/null") &&
           !CanWrite(root_ + "/data") && std::ofstream("/dev/null").good();
  }));
}

TEST_F(MountTreeTest, AFolderToWriteToMayBeInOneToRead) {
  const std::vector<LandlockPath> paths = {{root_ + "/data/deep/own", true}, {root_ + "/data"}};
  EXPECT_TRUE(In(paths, [&] {
    return CanWrite(root_ + "/data/deep/own") && !CanWrite(root_ + "/data/deep") &&
           chmod((root_ + "/data/deep/own").c_str(), 0700) == 0;
  }));
  EXPECT_TRUE(fs::exists(root_ + "/data/deep/own/new")) << "it is the folder itself";
}

TEST_F(MountTreeTest, AFolderToReadInOneToWriteToIsAsThatIs) {
  EXPECT_TRUE(
      In({{root_ + "/data", true}, {root_ + "/data/deep"}}, [&] { return CanWrite(root_ + "/data/deep"); }));
}

TEST_F(MountTreeTest, LinksLeadWhereTheyLed) {
  EXPECT_TRUE(In({{root_ + "/other/far"}}, [&] {
    return fs::exists(root_ + "/other/far/own") && fs::exists(root_ + "/link/deep/own") &&
           !fs::exists(root_ + "/data/file");
  }));
}

TEST_F(MountTreeTest, SharedMemoryIsItsOwn) {
  const auto shared = TemporaryFolder::Create("/dev/shm", "braid-tree-").value();
  const auto given = TemporaryFolder::Create("/dev/shm", "braid-tree-").value();
  EXPECT_TRUE(In({{"/dev/shm", true}, {given->path(), true}}, [&] {
    return !fs::exists(shared->path()) && CanWrite("/dev/shm") && CanWrite(given->path());
  }));
}

TEST_F(MountTreeTest, TheWholeMachineCanBeOneOfItsPaths) {
  EXPECT_TRUE(In({{"/"}, {root_ + "/other", true}, {"/dev/shm", true}}, [&] {
    return fs::exists(root_ + "/data/file") && fs::exists("/etc") && !CanWrite(root_) &&
           CanWrite(root_ + "/other") && fs::is_empty("/dev/shm");
  }));
}

}  // namespace
}  // namespace braid
