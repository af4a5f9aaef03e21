// RecentLog: the last lines of the log in memory, for clients that watch a running server.
//
//   RecentLog recent;
//   Logger::Options options;
//   options.observer = &recent;
//   ...
//   RecentLog::Page page = recent.Newest(500, every);        // then, again and again:
//   page = recent.After(page.next, 500, every);
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"

namespace braid {

class RecentLog final : public LogObserver {
 public:
  static constexpr size_t kMostBytes = size_t{4} << 20;
  // The limit of one line; longer lines are cut.
  static constexpr size_t kMostLineBytes = size_t{16} << 10;

  struct Line {
    uint64_t number = 0;  // from 1, consecutive
    int64_t at_ms = 0;
    std::optional<LogLevel> level;
    std::string model;
    std::string text;
  };
  struct Page {
    uint64_t next = 0;  // the argument of the next After()
    uint64_t lost = 0;  // lines after the requested number that were already discarded
    std::vector<Line> lines;
  };
  // Decides whether a line is wanted. Called under a lock that every log line takes.
  using Wanted = std::function<bool(const Line&)>;

  // Keeps up to `most_bytes` of lines, the lines' own overhead included.
  explicit RecentLog(size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  void OnLine(const LogLine& line) override;

  // Returns the last `most` wanted lines, oldest first. Any thread.
  Page Newest(size_t most, const Wanted& wanted) const;
  // Returns the first `most` wanted lines after `number`. Any thread.
  Page After(uint64_t number, size_t most, const Wanted& wanted) const;

 private:
  const size_t most_bytes_;
  mutable Mutex mutex_;
  std::deque<Line> lines_ BRAID_GUARDED_BY(mutex_);  // numbers are consecutive
  size_t bytes_ BRAID_GUARDED_BY(mutex_) = 0;
  uint64_t last_number_ BRAID_GUARDED_BY(mutex_) = 0;
};

}  // namespace braid
