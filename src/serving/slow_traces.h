// SlowTraces: the slowest requests of clients to a model while somebody watches it, each with the spans that
// its time went into. Implemented by tracing/, wired in server/.
//
// While no model is watched a request pays one load for it; while one is, requests of others are looked up
// by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace braid {

struct TraceSpan {
  // A model's name for one of its requests; in it "receive", "queue", "compute_input", "compute_infer",
  // "compute_output" and "send", as far as they are known.
  std::string name;
  int32_t parent = -1;      // index among the spans; -1: it is the request as a whole
  int64_t start_us = 0;     // since the trace began
  int64_t duration_us = 0;  // 0 where only the start is known
};

struct SlowTrace {
  std::string id;  // unique as long as the server runs
  std::string model;
  int64_t version = 0;
  std::string request_id;  // of the client; may be empty
  int64_t start_ms = 0;    // since 1970
  int64_t duration_us = 0;
  // A parent stands before its children; the first is the request as a whole. Requests that were made for it
  // (steps of ensembles and pipelines, calls of user code, sessions of graphs) are within.
  std::vector<TraceSpan> spans;
};

class SlowTraces {
 public:
  static constexpr int64_t kMostSeconds = 600;
  static constexpr size_t kKept = 20;  // a model

  virtual ~SlowTraces() = default;

  // Records the requests of a model for so many seconds from now, in place of what an earlier call said; 0
  // ends it. Errors: INVALID_ARGUMENT for a time that is not from 0 to kMostSeconds; RESOURCE_EXHAUSTED where
  // too many models are watched.
  virtual Status Watch(const std::string& model, int64_t seconds) = 0;
  // Seconds until the watch ends; 0: not watched.
  virtual int64_t WatchedFor(const std::string& model) const = 0;
  // The slowest first, at most kKept; they stay when the watch ends, until the next one begins.
  virtual std::vector<SlowTrace> Slowest(const std::string& model) const = 0;
};

}  // namespace braid
