// SlowTraceBook: which models are watched, and the slowest traces of each.
//
// Any thread. Who asks whether a model is watched pays one load while none is; traces that end take a lock
// for as long as it takes to put one in its place.
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
  // How many models are watched at a time. As many are kept; the one whose watch has ended first makes room.
  static constexpr size_t kMostModels = 16;
  // More spans of a trace are left out.
  static constexpr size_t kMostSpans = 1024;

  // `now_ns` is the clock by which watches end.
  explicit SlowTraceBook(std::function<int64_t()> now_ns = &SteadyNowNs) : now_ns_(std::move(now_ns)) {}

  Status Watch(const std::string& model, int64_t seconds) override;
  int64_t WatchedFor(const std::string& model) const override;
  std::vector<SlowTrace> Slowest(const std::string& model) const override;

  // Whether any model is watched.
  bool active() const;
  bool Watches(std::string_view model) const;
  // Keeps it if it is among the slowest of its model, the one of its first record.
  void Add(const FinishedTrace& trace);

 private:
  struct Model {
    int64_t until_ns = 0;
    std::vector<SlowTrace> slowest;  // the slowest first
  };

  bool MakeRoom(int64_t now_ns) BRAID_REQUIRES(mutex_);
  // Whether a trace that took so long is to be kept.
  bool Wants(const Model& model, int64_t duration_us) const;

  const std::function<int64_t()> now_ns_;
  std::atomic<int64_t> last_until_ns_{0};  // the latest end of a watch
  mutable Mutex mutex_;
  std::map<std::string, Model, std::less<>> models_ BRAID_GUARDED_BY(mutex_);
};

// The trace with its spans: the request's own (its name is the model's), in it "receive", "queue",
// "compute_input", "compute_infer", "compute_output" and "send" as far as they are known, and the requests
// that were made for it. A request of user code stands in the "compute_infer" in which it began.
SlowTrace MakeSlowTrace(const FinishedTrace& trace);

}  // namespace braid
