// ConfigPipelines: keeps the pipelines of a config.json in step with their entries, with the custom node
// libraries and with the servables behind their nodes.
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

// All methods may be called from any thread; they wait for each other, so perhaps for users' code.
class ConfigPipelines {
 public:
  // All outlive it.
  ConfigPipelines(const ConfigMakers& makers, ServableTable& table, Drains& drains, Logger& log)
      : makers_(makers), table_(table), drains_(drains), log_(log) {}

  // Opens new libraries, retires what is no longer wanted, and adds the steps that make what is new or has
  // changed, of `wanted`, which outlives them. What has failed is tried again when something has changed, or
  // with `retry`. A new definition that is not valid leaves what runs as it is.
  void Plan(const std::vector<OvmsPipelineConfig>& wanted,
            const std::vector<OvmsCustomNodeLibrary>& libraries, bool retry, Steps& steps);
  // When the steps of the last Plan() have run: what they and Plan() have brought.
  ConfigOutcome TakeOutcome();

  bool Has(const std::string& name) const;
  // Makes a pipeline anew behind which something has been replaced, has gone or has come back.
  void MakeIfDue(const std::string& name);

 private:
  struct Entry {
    OvmsPipelineConfig config;
    std::shared_ptr<Servable> pipeline;  // shared with the catalog and with requests; null: not available
    // What the pipeline was made of.
    OvmsPipelineConfig made_of;
    uint64_t made_key = 0;
    // A library of it is another one since the last try.
    bool stale = false;
    Status fault;
  };

  void SyncLibraries(const std::vector<OvmsCustomNodeLibrary>& libraries, bool retry) BRAID_REQUIRES(mutex_);
  // Its name is not free.
  ConfigOutcome Refuse(const std::string& name, const Status& why) const;
  ConfigOutcome Apply(const OvmsPipelineConfig& config);
  // True when what is served has changed.
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
  // Of the last Plan(); each step has a place.
  ConfigOutcome planned_ BRAID_GUARDED_BY(mutex_);
  std::map<std::string, ConfigOutcome> outcomes_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
