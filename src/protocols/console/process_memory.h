// ProcessMemory: how much memory processes take, each with its share of what it shares with others (PSS).
//
// The system needs about a millisecond for each process, so they are looked at on a thread for such work, every few seconds
// at most, and only while somebody asks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"

namespace braid {

class ProcessMemory {
 public:
  // Runs a task on another thread; false when it cannot be run.
  using RunAside = std::function<bool(std::function<void()>)>;

  // What was found when the process was looked at last; nothing for one that was not. Any thread.
  std::optional<uint64_t> ProportionalBytes(pid_t pid) const;
  // These are the processes of interest now. Has them looked at by `run`, unless that is under way or was done a short
  // while ago. REQUIRES: this lives until the task has ended. Any thread; does not block.
  void Look(std::vector<pid_t> pids, const RunAside& run);

 private:
  static constexpr int64_t kFreshNs = 3'000'000'000;

  mutable Mutex mutex_;
  std::unordered_map<pid_t, uint64_t> bytes_ BRAID_GUARDED_BY(mutex_);
  bool looking_ BRAID_GUARDED_BY(mutex_) = false;
  int64_t next_ns_ BRAID_GUARDED_BY(mutex_) = 0;
};

// Of /proc/{pid}/smaps_rollup; nothing when there is no such process, or it may not be looked at.
std::optional<uint64_t> ReadProportionalBytes(pid_t pid);

// Of this process.
struct OwnProcess {
  uint64_t resident_bytes = 0;
  uint64_t threads = 0;
  uint64_t descriptors = 0;
  uint64_t cpu_us = 0;  // since it began, of all its threads
};
OwnProcess ReadOwnProcess();

}  // namespace braid
