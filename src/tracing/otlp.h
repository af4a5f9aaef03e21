// Traces as an OpenTelemetry collector takes them: OTLP in its JSON encoding, and the W3C trace context.
//
// A trace is a span "InferRequest", in it a span for each request named after its model, and in that "queue"
// and "compute". The requests that a model or an ensemble makes lie under its own.
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

// Reads a traceparent header. Nothing for one that does not keep the rules, which is to be ignored.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

using ResourceAttributes = std::vector<std::pair<std::string, std::string>>;

// The body of an export request. `version` is that of the program.
std::string OtlpJson(const std::vector<FinishedTrace>& traces, const ResourceAttributes& resource,
                     std::string_view version);

}  // namespace braid
