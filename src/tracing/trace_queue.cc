#include "tracing/trace_queue.h"

#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"

namespace braid {
namespace {

// How often the thread wakes up without traces.
constexpr int64_t kIdleNs = 1'000'000'000;

}  // namespace

void TraceQueue::Push(FinishedTrace trace) {
  MutexLock lock(mutex_);
  if (closed_ || traces_.size() >= limits_.max_traces) {
    ++dropped_;
    return;
  }
  if (traces_.empty()) first_ns_ = SteadyNowNs();
  traces_.push_back(std::move(trace));
  if (traces_.size() == 1 || traces_.size() >= limits_.max_batch) changed_.NotifyOne();
}

void TraceQueue::RequestFlush(uint64_t scope) {
  MutexLock lock(mutex_);
  if (closed_) return;
  flushes_.push_back(scope);
  changed_.NotifyOne();
}

void TraceQueue::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.NotifyOne();
}

void TraceQueue::Run(TraceOutput& output) {
  bool closed = false;
  while (!closed) {
    std::vector<FinishedTrace> batch;
    std::vector<uint64_t> flushes;
    uint64_t dropped = 0;
    {
      MutexLock lock(mutex_);
      while (true) {
        const int64_t now = SteadyNowNs();
        const int64_t due = traces_.empty() ? now + kIdleNs : first_ns_ + limits_.delay_ns;
        if (closed_ || !flushes_.empty() || traces_.size() >= limits_.max_batch) break;
        if (due <= now) break;
        changed_.WaitFor(mutex_, std::chrono::nanoseconds(due - now));
        if (traces_.empty() && dropped_ > 0) break;
      }
      batch.swap(traces_);
      flushes.swap(flushes_);
      dropped = std::exchange(dropped_, 0);
      closed = closed_;
    }
    GuardedOrReport("brd-trace", [&] {
      if (!batch.empty()) output.Write(std::move(batch));
      for (uint64_t scope : flushes) output.Flush(scope);
      if (dropped > 0) output.OnDropped(dropped);
    });
  }
  GuardedOrReport("brd-trace", [&] { output.Flush(0); });
}

}  // namespace braid
