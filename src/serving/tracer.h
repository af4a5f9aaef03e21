// Tracer: selects the requests to trace, and holds the settings that operators and clients may change.
// Implemented by tracing/, wired in server/.
//
// A protocol starts the trace of each request before it passes the request on:
//
//   if (tracer.enabled()) request->trace = tracer.Start(request->model_name, ...);
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "serving/request_trace.h"

namespace braid {

enum class TraceProtocol : unsigned char { kHttp, kGrpc };

// The origin of a traced request. The views are used only during the call.
struct TraceOrigin {
  TraceProtocol protocol = TraceProtocol::kHttp;
  int64_t received_ns = 0;  // SteadyNowNs() when its first byte was read
  // The W3C headers of those names; "" if absent.
  std::string_view traceparent;
  std::string_view tracestate;
};

// The settings of one model, or the global ones for models without settings.
struct TraceSettings {
  bool timestamps = false;
  bool tensors = false;
  uint32_t rate = 1000;
  int64_t count = -1;  // traces still to be taken; -1: unlimited
  uint32_t log_frequency = 0;
  std::string file;
  std::string mode = "triton";  // or "opentelemetry"

  bool off() const { return !timestamps && !tensors; }
  // Returns "OFF", or the enabled levels.
  std::vector<std::string> levels() const;
};

// New values by their names in the trace extension ("trace_level"). nullopt clears a setting. A model then
// uses the global setting; the global setting returns to that of the command line.
using TraceChanges = std::map<std::string, std::optional<std::vector<std::string>>>;

class Tracer {
 public:
  virtual ~Tracer() = default;

  // Whether any request could be traced. Costs one load.
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }

  // Returns the trace of a request that begins at `origin.received_ns`; null if it is not traced. Does not
  // block. Any thread. A trace may outlive the tracer, and is dropped then.
  virtual std::shared_ptr<RequestTrace> Start(std::string_view model, int64_t version,
                                              std::string_view request_id, const TraceOrigin& origin) = 0;

  // Returns the settings of a model; "" is the global setting. Any thread.
  virtual TraceSettings Settings(const std::string& model) const = 0;
  // Applies all changes, or none after an error.
  virtual Status Change(const std::string& model, const TraceChanges& changes) = 0;

 protected:
  std::atomic<bool> enabled_{false};
};

}  // namespace braid
