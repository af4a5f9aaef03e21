#include "base/folder_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/temporary_folder.h"
#include "base/thread.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

using Files = std::set<std::string>;

TEST(EventBurstTest, ABurstEndsAfterAPause) {
  EventBurst burst(50, 1000);
  EXPECT_EQ(burst.end_ns(), std::nullopt);
  burst.NoteChange(100);
  EXPECT_EQ(burst.end_ns(), 150);
  burst.NoteChange(140);
  EXPECT_EQ(burst.end_ns(), 190);
  burst.Clear();
  EXPECT_EQ(burst.end_ns(), std::nullopt);
  burst.NoteChange(200);
  EXPECT_EQ(burst.end_ns(), 250);
}

TEST(EventBurstTest, AWriteProlongsABurstButBeginsNone) {
  EventBurst burst(50, 1000);
  burst.NoteWrite(10);
  EXPECT_EQ(burst.end_ns(), std::nullopt);
  burst.NoteChange(100);
  burst.NoteWrite(130);
  EXPECT_EQ(burst.end_ns(), 180);
}

TEST(EventBurstTest, ABurstThatDoesNotPauseEndsToo) {
  EventBurst burst(50, 1000);
  for (int64_t now_ns = 100; now_ns < 1090; now_ns += 10) burst.NoteChange(now_ns);
  EXPECT_EQ(burst.end_ns(), 1100);
}

class FolderWatchTest : public testing::Test {
 protected:
  // A change ends Await() long before this time; without one it takes kSilent.
  static constexpr int64_t kSoon = 20 * kSecondNs;
  static constexpr int64_t kSilent = kSecondNs / 5;

  std::string Path(const std::string& name) const { return folder_->path() + "/" + name; }
  void Write(const std::string& name, const std::string& text = "x") const {
    fs::create_directories(fs::path(Path(name)).parent_path());
    std::ofstream(Path(name)) << text;
  }
  void Watch(const std::vector<std::string>& trees, const std::vector<std::string>& files = {}) {
    FolderWatch::Wanted wanted;
    for (const std::string& tree : trees) wanted.trees.push_back(Path(tree));
    for (const std::string& file : files) wanted.files.push_back(Path(file));
    std::vector<std::string> unseen;
    EXPECT_EQ(watch_->Watch(wanted, unseen), OkStatus());
    EXPECT_EQ(unseen, std::vector<std::string>());
  }
  // Returns the changed files, relative to the folder.
  Files Changed(int64_t wait_ns = kSoon) {
    Files files;
    for (const std::string& file : watch_->Await(SteadyNowNs() + wait_ns).files)
      files.insert(fs::path(file).lexically_relative(folder_->path()).string());
    return files;
  }
  void ExpectSilence() { EXPECT_EQ(Changed(kSilent), Files()); }

  std::shared_ptr<TemporaryFolder> folder_ =
      TemporaryFolder::Create(fs::temp_directory_path(), "braid-tree-").value();
  std::unique_ptr<FolderWatch> watch_ =
      FolderWatch::Create({.ignored = [](std::string_view name) { return name.starts_with('.'); }}).value();
};

TEST_F(FolderWatchTest, SeesFilesAtAnyDepth) {
  Write("models/m/1/model.py");
  Watch({"models/"});
  Write("models/m/1/model.py", "y");
  EXPECT_EQ(Changed(), Files({"models/m/1/model.py"}));
  Write("models/m/config.pbtxt");
  Write("models/other");
  EXPECT_EQ(Changed(), Files({"models/m/config.pbtxt", "models/other"}));
  fs::remove(Path("models/other"));
  EXPECT_EQ(Changed(), Files({"models/other"}));
  ExpectSilence();
}

TEST_F(FolderWatchTest, SeesASaveByRename) {
  Write("models/model.py");
  Watch({"models"});
  Write("models/.model.py.new", "y");
  fs::rename(Path("models/.model.py.new"), Path("models/model.py"));
  EXPECT_EQ(Changed(), Files({"models/model.py"}));
}

TEST_F(FolderWatchTest, IgnoresFilesAndFoldersByName) {
  Write("models/.git/objects/1");
  Watch({"models"});
  Write("models/.model.py.swp");
  Write("models/.git/objects/2");
  ExpectSilence();
}

TEST_F(FolderWatchTest, AFileCountsWhenItIsClosed) {
  Write("models/model.py");
  Watch({"models"});
  std::ofstream file(Path("models/large"));
  file << "half" << std::flush;
  ExpectSilence();
  file.close();
  EXPECT_EQ(Changed(), Files({"models/large"}));
}

