// SlowTraces: the slowest client requests of a watched model, each with its spans. Implemented by tracing/,
// wired in server/.
//
// A request costs one load while no model is watched. Otherwise requests are looked up by their model's name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace braid {

struct TraceSpan {
  // A model's name for one of its requests. Its spans are "receive", "queue", "compute_input",
  // "compute_infer", "compute_output" and "send", where known.
  std::string name;
  int32_t parent = -1;      // index among the spans; -1: the whole request
  int64_t start_us = 0;     // since the trace began
  int64_t duration_us = 0;  // 0 if only the start is known
};

struct SlowTrace {
  std::string id;  // unique while the server runs
  std::string model;
  int64_t version = 0;
  std::string request_id;  // from the client; may be empty
  int64_t start_ms = 0;    // since 1970
  int64_t duration_us = 0;
  // A parent is before its children; the first span is the whole request. Includes requests made on its
  // behalf: steps of ensembles and pipelines, calls of user code, sessions of graphs.
  std::vector<TraceSpan> spans;
};

class SlowTraces {
 public:
  static constexpr int64_t kMostSeconds = 600;
  static constexpr size_t kKept = 20;  // per model

  virtual ~SlowTraces() = default;

  // Records the requests of a model for `seconds` from now, replacing an earlier watch; 0 ends it. Errors:
  // INVALID_ARGUMENT if `seconds` is not within 0 to kMostSeconds; RESOURCE_EXHAUSTED if too many models are
  // watched.
  virtual Status Watch(const std::string& model, int64_t seconds) = 0;
  // Returns the seconds until the watch ends; 0: not watched.
  virtual int64_t WatchedFor(const std::string& model) const = 0;
  // Returns at most kKept requests, slowest first. They stay after the watch ends, until the next one begins.
  virtual std::vector<SlowTrace> Slowest(const std::string& model) const = 0;
};

}  // namespace braid
