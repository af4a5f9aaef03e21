// What the console tells of what happens over time: history, sequences, the log, traces.
#pragma once

#include <string>
#include <vector>

#include "base/recent_log.h"
#include "base/status.h"
#include "protocols/console/history.h"
#include "serving/catalog.h"
#include "serving/slow_traces.h"

namespace braid {

// {"step_ms": 2000, "samples": [...]}
std::string HistoryJson(const std::vector<HistorySample>& samples);

// {"total": n, "sequences": [...]}, the oldest 200 of a version; none for one that keeps nothing between requests. Errors:
// as for Catalog::Find().
Result<std::string> SequencesJson(const Catalog& catalog, const std::string& model, int64_t version);

// {"next": n, "lost": n, "lines": [...]}
std::string LogJson(const RecentLog::Page& page);

// {"watched_s": n, "traces": [...]}
std::string TracesJson(const SlowTraces& traces, const std::string& model);

}  // namespace braid
