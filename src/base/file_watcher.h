// FileWatcher: calls a function when files are written or replaced while the server runs.
//
//   FileStamps before({"tokens.txt"});
//   ... read tokens.txt ...
//   watcher.Add(std::move(before), [&] { ... read it again ... });
//
// It polls once a second. That works on every file system, and for files behind a symbolic link, such as
// Kubernetes secrets.
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

// A snapshot of the metadata of some files.
class FileStamps {
 public:
  // Files need not exist; they may appear later. Empty names are skipped.
  explicit FileStamps(std::vector<std::string> files);
  // Takes the snapshot again. Returns true if it differs from the one before.
  bool Renew();

 private:
  // Device, inode, size, time of the last change of the content and of the inode; zeros for a file that does
  // not exist.
  using Stamp = std::tuple<dev_t, ino_t, off_t, int64_t, int64_t>;
  static Stamp Of(const std::string& file);

  std::vector<std::pair<std::string, Stamp>> stamps_;
};

class FileWatcher {
 public:
  explicit FileWatcher(std::chrono::milliseconds interval = std::chrono::seconds(1)) : interval_(interval) {}
  // Waits for a callback that is running.
  ~FileWatcher();
  FileWatcher(const FileWatcher&) = delete;
  FileWatcher& operator=(const FileWatcher&) = delete;

  // Calls `changed` once the files differ from `before`, and after each further change. Callbacks run on a
  // separate thread ("brd-files"), which starts with the first Add().
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
  std::vector<Watch> added_ BRAID_GUARDED_BY(mutex_);  // since the last poll
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace braid
