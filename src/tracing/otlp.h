// Traces in the format of OpenTelemetry collectors: OTLP in its JSON encoding, and the W3C trace context.
//
// A trace is a span "InferRequest". It contains a span per request, named after its model, with "queue" and
// "compute" in it. Spans of requests made by a model or an ensemble are below its own span.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tracing/finished_trace.h"

namespace braid {

struct TraceContext {
  uint64_t trace_id[2] = {};
  uint64_t span = 0;
  bool sampled = false;
};

// Parses a traceparent header. Returns nullopt for an invalid one, which must be ignored.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

using ResourceAttributes = std::vector<std::pair<std::string, std::string>>;

// Returns the body of an export request. `version` is the program's.
std::string OtlpJson(const std::vector<FinishedTrace>& traces, const ResourceAttributes& resource,
                     std::string_view version);

}  // namespace braid
