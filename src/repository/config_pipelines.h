// ConfigPipelines: makes, remakes and retires the pipelines of a config.json when their entries, their custom
// node libraries or the servables behind their nodes change.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "config/ovms_config.h"
#include "repository/config_models.h"
#include "repository/drains.h"
#include "repository/manager_options.h"
#include "repository/parallel.h"
#include "repository/servable_table.h"

namespace braid {

// Thread-safe. Methods exclude each other, so a call may have to wait for user code. The constructor's
// references outlive the object.
class ConfigPipelines {
 public:
  ConfigPipelines(const ConfigMakers& makers, ServableTable& table, Drains& drains, Logger& log)
      : makers_(makers), table_(table), drains_(drains), log_(log) {}

  // Opens new libraries, retires pipelines that are no longer wanted, and adds the steps that make the new
  // and changed pipelines of `wanted`. `wanted` outlives the steps. Failed pipelines are retried when their
  // entry or a library has changed, or if `retry` is set. If a new definition is not valid, the running
  // pipeline stays.
  void Plan(const std::vector<OvmsPipelineConfig>& wanted,
            const std::vector<OvmsCustomNodeLibrary>& libraries, bool retry, Steps& steps);
  // Returns the changes and failures of the last Plan() and its steps. REQUIRES: the steps have run.
  ConfigOutcome TakeOutcome();

  bool Has(const std::string& name) const;
  // Remakes a pipeline if a servable behind its nodes was replaced, has gone or has come back.
  void MakeIfDue(const std::string& name);

 private:
  struct Entry {
    OvmsPipelineConfig config;
    std::shared_ptr<Servable> pipeline;  // shared with the catalog and with requests; null: not available
    // The definition from which the pipeline was made.
    OvmsPipelineConfig made_of;
    uint64_t made_key = 0;
    // One of its libraries has changed since the last try.
    bool stale = false;
    Status fault;
  };

  void SyncLibraries(const std::vector<OvmsCustomNodeLibrary>& libraries, bool retry) BRAID_REQUIRES(mutex_);
  // Reports that another servable owns the name.
  ConfigOutcome Refuse(const std::string& name, const Status& why) const;
  ConfigOutcome Apply(const OvmsPipelineConfig& config);
  // Returns true if the served pipeline has changed.
  bool Try(const std::string& name, Entry& entry) BRAID_REQUIRES(mutex_);
  bool Serve(Entry& entry, const OvmsPipelineConfig& config, uint64_t key, std::shared_ptr<Servable> pipeline)
      BRAID_REQUIRES(mutex_);

  const ConfigMakers& makers_;
  ServableTable& table_;
  Drains& drains_;
  Logger& log_;

  mutable Mutex mutex_;  // held while pipelines are made, which may take as long as users' code takes
  std::map<std::string, Entry> pipelines_ BRAID_GUARDED_BY(mutex_);
  std::map<std::string, OvmsCustomNodeLibrary> library_configs_ BRAID_GUARDED_BY(mutex_);
  CustomNodeLibraries libraries_ BRAID_GUARDED_BY(mutex_);
  // State of the last Plan(). Each step has its own entry in outcomes_.
  ConfigOutcome planned_ BRAID_GUARDED_BY(mutex_);
  std::map<std::string, ConfigOutcome> outcomes_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
