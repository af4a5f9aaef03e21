// SlowTraceBook: the watched models, and the slowest traces of each.
//
// Thread-safe. While no model is watched, the check costs one atomic load. A finished trace takes a lock only
// to be inserted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "serving/slow_traces.h"
#include "tracing/finished_trace.h"

namespace braid {

class SlowTraceBook final : public SlowTraces {
 public:
  // At most this many models are watched at a time, and at most this many are kept. The model whose watch
  // ended first is removed for a new one.
  static constexpr size_t kMostModels = 16;
  // Further spans of a trace are left out.
  static constexpr size_t kMostSpans = 1024;

  // `now_ns` is the clock that ends watches.
  explicit SlowTraceBook(std::function<int64_t()> now_ns = &SteadyNowNs) : now_ns_(std::move(now_ns)) {}

  Status Watch(const std::string& model, int64_t seconds) override;
  int64_t WatchedFor(const std::string& model) const override;
  std::vector<SlowTrace> Slowest(const std::string& model) const override;

  // Whether any model is watched.
  bool active() const;
  bool Watches(std::string_view model) const;
  // Keeps the trace if it is among the slowest of its model, which is the model of its first record.
  void Add(const FinishedTrace& trace);

 private:
  struct Model {
    int64_t until_ns = 0;
    std::vector<SlowTrace> slowest;  // the slowest first
  };

  bool MakeRoom(int64_t now_ns) BRAID_REQUIRES(mutex_);
  // Whether a trace of this duration is slow enough to keep.
  bool Wants(const Model& model, int64_t duration_us) const;

  const std::function<int64_t()> now_ns_;
  std::atomic<int64_t> last_until_ns_{0};  // the latest end of a watch
  mutable Mutex mutex_;
  std::map<std::string, Model, std::less<>> models_ BRAID_GUARDED_BY(mutex_);
};

// Converts a trace to spans. The request's own span has the model's name. It contains "receive", "queue",
// "compute_input", "compute_infer", "compute_output" and "send", as far as they are known, and the spans of
// the calls made for it. A call by user code is placed in the "compute_infer" in which it began.
SlowTrace MakeSlowTrace(const FinishedTrace& trace);

}  // namespace braid
