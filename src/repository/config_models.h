// ConfigModels: keeps the models of a config.json in step with their entries and their version folders.
#pragma once

#include <cstdint>
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
#include "repository/config_makers.h"
#include "repository/config_states.h"
#include "repository/drains.h"
#include "repository/sequence_vault.h"

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

// Not for use by two threads at once.
class ConfigModels {
 public:
  // `vault` keeps sequences; null: they end with their servable. `replaced` is called when what the catalog
  // serves has changed and what served before still takes requests; by several threads at once. All outlive
  // it.
  ConfigModels(const ConfigMakers& makers, ConfigStates& states, Drains& drains, SequenceVault* vault,
               std::function<void()> replaced, int load_thread_count, Logger& log)
      : makers_(makers),
        states_(states),
        drains_(drains),
        vault_(vault),
        replaced_(std::move(replaced)),
        load_thread_count_(load_thread_count),
        log_(log) {}

  // Loads what is new or has changed and retires versions that are gone, of `wanted`; blocks until done. What
  // has failed is tried again when its entry or its files have changed, or with `retry`. Outcome: the fault
  // of what was tried now.
  ConfigOutcome Sync(const std::vector<OvmsModelConfig>& wanted, bool retry);
  // Retires the models that the last Sync() did not want.
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
    const OvmsModelConfig* config = nullptr;
    int64_t number = 0;
    uint64_t files = 0;
    Version* version = nullptr;
    Status status;
  };

  // Adds what is to be built; sets states. Errors: why the entry cannot be applied.
  Status Plan(const OvmsModelConfig& config, Model& model, bool retry, std::vector<Build>& builds);
  void RefuseVersions(const OvmsModelConfig& config, Model& model);
  void RunBuild(Build& build);
  Result<std::shared_ptr<Servable>> Make(const OvmsModelConfig& config, int64_t version) const;
  bool RetireOthers(const std::string& name, Model& model);
  void Retire(const std::string& name, int64_t version);

  const ConfigMakers& makers_;
  ConfigStates& states_;
  Drains& drains_;
  SequenceVault* const vault_;
  const std::function<void()> replaced_;
  const int load_thread_count_;
  Logger& log_;
  std::map<std::string, Model> models_;
};

}  // namespace braid
