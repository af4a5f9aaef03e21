#include "protocols/console/activity_documents.h"

#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/json.h"

namespace braid {
namespace {

constexpr size_t kMostSequences = 200;

std::string IdText(const CorrelationId& id) {
  const auto* text = std::get_if<std::string>(&id);
  return text != nullptr ? *text : std::to_string(std::get<uint64_t>(id));
}

std::string_view LevelText(const std::optional<LogLevel>& level) {
  if (!level) return "output";
  switch (*level) {
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
    case LogLevel::kVerbose:
      return "verbose";
  }
  return "info";
}

}  // namespace

std::string HistoryJson(const std::vector<HistorySample>& samples) {
  Json list = Json::array();
  for (const auto& [at_ms, counters] : samples) {
    list.push_back({{"at_ms", at_ms},
                    {"requests", counters.requests},
                    {"failures", counters.failures},
                    {"request_us", counters.request_us},
                    {"queue_us", counters.queue_us},
                    {"compute_us", counters.compute_us},
                    {"executions", counters.executions},
                    {"pending", counters.pending}});
  }
  return DumpJson(Json{{"step_ms", ConsoleHistory::kStepMs}, {"samples", std::move(list)}});
}

Result<std::string> SequencesJson(const Catalog& catalog, const std::string& model, int64_t version) {
  BRAID_ASSIGN_OR_RETURN(const auto servable, catalog.Find(model, version));
  Json list = Json::array();
  uint64_t total = 0;
  if (SequenceKeeper* sequences = servable->sequences()) {
    total = sequences->counts().active;
    for (const SequenceReport& report : sequences->List(kMostSequences)) {
      Json sequence = {{"id", IdText(report.id)}};
      if (report.idle_ns) sequence["idle_ms"] = *report.idle_ns / kMillisecondNs;
      if (report.age_ns) sequence["age_ms"] = *report.age_ns / kMillisecondNs;
      if (report.requests) sequence["requests"] = *report.requests;
      list.push_back(std::move(sequence));
    }
  }
  return DumpJson(Json{{"total", total}, {"sequences", std::move(list)}});
}

std::string LogJson(const RecentLog::Page& page) {
  Json lines = Json::array();
  for (const RecentLog::Line& line : page.lines) {
    lines.push_back({{"seq", line.number},
                     {"at_ms", line.at_ms},
                     {"level", LevelText(line.level)},
                     {"model", line.model},
                     {"text", line.text}});
  }
  return DumpJson(Json{{"next", page.next}, {"lost", page.lost}, {"lines", std::move(lines)}});
}

std::string TracesJson(const SlowTraces& traces, const std::string& model) {
  Json list = Json::array();
  for (const SlowTrace& trace : traces.Slowest(model)) {
    Json spans = Json::array();
    for (const TraceSpan& span : trace.spans) {
      spans.push_back({{"name", span.name},
                       {"parent", span.parent},
                       {"start_us", span.start_us},
                       {"duration_us", span.duration_us}});
    }
    list.push_back({{"id", trace.id},
                    {"model", trace.model},
                    {"version", std::to_string(trace.version)},
                    {"request_id", trace.request_id},
                    {"start_ms", trace.start_ms},
                    {"duration_us", trace.duration_us},
                    {"spans", std::move(spans)}});
  }
  return DumpJson(Json{{"watched_s", traces.WatchedFor(model)}, {"traces", std::move(list)}});
}

}  // namespace braid
