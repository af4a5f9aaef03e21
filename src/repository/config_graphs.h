// ConfigGraphs: keeps the graphs of a config.json in step with their entries and their files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/ovms_config.h"
#include "repository/config_models.h"
#include "repository/drains.h"
#include "repository/manager_options.h"
#include "repository/servable_table.h"

namespace braid {

// Not for use by two threads at once.
class ConfigGraphs {
 public:
  // All outlive it.
  ConfigGraphs(const ManagerOptions& options, const ConfigMakers& makers, ServableTable& table,
               Drains& drains, Logger& log)
      : options_(options), makers_(makers), table_(table), drains_(drains), log_(log) {}

  // Loads what is new, has another entry, or was made of files that have other contents now, and retires what
  // is gone, of `wanted`; blocks until done, which takes as long as users' code takes. What has failed is
  // tried again when its entry or a file has changed, or with `retry`. A new version that does not load
  // leaves what runs as it is. Streams that are open stay with the graph that they began on.
  ConfigOutcome Sync(const std::vector<OvmsGraphConfig>& wanted, bool retry);

 private:
  // The contents of a file when a graph was made of it.
  struct File {
    std::string path;
    size_t contents = 0;  // a hash; 0: not readable
    bool operator==(const File&) const = default;
  };
  struct Entry {
    OvmsGraphConfig config;
    bool wanted = false;
    bool served = false;
    // Of the last try.
    OvmsGraphConfig tried;
    std::vector<File> files;
    Status fault;
  };

  static File Look(const std::string& path);
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
