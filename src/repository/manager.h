// Manager: makes the server serve the servables that its two sources want. One source is model folders, with
// load and unload requests. The other is a config.json, or one model named on the command line.
//
//   Manager manager(options, catalog, folder_makers, config_makers, log);
//   Status loaded;
//   BRAID_RETURN_IF_ERROR(manager.Start(loaded));   // loads all wanted servables, several at once
//
//   ...                                             // protocols call Load(), Unload() and Reload()
//   Status stopped = manager.Shutdown(deadline_ns);
//
// A load has three stages:
// - FolderLoads, ConfigModels and ConfigPipelines plan: they read a source and compare it with the
//   ServableTable. Each new or changed servable becomes a step that names its dependencies.
// - Run() runs the steps in dependency order; independent steps run concurrently. A step builds the new
//   version beside the serving one and swaps it in. The old version is stopped after its last request. A
//   failed step leaves the serving version as it is, and does not stop other steps.
// - Ensembles and pipelines whose dependencies were replaced, or that have waited for one, are remade in the
//   same order, whichever source caused the change.
//
// A load of several versions of a model folder takes effect as a whole or not at all. At most one load of a
// model runs at a time, and passes over the config.json run one after another. A pipeline becomes unavailable
// when a servable behind its nodes goes, and comes back with it. An ensemble stays, and is remade when all of
// its models serve. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "config/ovms_config.h"
#include "repository/manager_options.h"
#include "serving/catalog.h"
#include "serving/config_control.h"
#include "serving/model_control.h"

namespace braid {

class Manager final : public ModelControl, public ConfigControl {
 public:
  // `catalog`, `log` and the makers' references outlive the manager. The makers of a missing source may be
  // empty.
  Manager(ManagerOptions options, Catalog& catalog, FolderMakers folder_makers, ConfigMakers config_makers,
          Logger& log);
  // REQUIRES: Start() was never called or has failed, or Shutdown() has returned OK.
  ~Manager() override;

  // Loads all wanted servables, then begins to serve and to poll. Blocks until every load has ended. Called
  // once. A servable of the config.json that does not load is not an error.
  //
  // `loaded` is the result for the model folders:
  // - INVALID_ARGUMENT for inconsistent options.
  // - INTERNAL or NOT_FOUND for a repository that cannot be read. No folder is served then.
  // - INTERNAL "failed to load all models", with a line for each failed model. The other models are served;
  //   the caller decides whether to go on.
  //
  // Errors: a config.json that cannot be read or is not valid; nothing is loaded then.
  Status Start(Status& loaded);
  // Refuses new loads, waits for requests in flight, then stops everything, all until `deadline_ns`
  // (SteadyNowNs() time). REQUIRES: no new client requests arrive; calls from models to other models still
  // run. Errors: UNAVAILABLE if user code blocks a load or a stop. Its thread cannot be ended, so the process
  // has to leave by _exit().
  Status Shutdown(int64_t deadline_ns);

  // The metrics section of the config.json; nullopt before it is read.
  std::optional<OvmsMetricsConfig> metrics() const;

  // Scans the model folders once: loads new and failed models, reloads changed ones, unloads removed ones.
  // Blocks until done. In poll mode a thread of the manager calls this every poll_seconds.
  void ScanFolders();

  // Load and unload models of the model folders. Errors: also UNSUPPORTED without model folders, because a
  // config.json is changed in its file.
  Status Load(const LoadRequest& request) override;
  Status Unload(const std::string& model_name, bool unload_dependents, const ModelRights& rights) override;
  bool serving() const override;
  // With strict readiness of model folders, the server is ready if all servables are ready. A server with
  // only a config.json is ready once its first loads have ended, even with failures.
  bool server_ready() const override;
  void CheckServerReady(std::function<void(bool)> done) override;
  // Reloads the config.json.
  Result<bool> Reload() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braid
