// ConfigModels: keeps the models of a config.json in step with their entries and their version folders.
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

// What a look at the configuration has brought.
struct ConfigOutcome {
  bool changed = false;
  // The first thing that could not be applied; OK when all could.
  Status fault;

  void Add(const ConfigOutcome& other) {
    changed = changed || other.changed;
    if (fault.ok()) fault = other.fault;
  }
};

// Not for use by two threads at once, but for the steps, which may run beside each other.
class ConfigModels {
 public:
  // `options` has a config. `replaced` is called when what is served has changed and what served before still
  // takes requests; by several threads at once. All outlive it.
  ConfigModels(const ManagerOptions& options, const ConfigMakers& makers, ServableTable& table,
               Drains& drains, std::function<void()> replaced, Logger& log)
      : options_(options),
        makers_(makers),
        table_(table),
        drains_(drains),
        replaced_(std::move(replaced)),
        log_(log) {}

  // Adds the steps that load what is new or has changed and retire versions that are gone, of `wanted`, which
  // outlives them. What has failed is tried again when its entry or its files have changed, or with `retry`.
  void Plan(const std::vector<OvmsModelConfig>& wanted, bool retry, Steps& steps);
  // When the steps of the last Plan() have run: what they have brought, and the faults of what was tried.
  ConfigOutcome TakeOutcome();
  // Retires the models that the last Plan() did not want.
  void RetireUnwanted();

 private:
  // The last load of a version, when it has failed.
  struct Failure {
    OvmsModelConfig config;
    uint64_t files = 0;  // the state that they were in
    Status fault;
  };
  struct Version {
    // What the servable was made of; nothing when the version does not serve.
    std::optional<OvmsModelConfig> serving;
    std::optional<Failure> failure;
  };
  struct Model {
    bool wanted = false;
    std::map<int64_t, Version> versions;
    // By the last look at the folder: the versions that are there, and those of them that are to be served.
    std::vector<int64_t> available;
    std::vector<int64_t> chosen;
    // What keeps the entry as a whole from being applied, as it was logged.
    Status fault;
  };
  struct Build {
    int64_t number = 0;
    uint64_t files = 0;
    Version* version = nullptr;
    Status status;
  };
  // What is to be done for one entry.
  struct Work {
    const OvmsModelConfig* config = nullptr;
    Model* model = nullptr;
    std::vector<Build> builds;
    bool retired = false;
  };

  // Adds what is to be built; sets states. Errors: why the entry cannot be applied.
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
  // Of the last Plan().
  std::deque<Work> works_;
  Status plan_fault_;
};

}  // namespace braid
