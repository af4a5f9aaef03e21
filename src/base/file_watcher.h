// FileWatcher: tells of files that are written or replaced while the server runs.
//
//   FileStamps before({"tokens.txt"});
//   ... read tokens.txt ...
//   watcher.Add(std::move(before), [&] { ... read it again ... });
//
// It looks each second, which works on every file system and for files that are put in place by a symbolic
// link, as secrets of Kubernetes are.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/mutex.h"

namespace braid {

// What the file system says of some files at a time.
class FileStamps {
 public:
  // Files that are not there are such, and may come. Empty names are left out.
  explicit FileStamps(std::vector<std::string> files);
  // Takes them anew; whether something differs from before.
  bool Renew();

 private:
  // Device, inode, size, when content and inode were changed; zeros for a file that is not there.
  using Stamp = std::tuple<dev_t, ino_t, off_t, int64_t, int64_t>;
  static Stamp Of(const std::string& file);

  std::vector<std::pair<std::string, Stamp>> stamps_;
};

class FileWatcher {
 public:
  explicit FileWatcher(std::chrono::milliseconds interval = std::chrono::seconds(1)) : interval_(interval) {}
  // Waits for a call that runs.
  ~FileWatcher();
  FileWatcher(const FileWatcher&) = delete;
  FileWatcher& operator=(const FileWatcher&) = delete;

  // Calls `changed` when one of the files has changed since `before`, and whenever one does so again. On a
  // thread of its own ("brd-files"), which begins with the first.
  void Add(FileStamps before, std::function<void()> changed);

 private:
  struct Watch {
    FileStamps stamps;
    std::function<void()> changed;
  };

  void Run();

  const std::chrono::milliseconds interval_;
  Mutex mutex_;
  CondVar stop_wanted_;
  std::vector<Watch> added_ BRAID_GUARDED_BY(mutex_);  // since the last look
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace braid
