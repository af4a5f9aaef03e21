// ConfigGraphs: loads, reloads and retires the graphs of a config.json when their entries or their files
// change.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/folder_watch.h"
#include "base/log.h"
#include "config/ovms_config.h"
#include "repository/config_models.h"
#include "repository/drains.h"
#include "repository/manager_options.h"
#include "repository/servable_table.h"

namespace braid {

// Not thread-safe. The constructor's references outlive the object.
class ConfigGraphs {
 public:
  ConfigGraphs(const ManagerOptions& options, const ConfigMakers& makers, ServableTable& table,
               Drains& drains, Logger& log)
      : options_(options), makers_(makers), table_(table), drains_(drains), log_(log) {}

  // Loads the graphs of `wanted` that are new, whose entry has changed, or whose files have other contents
  // now. Retires the graphs that are not in `wanted`. Failed graphs are retried when their entry or a file
  // has changed, or if `retry` is set. If a new version does not load, the running one stays. Open streams
  // stay with the graph on which they began. Runs user code, and blocks until that returns.
  ConfigOutcome Sync(const std::vector<OvmsGraphConfig>& wanted, bool retry);

  // Adds the files and folders whose contents Sync() compares.
  void AddFiles(FolderWatch::Wanted& wanted) const;

 private:
  // A source of a graph.
  struct File {
    std::string path;
    bool folder = false;    // for its Python files
    uint64_t contents = 0;  // a hash; 0: not readable
    bool operator==(const File&) const = default;
  };
  struct Entry {
    OvmsGraphConfig config;
    bool wanted = false;
    bool served = false;
    // The state of the last try.
    OvmsGraphConfig tried;
    std::vector<File> files;
    Status fault;
  };

  static File Look(const std::string& path, bool folder);
  // Adds a file; when saved files are watched, also the Python files in its folder.
  void AddFile(const std::string& path, std::vector<File>& files) const;
  bool Stale(const Entry& entry, bool retry) const;
  bool Try(const std::string& name, Entry& entry);

  const ManagerOptions& options_;
  const ConfigMakers& makers_;
  ServableTable& table_;
  Drains& drains_;
  Logger& log_;
  std::map<std::string, Entry> graphs_;
};

}  // namespace braid
