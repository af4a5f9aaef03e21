// ConfigModels: loads, reloads and retires the models of a config.json when their entries or version folders
// change.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "config/ovms_config.h"
#include "repository/drains.h"
#include "repository/manager_options.h"
#include "repository/parallel.h"
#include "repository/servable_table.h"

namespace braid {

// The result of one pass over the configuration.
struct ConfigOutcome {
  bool changed = false;
  // The first entry that could not be applied; OK if all were applied.
  Status fault;

  void Add(const ConfigOutcome& other) {
    changed = changed || other.changed;
    if (fault.ok()) fault = other.fault;
  }
};

// Not thread-safe, except for the steps of Plan(), which may run concurrently. The constructor's references
// outlive the object.
class ConfigModels {
 public:
  // REQUIRES: `options` has a config. `replaced` is called after a version was replaced or retired, while the
  // previous servable still takes requests. Several threads may call it at once.
  ConfigModels(const ManagerOptions& options, const ConfigMakers& makers, ServableTable& table,
               Drains& drains, std::function<void()> replaced, Logger& log)
      : options_(options),
        makers_(makers),
        table_(table),
        drains_(drains),
        replaced_(std::move(replaced)),
        log_(log) {}

  // Adds the steps that load new and changed versions of `wanted` and retire versions whose folders are gone.
  // `wanted` outlives the steps. Failed versions are retried when their entry or files have changed, or if
  // `retry` is set.
  void Plan(const std::vector<OvmsModelConfig>& wanted, bool retry, Steps& steps);
  // Returns the changes and failures of the last Plan(). REQUIRES: its steps have run.
  ConfigOutcome TakeOutcome();
  // Retires the models that the last Plan() did not want.
  void RetireUnwanted();

 private:
  // A version's last load, if it failed.
  struct Failure {
    OvmsModelConfig config;
    uint64_t files = 0;  // a fingerprint of the version's files at that load
    Status fault;
  };
  struct Version {
    // The configuration from which the servable was made; nullopt if the version does not serve.
    std::optional<OvmsModelConfig> serving;
    uint64_t files = 0;  // a fingerprint of the files at that load
    std::optional<Failure> failure;
  };
  struct Model {
    bool wanted = false;
    std::map<int64_t, Version> versions;
    // The versions that the last scan of the folder found, and those of them that the version policy chose.
    std::vector<int64_t> available;
    std::vector<int64_t> chosen;
    // The error that keeps the whole entry from being applied, as logged.
    Status fault;
  };
  struct Build {
    int64_t number = 0;
    uint64_t files = 0;
    Version* version = nullptr;
    Status status;
  };
  // The pending work for one entry.
  struct Work {
    const OvmsModelConfig* config = nullptr;
    Model* model = nullptr;
    std::vector<Build> builds;
    bool retired = false;
  };

  // The folder of an entry's versions on this machine.
  struct Place {
    std::string path;
    std::shared_ptr<const LocalCopy> copy;  // null unless the entry is in an object store
  };

  // Copies the entries in object stores that have changed.
  void CopyRemote(const std::vector<OvmsModelConfig>& wanted, bool retry);
  Result<Place> PlaceOf(const OvmsModelConfig& config) const;
  bool HasFolder(const OvmsModelConfig& config, int64_t version) const;
  // Adds the pending builds and sets states. Errors: the reason why the entry cannot be applied.
  Status PlanModel(const OvmsModelConfig& config, Model& model, bool retry, std::vector<Build>& builds);
  void Run(Work& work);
  void RefuseVersions(const OvmsModelConfig& config, Model& model);
  void RunBuild(const OvmsModelConfig& config, Build& build);
  Result<std::shared_ptr<Servable>> Make(const OvmsModelConfig& config, int64_t version) const;
  bool RetireOthers(const std::string& name, Model& model);
  void Retire(const std::string& name, int64_t version);

  const ManagerOptions& options_;
  const ConfigMakers& makers_;
  ServableTable& table_;
  Drains& drains_;
  const std::function<void()> replaced_;
  Logger& log_;
  std::map<std::string, Model> models_;
  std::map<std::string, std::shared_ptr<RemoteFolder>> remote_;  // by URL
  // State of the last Plan().
  std::deque<Work> works_;
  Status plan_fault_;
};

}  // namespace braid
