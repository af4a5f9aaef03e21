// ProcessMemory: how much memory processes take, each with its share of what it shares with others (PSS).
//
// The system needs about a millisecond for each process, so a thread of its own ("brd-memory") looks at them, every
// few seconds, and only at those that somebody has asked for in the last minute.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"

namespace braid {

// Any thread.
class ProcessMemory {
 public:
  ProcessMemory() = default;
  ~ProcessMemory();

  // What was found when the process was looked at last; nothing for one that was not.
  std::optional<uint64_t> ProportionalBytes(pid_t pid) const;
  // Asks for these processes. One that is new is looked at at once, and waited for for `wait_ns` at most.
  void Ask(const std::vector<pid_t>& pids, int64_t wait_ns);

 private:
  static constexpr int64_t kEveryNs = 3'000'000'000;
  static constexpr int64_t kAskedForNs = 60'000'000'000;

  struct Process {
    int64_t until_ns = 0;  // from then on it is not asked for any more
    bool looked_at = false;
    std::optional<uint64_t> bytes;
  };
  void AskLocked(pid_t pid, int64_t now_ns) BRAID_REQUIRES(mutex_);
  bool HasNewLocked() const BRAID_REQUIRES(mutex_);
  void Run();

  mutable Mutex mutex_;
  CondVar asked_;
  CondVar looked_;
  std::unordered_map<pid_t, Process> processes_ BRAID_GUARDED_BY(mutex_);
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  std::thread thread_ BRAID_GUARDED_BY(mutex_);  // from the first process on
};

// Of /proc/{pid}/smaps_rollup; nothing when there is no such process, or it may not be looked at.
std::optional<uint64_t> ReadProportionalBytes(pid_t pid);

// Keeps ReadProportionalBytes() of a process possible for as long as the result lives, also when the process stops being
// dumpable, which closes it to others of its user. Null: it cannot be looked at now.
std::shared_ptr<const void> KeepReadable(pid_t pid);

// Of /proc/{pid}/statm: what of the process is in memory, shared or not. Takes microseconds. Errors as before.
std::optional<uint64_t> ReadResidentBytes(pid_t pid);

// Of this process.
struct OwnProcess {
  uint64_t resident_bytes = 0;
  uint64_t threads = 0;
  uint64_t descriptors = 0;
  uint64_t cpu_us = 0;  // since it began, of all its threads
};
OwnProcess ReadOwnProcess();

}  // namespace braid
