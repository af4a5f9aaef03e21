#include "tracing/otlp.h"

#include <spdlog/fmt/fmt.h>

#include "base/json.h"

namespace braid {
namespace {

constexpr int kInternal = 1;  // SpanKind
constexpr int kServer = 2;

// Parses lower-case hexadecimal digits only.
std::optional<uint64_t> Hex(std::string_view text) {
  uint64_t number = 0;
  for (char c : text) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    number = number << 4 | static_cast<uint64_t>(digit);
  }
  return number;
}

Json Attribute(std::string_view key, std::string_view value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}
// 64-bit numbers are strings in this encoding.
Json Attribute(std::string_view key, uint64_t value) {
  return {{"key", key}, {"value", {{"intValue", std::to_string(value)}}}};
}

// Writes the spans of one trace.
class SpanWriter {
 public:
  SpanWriter(const FinishedTrace& trace, Json& spans) : trace_(trace), spans_(spans) {}

  void WriteAll() {
    if (trace_.records.empty()) return;
    const TraceRecord& first = trace_.records.front();
    Json& root = Add("InferRequest", kServer, trace_.root_span, trace_.remote_span,
                     Earliest(first, TraceActivity::kReceiveStart, TraceActivity::kRequestStart),
                     Latest(first, TraceActivity::kSendEnd, TraceActivity::kRequestEnd));
    if (!trace_.tracestate.empty()) root["traceState"] = trace_.tracestate;
    Json events = Json::array();
    for (TraceActivity activity : {TraceActivity::kReceiveStart, TraceActivity::kReceiveEnd,
                                   TraceActivity::kSendStart, TraceActivity::kSendEnd}) {
      AddEvent(first, activity, events);
    }
    root["events"] = std::move(events);
    for (const TraceRecord& record : trace_.records) WriteRecord(record);
  }

 private:
  std::string Time(int64_t ns) const { return std::to_string(ns + trace_.wall_offset_ns); }

  static int64_t Earliest(const TraceRecord& record, TraceActivity a, TraceActivity b) {
    return record.time(a) != 0 ? record.time(a) : record.time(b);
  }
  static int64_t Latest(const TraceRecord& record, TraceActivity a, TraceActivity b) {
    return std::max(record.time(a), record.time(b));
  }

  Json& Add(std::string_view name, int kind, uint64_t span, uint64_t parent, int64_t start, int64_t end) {
    Json json = {{"traceId", fmt::format("{:016x}{:016x}", trace_.trace_id[0], trace_.trace_id[1])},
                 {"spanId", fmt::format("{:016x}", span)}};
    if (parent != 0) json["parentSpanId"] = fmt::format("{:016x}", parent);
    json["name"] = name;
    json["kind"] = kind;
    json["startTimeUnixNano"] = Time(start);
    json["endTimeUnixNano"] = Time(std::max(start, end));
    spans_.push_back(std::move(json));
    return spans_.back();
  }

  void AddEvent(const TraceRecord& record, TraceActivity activity, Json& events) const {
    if (record.time(activity) == 0) return;
    events.push_back({{"timeUnixNano", Time(record.time(activity))},
                      {"name", TraceActivityName(activity, trace_.protocol)}});
  }

  void WriteRecord(const TraceRecord& record) {
    const int64_t start = record.time(TraceActivity::kRequestStart);
    const int64_t end = record.time(TraceActivity::kRequestEnd);
    Json& span = Add(record.model, kInternal, record.span,
                     record.parent_span != 0 ? record.parent_span : trace_.root_span, start, end);
    Json attributes = {Attribute("triton.model_name", record.model),
                       Attribute("triton.model_version", static_cast<uint64_t>(record.version)),
                       Attribute("triton.trace_id", record.id),
                       Attribute("triton.trace_parent_id", record.parent_id)};
    if (!record.request_id.empty()) attributes.push_back(Attribute("triton.request_id", record.request_id));
    span["attributes"] = std::move(attributes);
    Json events = Json::array();
    for (TraceActivity activity :
         {TraceActivity::kRequestStart, TraceActivity::kQueueStart, TraceActivity::kRequestEnd}) {
      AddEvent(record, activity, events);
    }
    for (const TracedTensor& tensor : record.tensors) {
      events.push_back(
          {{"timeUnixNano", Time(tensor.ns)},
           {"name", TraceTensorKindName(tensor.kind)},
           {"attributes",
            {Attribute("name", tensor.name), Attribute("shape", ShapeText(tensor.shape)),
             Attribute("dtype", WireName(tensor.type)), Attribute("data", TensorText(tensor))}}});
    }
    span["events"] = std::move(events);
    const int64_t queued = record.time(TraceActivity::kQueueStart);
    const int64_t computed = record.time(TraceActivity::kComputeStart);
    if (queued != 0) {
      Add("queue", kInternal, record.queue_span, record.span, queued, computed != 0 ? computed : end);
    }
    if (computed == 0) return;
    const int64_t compute_end = record.time(TraceActivity::kComputeEnd);
    Json& compute = Add("compute", kInternal, record.compute_span, record.span, computed,
                        compute_end != 0 ? compute_end : end);
    Json compute_events = Json::array();
    for (TraceActivity activity : {TraceActivity::kComputeStart, TraceActivity::kComputeInputEnd,
                                   TraceActivity::kComputeOutputStart, TraceActivity::kComputeEnd}) {
      AddEvent(record, activity, compute_events);
    }
    compute["events"] = std::move(compute_events);
  }

  const FinishedTrace& trace_;
  Json& spans_;
};

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  // version "-" trace id "-" parent id "-" flags; versions above 00 may continue after another "-".
  if (text.size() < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  const auto version = Hex(text.substr(0, 2));
  const auto high = Hex(text.substr(3, 16));
  const auto low = Hex(text.substr(19, 16));
  const auto span = Hex(text.substr(36, 16));
  const auto flags = Hex(text.substr(53, 2));
  if (!version || !high || !low || !span || !flags || *version == 0xff) return std::nullopt;
  if (text.size() > 55 && (*version == 0 || text[55] != '-')) return std::nullopt;
  if ((*high == 0 && *low == 0) || *span == 0) return std::nullopt;
  return TraceContext{{*high, *low}, *span, (*flags & 1) != 0};
}

std::string OtlpJson(const std::vector<FinishedTrace>& traces, const ResourceAttributes& resource,
                     std::string_view version) {
  Json spans = Json::array();
  for (const FinishedTrace& trace : traces) SpanWriter(trace, spans).WriteAll();
  Json attributes = Json::array();
  for (const auto& [key, value] : resource) attributes.push_back(Attribute(key, value));
  Json scope = {{"scope", {{"name", "braid"}, {"version", version}}}};
  scope["spans"] = std::move(spans);
  Json of_resource = {{"resource", {{"attributes", std::move(attributes)}}}};
  of_resource["scopeSpans"] = Json::array({std::move(scope)});
  Json body = Json::object();
  body["resourceSpans"] = Json::array({std::move(of_resource)});
  return DumpJson(body);
}

}  // namespace braid
