// ConfigGraphs: keeps the graphs of a config.json in step with their entries and their files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/ovms_config.h"
#include "repository/config_makers.h"
#include "repository/config_models.h"
#include "repository/config_states.h"
#include "repository/drains.h"

namespace braid {

// Not for use by two threads at once.
class ConfigGraphs {
 public:
  // All outlive it.
  ConfigGraphs(const ConfigMakers& makers, ConfigStates& states, Drains& drains, int load_thread_count,
               Logger& log)
      : makers_(makers), states_(states), drains_(drains), load_thread_count_(load_thread_count), log_(log) {}

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

  const ConfigMakers& makers_;
  ConfigStates& states_;
  Drains& drains_;
  const int load_thread_count_;
  Logger& log_;
  std::map<std::string, Entry> graphs_;
};

}  // namespace braid
