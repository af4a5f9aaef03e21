// The console's documents about activity over time: history, sequences, the log, traces.
#pragma once

#include <string>
#include <vector>

#include "base/recent_log.h"
#include "base/status.h"
#include "protocols/console/history.h"
#include "serving/catalog.h"
#include "serving/slow_traces.h"

namespace braid {

// Returns {"step_ms": 2000, "samples": [...]}.
std::string HistoryJson(const std::vector<HistorySample>& samples);

// Returns {"total": n, "sequences": [...]}, with the 200 oldest of each version; none for servables without
// state between requests. Errors: as for Catalog::Find().
Result<std::string> SequencesJson(const Catalog& catalog, const std::string& model, int64_t version);

// Returns {"next": n, "lost": n, "lines": [...]}.
std::string LogJson(const RecentLog::Page& page);

// Returns {"watched_s": n, "traces": [...]}.
std::string TracesJson(const SlowTraces& traces, const std::string& model);

}  // namespace braid
