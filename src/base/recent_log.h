// RecentLog: the last lines of the log, for who looks at a server while it runs.
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
  // Of a line; the rest of it is left out.
  static constexpr size_t kMostLineBytes = size_t{16} << 10;

  struct Line {
    uint64_t number = 0;  // from 1, by one for each line
    int64_t at_ms = 0;
    std::optional<LogLevel> level;
    std::string model;
    std::string text;
  };
  struct Page {
    uint64_t next = 0;  // for the next After()
    uint64_t lost = 0;  // lines between what was asked for and the oldest that is there
    std::vector<Line> lines;
  };
  // Whether a line is of interest. Called with a lock held that every line of the log takes.
  using Wanted = std::function<bool(const Line&)>;

  // Keeps so many bytes of lines, and what the lines themselves take.
  explicit RecentLog(size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  void OnLine(const LogLine& line) override;

  // The last `most` lines that are wanted, the oldest first. Any thread.
  Page Newest(size_t most, const Wanted& wanted) const;
  // The first `most` lines behind that number. Any thread.
  Page After(uint64_t number, size_t most, const Wanted& wanted) const;

 private:
  const size_t most_bytes_;
  mutable Mutex mutex_;
  std::deque<Line> lines_ BRAID_GUARDED_BY(mutex_);  // their numbers have no gaps
  size_t bytes_ BRAID_GUARDED_BY(mutex_) = 0;
  uint64_t last_number_ BRAID_GUARDED_BY(mutex_) = 0;
};

}  // namespace braid
