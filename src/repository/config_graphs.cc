#include "repository/config_graphs.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "config/config_file.h"
#include "config/folder.h"
#include "repository/model_folders.h"
#include "repository/parallel.h"

namespace braid {
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

ConfigGraphs::File ConfigGraphs::Look(const std::string& path, bool folder) {
  if (folder) {
    const auto opened = Folder::Open(path);
    return {path, true, opened.ok() ? FingerprintOf(*opened, ".py").whole : 0};
  }
  const auto text = ReadConfigFile(path);
  // A real hash of 0 becomes 1, because 0 means that the file cannot be read.
  return {path, false, text.ok() ? std::max(std::hash<std::string>{}(*text), size_t{1}) : 0};
}

void ConfigGraphs::AddFiles(FolderWatch::Wanted& wanted) const {
  for (const auto& [name, entry] : graphs_) {
    for (const File& file : entry.files) (file.folder ? wanted.trees : wanted.files).push_back(file.path);
  }
}

void ConfigGraphs::AddFile(const std::string& path, std::vector<File>& files) const {
  files.push_back(Look(path, false));
  if (!options_.watch) return;
  File folder = Look(std::filesystem::path(path).parent_path().string(), true);
  if (std::ranges::find(files, folder.path, &File::path) == files.end()) files.push_back(std::move(folder));
}

bool ConfigGraphs::Stale(const Entry& entry, bool retry) const {
  if (entry.config != entry.tried || (retry && !entry.fault.ok())) return true;
  return std::any_of(entry.files.begin(), entry.files.end(),
                     [](const File& file) { return Look(file.path, file.folder) != file; });
}

// Returns true if the served graph has changed.
bool ConfigGraphs::Try(const std::string& name, Entry& entry) {
  if (table_.closed()) return false;
  entry.tried = entry.config;
  const LogAbout about(name);
  if (!entry.served) table_.SetLoading(name, 1, ServableKind::kGraph);
  const int64_t begin_ns = SteadyNowNs();
  // Hash the files before they are read, so that the next pass detects changes during the load.
  entry.files.clear();
  AddFile(entry.config.graph_path, entry.files);
  auto made = makers_.make_graph(entry.config, [&](const std::string& file) { AddFile(file, entry.files); });
  const RetryingAllocation retrying;  // the new graph and the one it replaces must both be ended
  entry.fault = made.status();
  if (!made.ok()) {
    const std::string& why = entry.fault.message();
    if (entry.served) {
      BRAID_LOG_LINES(log_, kError, "the new definition of graph '{}' is not applied: {}", name, why);
      if (options_.watch) table_.NoteReload(name, table_.ForClients(entry.fault));
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
  const bool again = options_.watch && entry.served;
  BRAID_LOG_INFO(log_, "{} graph '{}' in {} ms", again ? "reloaded" : "loaded", name,
                 (SteadyNowNs() - begin_ns) / kMillisecondNs);
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
