// MemoryLimits: watches the memory of processes, and reports a process that exceeds its limit.
//
// A thread ("brd-limits") checks twenty times a second. So if a process grows by a gigabyte a second, the
// excess is seen after 50 MB. Each check reads a cheap upper bound, within microseconds. The true figure
// takes milliseconds, so it is read only if the bound exceeds the limit.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <thread>

#include "base/mutex.h"

namespace braid {

class MemoryLimits {
 public:
  // The sources of the figures; tests replace them.
  struct Readers {
    std::function<std::optional<uint64_t>(pid_t)> resident;      // upper bound: with all shared memory
    std::function<std::optional<uint64_t>(pid_t)> proportional;  // the limited figure: with a share of that
  };
  struct Process {
    std::function<pid_t()> id;  // the present one; 0: none
    uint64_t most_bytes = 0;
    // Reports an excess, with the present size. Called about each second while the excess lasts.
    std::function<void(uint64_t bytes)> on_excess;
  };

  MemoryLimits();
  explicit MemoryLimits(Readers readers);
  // REQUIRES: no process is watched.
  ~MemoryLimits();

 private:
  struct Entry {
    Process process;
    pid_t pid = 0;
    // The true figure is read again at this time, or when the upper bound has reached this value.
    int64_t next_ns = 0;
    uint64_t next_resident = 0;
  };

 public:
  // Watches a process during its lifetime. After its destruction, none of the process's functions runs.
  class Watched {
   public:
    Watched(MemoryLimits& limits, std::list<Entry>::iterator entry) : limits_(limits), entry_(entry) {}
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

   private:
    MemoryLimits& limits_;
    const std::list<Entry>::iterator entry_;
  };

  // Watches a process. Its functions are called on the thread, and must not block. Any thread.
  std::unique_ptr<Watched> Watch(Process process);

 private:
  static constexpr int64_t kLookNs = 50'000'000;
  static constexpr int64_t kTrueFigureNs = 1'000'000'000;

  void Run();
  void Look(Entry& entry, int64_t now_ns) BRAID_REQUIRES(mutex_);

  const Readers readers_;
  Mutex mutex_;
  CondVar changed_;
  std::list<Entry> entries_ BRAID_GUARDED_BY(mutex_);
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  std::thread thread_ BRAID_GUARDED_BY(mutex_);  // started with the first process
};

}  // namespace braid
