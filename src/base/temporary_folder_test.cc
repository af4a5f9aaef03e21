#include "base/temporary_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace braid {
namespace {

namespace fs = std::filesystem;

class TemporaryFolderTest : public ::testing::Test {
 protected:
  TemporaryFolderTest() : parent_(::testing::TempDir() + "braid-test-XXXXXX") {
    if (::mkdtemp(parent_.data()) == nullptr) ADD_FAILURE() << "mkdtemp failed";
  }
  ~TemporaryFolderTest() override { fs::remove_all(parent_); }

  std::string Make(const std::string& name) const {
    fs::create_directories(parent_ + "/" + name + "/deep");
    std::ofstream(parent_ + "/" + name + "/deep/file") << "x";
    return parent_ + "/" + name;
  }

  std::string parent_;
};

TEST_F(TemporaryFolderTest, IsPrivateAndGoesWithItsOwner) {
  std::string path;
  {
    auto folder = TemporaryFolder::Create(parent_, "braid-env-");
    ASSERT_TRUE(folder.ok());
    path = (*folder)->path();
    EXPECT_TRUE(fs::path(path).filename().string().starts_with("braid-env-"));
    struct stat info = {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700u);
    std::ofstream(path + "/file") << "x";
  }
  EXPECT_TRUE(fs::is_empty(parent_));
}

TEST_F(TemporaryFolderTest, RemovesWhatKilledServersLeft) {
  auto in_use = TemporaryFolder::Create(parent_, "braid-files-");
  ASSERT_TRUE(in_use.ok());
  const std::string dead = Make("braid-files-dead");
  const std::string of_others = Make("braid-env-dead");
  const std::string other = Make("other");
  const std::string young = Make(".braid-new-young");
  const std::string old = Make(".braid-new-old");
  fs::create_directory_symlink(other, parent_ + "/braid-files-link");
  struct timespec long_ago[2] = {};
  ASSERT_EQ(::utimensat(AT_FDCWD, old.c_str(), long_ago, 0), 0);
  TemporaryFolder::RemoveAbandoned(parent_, "braid-files-");
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young));
  EXPECT_TRUE(fs::exists(of_others + "/deep/file"));
  EXPECT_TRUE(fs::exists(other + "/deep/file"));
  EXPECT_TRUE(fs::exists((*in_use)->path()));
}

}  // namespace
}  // namespace braid
