#include "repository/config_graphs.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "config/config_file.h"
#include "repository/parallel.h"

namespace braid {
namespace {}  // namespace

ConfigOutcome ConfigGraphs::Sync(const std::vector<OvmsGraphConfig>& wanted, bool retry) {
  ConfigOutcome outcome;
  for (auto& [name, entry] : graphs_) entry.wanted = false;
  for (const OvmsGraphConfig& config : wanted) {
    if (const Status claimed = table_.Own(config.name, ServableKind::kGraph); !claimed.ok()) {
      // Logged once, not at each pass.
      if (retry) BRAID_LOG_ERROR(log_, "graph '{}' is not served: {}", config.name, claimed.message());
      outcome.Add({false, claimed});
      continue;
    }
    Entry& entry = graphs_[config.name];
    entry.wanted = true;
    entry.config = config;
  }
  for (auto it = graphs_.begin(); it != graphs_.end();) {
    if (it->second.wanted) {
      ++it;
      continue;
    }
    ServableTable::RetiredServables leaving;
    table_.Retire(it->first, 1, ServableKind::kGraph, leaving);
    table_.Drain(std::move(leaving));
    outcome.changed = true;
    it = graphs_.erase(it);
  }
  std::vector<std::pair<const std::string, Entry>*> stale;
  for (auto& graph : graphs_) {
    if (Stale(graph.second, retry)) stale.push_back(&graph);
  }
  std::vector<char> changed(stale.size());  // not bits, which threads would share
  ParallelFor(stale.size(), options_.load_thread_count,
              [&](size_t i) { changed[i] = Try(stale[i]->first, stale[i]->second) ? 1 : 0; });
  for (size_t i = 0; i < stale.size(); ++i) outcome.Add({changed[i] != 0, stale[i]->second.fault});
  return outcome;
}

ConfigGraphs::File ConfigGraphs::Look(const std::string& path) {
  const auto text = ReadConfigFile(path);
  // A real hash of 0 becomes 1, because 0 means that the file cannot be read.
  return {path, text.ok() ? std::max(std::hash<std::string>{}(*text), size_t{1}) : 0};
}

bool ConfigGraphs::Stale(const Entry& entry, bool retry) const {
  if (entry.config != entry.tried || (retry && !entry.fault.ok())) return true;
  return std::any_of(entry.files.begin(), entry.files.end(),
                     [](const File& file) { return Look(file.path) != file; });
}

// Returns true if the served graph has changed.
bool ConfigGraphs::Try(const std::string& name, Entry& entry) {
  if (table_.closed()) return false;
  entry.tried = entry.config;
  const LogAbout about(name);
  if (!entry.served) table_.SetLoading(name, 1, ServableKind::kGraph);
  const int64_t begin_ns = SteadyNowNs();
  std::vector<std::string> paths;
  // Hash the file before the graph is made, so that the next pass detects changes during the load.
  entry.files.assign(1, Look(entry.config.graph_path));
  auto made = makers_.make_graph(entry.config, paths);
  const RetryingAllocation retrying;  // the new graph and the one it replaces must both be ended
  for (const std::string& path : paths) entry.files.push_back(Look(path));
  entry.fault = made.status();
  if (!made.ok()) {
    const std::string& why = entry.fault.message();
    if (entry.served) {
      BRAID_LOG_LINES(log_, kError, "the new definition of graph '{}' is not applied: {}", name, why);
      return false;
    }
    BRAID_LOG_LINES(log_, kError, "graph '{}' is not available: {}", name, why);
    ServableTable::RetiredServables leaving;
    table_.SetFailed(
        name, 1, ServableKind::kGraph,
        entry.fault.code() == StatusCode::kFailedPrecondition ? entry.fault : FailedPreconditionError(why),
        leaving);
    table_.Drain(std::move(leaving));
    return false;
  }
  BRAID_LOG_INFO(log_, "loaded graph '{}' in {} ms", name, (SteadyNowNs() - begin_ns) / kMillisecondNs);
  ServableTable::RetiredServables before;
  if (!table_.Serve(*made, before)) {
    drains_.Discard(**made);
    return false;
  }
  entry.served = true;
  table_.Drain(std::move(before));
  return true;
}

}  // namespace braid
