// ConfigPipelines: keeps the pipelines of a config.json in step with their entries, with the custom node
// libraries and with the servables behind their nodes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "config/ovms_config.h"
#include "repository/config_makers.h"
#include "repository/config_models.h"
#include "repository/config_states.h"
#include "repository/drains.h"
#include "serving/catalog.h"

namespace braid {

// All methods may be called from any thread; they wait for each other, so perhaps for users' code.
class ConfigPipelines {
 public:
  // All outlive it.
  ConfigPipelines(const ConfigMakers& makers, const Catalog& catalog, ConfigStates& states, Drains& drains,
                  Logger& log)
      : makers_(makers), catalog_(catalog), states_(states), drains_(drains), log_(log) {}

  // Opens new libraries, retires what is no longer wanted, makes what is new or has changed. What has failed
  // is tried again when something has changed, or with `retry`. A new definition that is not valid leaves
  // what runs as it is.
  ConfigOutcome Sync(const std::vector<OvmsPipelineConfig>& wanted,
                     const std::vector<OvmsCustomNodeLibrary>& libraries, bool retry);
  // Makes those anew behind which something has been replaced, has gone or has come back.
  void Refresh();

 private:
  struct Entry {
    OvmsPipelineConfig config;
    bool wanted = false;
    std::shared_ptr<Pipeline> pipeline;  // shared with the catalog and with requests; null: not available
    // What the pipeline was made of.
    OvmsPipelineConfig made_of;
    // The definition, or a library of it, is another one since the last try.
    bool stale = true;
    // What was behind the nodes at the last try.
    std::vector<std::weak_ptr<Servable>> behind;
    Status fault;
  };

  void SyncLibrariesLocked(const std::vector<OvmsCustomNodeLibrary>& libraries, bool retry,
                           ConfigOutcome& outcome);
  bool RefreshLocked();
  bool NeedsTry(const Entry& entry, const std::vector<std::weak_ptr<Servable>>& behind) const;
  bool TryLocked(const std::string& name, Entry& entry);
  bool ServeLocked(Entry& entry, std::shared_ptr<Pipeline> pipeline);
  std::vector<std::weak_ptr<Servable>> Behind(const OvmsPipelineConfig& config) const;

  const ConfigMakers& makers_;
  const Catalog& catalog_;
  ConfigStates& states_;
  Drains& drains_;
  Logger& log_;

  mutable std::mutex mutex_;  // held while pipelines are made, which may take as long as users' code takes
  // All guarded by mutex_.
  std::map<std::string, Entry> pipelines_;
  std::map<std::string, OvmsCustomNodeLibrary> library_configs_;
  CustomNodeLibraries libraries_;
};

}  // namespace braid