TEST_F(FolderWatchTest, SeesNewFoldersAndWhatIsInThem) {
  Write("models/a/1/model.py");
  Watch({"models"});
  fs::create_directories(Path("models/b/1"));
  EXPECT_EQ(Changed(), Files({"models/b"}));
  Watch({"models"});
  Write("models/b/1/model.py");
  EXPECT_EQ(Changed(), Files({"models/b/1/model.py"}));
  fs::remove_all(Path("models/b"));
  EXPECT_TRUE(Changed().contains("models/b"));
}

TEST_F(FolderWatchTest, FollowsLinksToFoldersAndFiles) {
  Write("elsewhere/m/1/model.py");
  Write("blobs/1");
  Write("blobs/2");
  fs::create_directory(Path("models"));
  fs::create_directory_symlink(Path("elsewhere/m"), Path("models/m"));
  fs::create_symlink("../blobs/1", Path("models/weights"));
  Watch({"models"});
  Write("elsewhere/m/1/model.py", "y");
  EXPECT_EQ(Changed(), Files({"models/m/1/model.py"}));
  Write("blobs/2", "y");
  ExpectSilence();
  Write("blobs/1", "y");
  EXPECT_EQ(Changed(), Files({"models/weights"}));
  Write("blobs/new");
  fs::rename(Path("blobs/new"), Path("blobs/1"));
  EXPECT_EQ(Changed(), Files({"models/weights"}));
  fs::remove(Path("models/weights"));
  fs::create_symlink("../blobs/2", Path("models/weights"));
  EXPECT_EQ(Changed(), Files({"models/weights"}));
  Watch({"models"});
  Write("blobs/2", "z");
  EXPECT_EQ(Changed(), Files({"models/weights"}));
}

TEST_F(FolderWatchTest, ACircleOfLinksEnds) {
  Write("models/m/model.py");
  fs::create_directory_symlink(Path("models"), Path("models/m/again"));
  Watch({"models"});
  Write("models/m/model.py", "y");
  EXPECT_EQ(Changed(), Files({"models/m/model.py"}));
}

TEST_F(FolderWatchTest, SeesOnlyTheNamedFileOfAFolder) {
  Write("config.json");
  Write("other.json");
  Watch({}, {"config.json"});
  Write("other.json", "y");
  ExpectSilence();
  Write("config.new", "y");
  fs::rename(Path("config.new"), Path("config.json"));
  EXPECT_EQ(Changed(), Files({"config.json"}));
}

TEST_F(FolderWatchTest, SeesThatAMissingFolderAppears) {
  fs::create_directory(Path("above"));
  Watch({"above/base/model"});
  fs::create_directories(Path("above/base/model/1"));
  EXPECT_EQ(Changed(), Files({"above/base/model"}));
  Watch({"above/base/model"});
  Write("above/base/model/1/file");
  EXPECT_EQ(Changed(), Files({"above/base/model/1/file"}));
}

TEST_F(FolderWatchTest, SeesThatAFolderIsReplaced) {
  Write("models/m/1/model.py");
  Watch({"models"});
  fs::rename(Path("models"), Path("away"));
  EXPECT_TRUE(Changed().contains("models"));
  Watch({"models"});
  Write("away/m/1/model.py", "y");
  ExpectSilence();
  Write("models/m/1/model.py");
  EXPECT_EQ(Changed(), Files({"models"}));
}

TEST_F(FolderWatchTest, WhatIsNoLongerWantedIsForgotten) {
  Write("a/file");
  Write("b/file");
  Watch({"a", "b"});
  Watch({"b"});
  Write("a/file", "y");
  ExpectSilence();
  Write("b/file", "y");
  EXPECT_EQ(Changed(), Files({"b/file"}));
}

TEST_F(FolderWatchTest, WakeEndsTheWait) {
  std::thread waker = StartThread("brd-test", [this] { watch_->Wake(); });
  EXPECT_EQ(watch_->Await(FolderWatch::kNever).files, Files());
  waker.join();
}

TEST_F(FolderWatchTest, AnUnreadableFolderIsReported) {
  if (::geteuid() == 0) GTEST_SKIP() << "root can read every folder";
  Write("models/m/file");
  fs::permissions(Path("models/m"), fs::perms::none);
  std::vector<std::string> unseen;
  EXPECT_EQ(watch_->Watch({.trees = {Path("models")}, .files = {}}, unseen), OkStatus());
  EXPECT_EQ(unseen, std::vector({"'" + Path("models/m") + "' is not watched: Permission denied"}));
  fs::permissions(Path("models/m"), fs::perms::owner_all);
}

}  // namespace
}  // namespace braid
