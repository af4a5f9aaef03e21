// TraceSettingBook: the settings of tracing, global and by model, and the counting of who is sampled.
//
// A model without settings of its own is sampled by the global ones, together with all such models. Every
// change starts the counting anew. One mutex, taken only while tracing is on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "serving/tracer.h"

namespace braid {

// What is decided about one request.
struct TraceSample {
  uint64_t scope = 0;
  bool timestamps = false;
  bool tensors = false;
  uint32_t log_frequency = 0;
  bool last = false;  // the count has come to its end
};

class TraceSettingBook {
 public:
  // `initial` are the global settings until they are changed, and again after they are reset.
  explicit TraceSettingBook(TraceSettings initial);

  TraceSettings Get(const std::string& model) const;
  // Errors: INVALID_ARGUMENT or UNSUPPORTED, texts of the trace extension. `scope`, if not null, is set to
  // that of the settings which are gone with this, 0 for none.
  Status Change(const std::string& model, const TraceChanges& changes, uint64_t* scope);
  // Whether this request of the model is traced. `wanted`: the client traces it itself, so that it is traced
  // whatever rate and count say, unless tracing is off; false: it says that it does not.
  std::optional<TraceSample> Sample(std::string_view model, std::optional<bool> wanted);
  // Whether any request could be sampled.
  bool any_on() const;

 private:
  // What is set in one place; the rest comes from elsewhere.
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
