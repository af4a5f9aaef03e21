// Tracer: which requests are traced, and what an operator and clients may change of it. Implemented by
// tracing/, wired in server/.
//
// Protocols ask for each request, before they hand it over:
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

// Where a traced request comes from. Views are used during the call alone.
struct TraceOrigin {
  TraceProtocol protocol = TraceProtocol::kHttp;
  int64_t received_ns = 0;  // SteadyNowNs() when its first byte was looked at
  // The W3C headers of those names; "" when there are none.
  std::string_view traceparent;
  std::string_view tracestate;
};

// The settings of one model, or of all that have none of their own.
struct TraceSettings {
  bool timestamps = false;
  bool tensors = false;
  uint32_t rate = 1000;
  int64_t count = -1;  // traces still to be taken; -1: any number
  uint32_t log_frequency = 0;
  std::string file;
  std::string mode = "triton";  // or "opentelemetry"

  bool off() const { return !timestamps && !tensors; }
  // "OFF", or what is on.
  std::vector<std::string> levels() const;
};

// By the names of the trace extension ("trace_level"): the new values, or nothing for what applied without
// this change: the global setting, for the global setting that of the command line.
using TraceChanges = std::map<std::string, std::optional<std::vector<std::string>>>;

class Tracer {
 public:
  virtual ~Tracer() = default;

  // Whether any request could be traced: one load.
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }

  // The trace of a request that begins at `origin.received_ns`, or null when this one is not traced. Any
  // thread; does not block. A trace may outlive the tracer, and is dropped then.
  virtual std::shared_ptr<RequestTrace> Start(std::string_view model, int64_t version,
                                              std::string_view request_id, const TraceOrigin& origin) = 0;

  // `model` "" is the global setting. Any thread.
  virtual TraceSettings Settings(const std::string& model) const = 0;
  // Changes all or, with an error, nothing.
  virtual Status Change(const std::string& model, const TraceChanges& changes) = 0;

 protected:
  std::atomic<bool> enabled_{false};
};

}  // namespace braid
