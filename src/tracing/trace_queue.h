// TraceQueue: passes finished traces to the thread that writes them.
//
// It is bounded: traces that arrive while it is full or closed are dropped and counted. Requests never wait
// for it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "tracing/finished_trace.h"

namespace braid {

// Writes traces. One thread calls it; may block.
class TraceOutput {
 public:
  virtual ~TraceOutput() = default;
  virtual void Write(std::vector<FinishedTrace> traces) = 0;
  // Writes traces that were held back: those of the settings `scope`, or all for 0.
  virtual void Flush(uint64_t scope) = 0;
  // Reports that `count` traces were lost since the last call.
  virtual void OnDropped(uint64_t count) = 0;
};

class TraceQueue {
 public:
  struct Limits {
    size_t max_traces = 2048;
    // A batch is written when it has this many traces, or when its first trace has waited this long.
    size_t max_batch = 512;
    int64_t delay_ns = 0;
  };
  explicit TraceQueue(const Limits& limits) : limits_(limits) {}

  // Thread-safe; does not block.
  void Push(FinishedTrace trace);
  // Requests TraceOutput::Flush(), after the traces pushed so far.
  void RequestFlush(uint64_t scope);

  // Passes traces to `output` until Close(), then the rest of the queue. Called by the writer's thread.
  void Run(TraceOutput& output);
  void Close();

 private:
  const Limits limits_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<FinishedTrace> traces_ BRAID_GUARDED_BY(mutex_);
  int64_t first_ns_ BRAID_GUARDED_BY(mutex_) = 0;  // when the first of traces_ was pushed
  std::vector<uint64_t> flushes_ BRAID_GUARDED_BY(mutex_);
  uint64_t dropped_ BRAID_GUARDED_BY(mutex_) = 0;
  bool closed_ BRAID_GUARDED_BY(mutex_) = false;
};

}  // namespace braid
