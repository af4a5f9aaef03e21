// ProcessMemory: measures the memory of processes, with their proportional share of shared pages (PSS).
//
// A measurement takes about a millisecond per process. A separate thread ("brd-memory") therefore measures
// every few seconds, and only processes that a caller asked for in the last minute.
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

  // Returns the result of the last measurement of the process; nothing if there is none.
  std::optional<uint64_t> ProportionalBytes(pid_t pid) const;
  // Asks for measurements of these processes. New ones are measured at once, and the call waits for that for
  // up to `wait_ns`.
  void Ask(const std::vector<pid_t>& pids, int64_t wait_ns);

 private:
  static constexpr int64_t kEveryNs = 3'000'000'000;
  static constexpr int64_t kAskedForNs = 60'000'000'000;

  struct Process {
    int64_t until_ns = 0;  // after that, the process is no longer measured
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
  std::thread thread_ BRAID_GUARDED_BY(mutex_);  // started with the first process
};

// Reads /proc/{pid}/smaps_rollup. Returns nothing if the process does not exist or may not be read.
std::optional<uint64_t> ReadProportionalBytes(pid_t pid);

// Keeps ReadProportionalBytes() of a process possible while the result lives, even if the process stops being
// dumpable, which hides it from other processes of its user. Returns null if it cannot be read now.
std::shared_ptr<const void> KeepReadable(pid_t pid);

// Returns the resident memory, shared or not, from /proc/{pid}/statm. Takes microseconds. Returns nothing as
// ReadProportionalBytes() does.
std::optional<uint64_t> ReadResidentBytes(pid_t pid);

// Figures of the calling process.
struct OwnProcess {
  uint64_t resident_bytes = 0;
  uint64_t threads = 0;
  uint64_t descriptors = 0;
  uint64_t cpu_us = 0;  // of all its threads, since the process began
};
OwnProcess ReadOwnProcess();

}  // namespace braid
