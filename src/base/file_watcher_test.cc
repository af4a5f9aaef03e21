#include "base/file_watcher.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"

namespace braid {
namespace {

using namespace std::chrono_literals;

class FileWatcherTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_->path() + "/" + name; }
  void Write(const std::string& name, const std::string& text) const { std::ofstream(Path(name)) << text; }
  // Changes a watched file in one step; Write() changes it twice, by truncation and by writing.
  void Replace(const std::string& name, const std::string& text) const {
    Write(name + ".new", text);
    std::filesystem::rename(Path(name + ".new"), Path(name));
  }
  // Waits until the callback has been called `count` times.
  void ExpectCalls(int count) {
    for (int i = 0; i < 2000 && calls_ < count; ++i) std::this_thread::sleep_for(5ms);
    EXPECT_EQ(calls_, count);
  }

  std::shared_ptr<TemporaryFolder> folder_ =
      TemporaryFolder::Create(std::filesystem::temp_directory_path(), "braid-watch-").value();
  std::atomic<int> calls_{0};
};

TEST_F(FileWatcherTest, StampsDifferOnceForEachChange) {
  Write("a", "1");
  FileStamps stamps({Path("a"), "", Path("later")});
  EXPECT_FALSE(stamps.Renew());
  Write("a", "22");
  EXPECT_TRUE(stamps.Renew());
  EXPECT_FALSE(stamps.Renew());
  Write("later", "");
  EXPECT_TRUE(stamps.Renew());
  std::filesystem::remove(Path("a"));
  EXPECT_TRUE(stamps.Renew());
  EXPECT_FALSE(stamps.Renew());
}

TEST_F(FileWatcherTest, TellsOfWhatWasWrittenReplacedOrLinkedAnew) {
  Write("a", "1");
  Write("b", "1");
  FileWatcher watcher(5ms);
  FileStamps before({Path("a")});
  Write("a", "written between the stamp and Add()");
  watcher.Add(std::move(before), [this] { ++calls_; });
  ExpectCalls(1);
  std::filesystem::rename(Path("b"), Path("a"));
  ExpectCalls(2);
  Write("c", "1");
  std::filesystem::remove(Path("a"));
  ExpectCalls(3);
  std::filesystem::create_symlink(Path("c"), Path("a"));
  ExpectCalls(4);
}

TEST_F(FileWatcherTest, WhatThrowsIsCalledAgain) {
  Write("a", "1");
  FileWatcher watcher(5ms);
  watcher.Add(FileStamps({Path("a")}), [this] {
    ++calls_;
    throw std::runtime_error("no");
  });
  Replace("a", "22");
  ExpectCalls(1);
  Replace("a", "333");
  ExpectCalls(2);
}

}  // namespace
}  // namespace braid
