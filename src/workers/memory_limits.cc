#include "workers/memory_limits.h"

#include <chrono>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/guard.h"
#include "base/process_memory.h"
#include "base/thread.h"

namespace braid {

MemoryLimits::MemoryLimits() : MemoryLimits({&ReadResidentBytes, &ReadProportionalBytes}) {}

MemoryLimits::MemoryLimits(Readers readers) : readers_(std::move(readers)) {}

MemoryLimits::~MemoryLimits() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    BRAID_CHECK(entries_.empty());
    stopping_ = true;
    changed_.NotifyAll();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

MemoryLimits::Watched::~Watched() {
  MutexLock lock(limits_.mutex_);
  limits_.entries_.erase(entry_);
}

std::unique_ptr<MemoryLimits::Watched> MemoryLimits::Watch(Process process) {
  MutexLock lock(mutex_);
  entries_.push_back({.process = std::move(process)});
  if (!thread_.joinable()) thread_ = StartThread("brd-limits", [this] { Run(); });
  changed_.NotifyAll();
  return std::make_unique<Watched>(*this, std::prev(entries_.end()));
}

void MemoryLimits::Look(Entry& entry, int64_t now_ns) {
  const Process& process = entry.process;
  const pid_t pid = process.id();
  if (std::exchange(entry.pid, pid) != pid) entry.next_ns = 0;
  if (pid == 0) return;
  const auto resident = readers_.resident(pid);
  if (!resident || *resident <= process.most_bytes) return;
  if (now_ns < entry.next_ns && *resident < entry.next_resident) return;
  const auto bytes = readers_.proportional(pid);
  if (!bytes) return;
  entry.next_ns = now_ns + kTrueFigureNs;
  if (*bytes > process.most_bytes) {
    entry.next_resident = UINT64_MAX;
    process.on_excess(*bytes);
  } else {
    // The true figure grows by no more than this bound does.
    entry.next_resident = *resident + (process.most_bytes - *bytes) + 1;
  }
}

void MemoryLimits::Run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (entries_.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    changed_.WaitFor(mutex_, std::chrono::nanoseconds(kLookNs));
    if (stopping_) return;
    const int64_t now_ns = SteadyNowNs();
    for (Entry& entry : entries_) {
      GuardedOrReport("brd-limits", [&] {
        mutex_.AssertHeld();
        Look(entry, now_ns);
      });
    }
  }
}

}  // namespace braid
