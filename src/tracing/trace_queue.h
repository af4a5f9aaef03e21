// TraceQueue: finished traces on their way to the thread that writes them out.
//
// Bounded: what comes while it is full, or after its end, is dropped and counted. A request never waits for
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "tracing/finished_trace.h"

namespace braid {

// Writes traces. Called by one thread; may block.
class TraceOutput {
 public:
  virtual ~TraceOutput() = default;
  virtual void Write(std::vector<FinishedTrace> traces) = 0;
  // What is held back for later is written now: that of the settings `scope`, or with 0 all.
  virtual void Flush(uint64_t scope) = 0;
  // `count` traces were lost since this was called last.
  virtual void OnDropped(uint64_t count) = 0;
};

class TraceQueue {
 public:
  struct Limits {
    size_t max_traces = 2048;
    // A batch goes out when it has this many traces, or when its first has waited so long.
    size_t max_batch = 512;
    int64_t delay_ns = 0;
  };
  explicit TraceQueue(const Limits& limits) : limits_(limits) {}

  // Any thread; does not block.
  void Push(FinishedTrace trace);
  // Has what is held back written, behind what was pushed before.
  void RequestFlush(uint64_t scope);

  // Passes traces on to `output` until Close(), and what is in the queue then. The thread of the writer.
  void Run(TraceOutput& output);
  void Close();

 private:
  const Limits limits_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<FinishedTrace> traces_ BRAID_GUARDED_BY(mutex_);
  int64_t first_ns_ BRAID_GUARDED_BY(mutex_) = 0;  // when the first of traces_ came
  std::vector<uint64_t> flushes_ BRAID_GUARDED_BY(mutex_);
  uint64_t dropped_ BRAID_GUARDED_BY(mutex_) = 0;
  bool closed_ BRAID_GUARDED_BY(mutex_) = false;
};

}  // namespace braid
