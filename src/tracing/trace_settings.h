// TraceSettingBook: the settings of tracing, global and per model, and the counters that choose sampled
// requests.
//
// All models without settings share the global settings and their counter. Every change restarts the counter.
// One mutex, taken only while tracing is on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "serving/tracer.h"

namespace braid {

// The sampling decision for one request.
struct TraceSample {
  uint64_t scope = 0;
  bool timestamps = false;
  bool tensors = false;
  uint32_t log_frequency = 0;
  bool last = false;  // the last trace of the count
};

class TraceSettingBook {
 public:
  // The global settings are `initial` until they are changed, and again after a reset.
  explicit TraceSettingBook(TraceSettings initial);

  TraceSettings Get(const std::string& model) const;
  // Errors: INVALID_ARGUMENT or UNSUPPORTED, with texts of the trace extension. If `scope` is not null, it is
  // set to the scope of the settings that this change removes, or 0 if there are none.
  Status Change(const std::string& model, const TraceChanges& changes, uint64_t* scope);
  // Whether this request of the model is traced. With `wanted` set, the client decides: true traces the
  // request regardless of rate and count, unless tracing is off; false does not trace it.
  std::optional<TraceSample> Sample(std::string_view model, std::optional<bool> wanted);
  // Whether any request could be sampled.
  bool any_on() const;

 private:
  // The values set in one place; the others are inherited.
  struct Overrides {
    std::optional<std::pair<bool, bool>> level;  // timestamps, tensors
    std::optional<uint32_t> rate;
    std::optional<int64_t> count;
    std::optional<uint32_t> log_frequency;
    bool empty() const { return !level && !rate && !count && !log_frequency; }
  };
  struct Scope {
    uint64_t id = 0;
    Overrides overrides;
    uint64_t seen = 0;
    int64_t remaining = -1;
  };

  static Status Parse(const TraceChanges& changes, Overrides& overrides);
  TraceSettings Global() const BRAID_REQUIRES(mutex_);
  TraceSettings Settings(const Scope& scope) const BRAID_REQUIRES(mutex_);
  void Restart(Scope& scope) BRAID_REQUIRES(mutex_);

  const TraceSettings initial_;
  mutable Mutex mutex_;
  Scope global_ BRAID_GUARDED_BY(mutex_);
  std::map<std::string, Scope, std::less<>> models_ BRAID_GUARDED_BY(mutex_);
  uint64_t last_scope_ BRAID_GUARDED_BY(mutex_) = 0;
};

}  // namespace braid
