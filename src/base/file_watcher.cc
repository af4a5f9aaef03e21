#include "base/file_watcher.h"

#include <sys/stat.h>

#include <iterator>
#include <utility>

#include "base/guard.h"
#include "base/thread.h"

namespace braid {
namespace {

int64_t Nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

FileStamps::FileStamps(std::vector<std::string> files) {
  for (std::string& file : files) {
    if (file.empty()) continue;
    const Stamp stamp = Of(file);
    stamps_.emplace_back(std::move(file), stamp);
  }
}

FileStamps::Stamp FileStamps::Of(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino, status.st_size, Nanoseconds(status.st_mtim),
          Nanoseconds(status.st_ctim)};
}

bool FileStamps::Renew() {
  bool differs = false;
  for (auto& [file, stamp] : stamps_) {
    const Stamp now = Of(file);
    differs |= now != stamp;
    stamp = now;
  }
  return differs;
}

FileWatcher::~FileWatcher() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_wanted_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void FileWatcher::Add(FileStamps before, std::function<void()> changed) {
  MutexLock lock(mutex_);
  added_.push_back({std::move(before), std::move(changed)});
  if (!thread_.joinable()) thread_ = StartThread("brd-files", [this] { Run(); });
}

void FileWatcher::Run() {
  std::vector<Watch> watches;
  for (;;) {
    {
      MutexLock lock(mutex_);
      const auto next = std::chrono::steady_clock::now() + interval_;
      while (!stopping_ && stop_wanted_.WaitUntil(mutex_, next)) {
      }
      if (stopping_) return;
      std::move(added_.begin(), added_.end(), std::back_inserter(watches));
      added_.clear();
    }
    for (Watch& watch : watches) {
      GuardedOrReport("file watcher", [&] {
        if (watch.stamps.Renew()) watch.changed();
      });
    }
  }
}

}  // namespace braid
