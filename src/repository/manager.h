// Manager: makes the server serve what its two sources want: the model folders (and load and unload
// requests), and a config.json (or one model named on the command line).
//
//   Manager manager(options, catalog, folder_makers, config_makers, log);
//   Status loaded;
//   BRAID_RETURN_IF_ERROR(manager.Start(loaded));   // everything that is wanted, several at once
//   ...                                             // protocols call Load(), Unload() and Reload()
//   Status stopped = manager.Shutdown(deadline_ns);
//
// How a servable comes to be loaded:
// - A source is read, and compared with what is served (the ServableTable). What is new or differs becomes a
//   step that names what it uses: FolderLoads, ConfigModels and ConfigPipelines plan.
// - Run() does the steps, each after those of what it uses, independent ones beside each other. A step builds
//   the new version beside the one that serves, and swaps it in; the old one is stopped when its last request
//   has left. What fails leaves what serves as it is, and keeps no other step from being done.
// - Ensembles and pipelines that were made of what has been replaced, or have waited for it, are made anew in
//   the same order, whichever source brought it.
//
// A load of several versions of a model folder takes effect as a whole or not at all. At most one load of a
// model runs at a time; rounds over the config.json take turns. A pipeline becomes unavailable when something
// behind its nodes goes, and comes back with it; an ensemble stays, and is made anew when all of its models
// serve. All methods may be called from any thread.
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
  // `catalog`, `log` and what the makers refer to outlive the manager. The makers of a source that is missing
  // may be empty.
  Manager(ManagerOptions options, Catalog& catalog, FolderMakers folder_makers, ConfigMakers config_makers,
          Logger& log);
  // REQUIRES: Start() was never called or has failed, or Shutdown() has returned OK.
  ~Manager() override;

  // Loads everything that is wanted, and begins to serve and to poll; blocks until every load has ended.
  // Called once. `loaded` is what has become of the model folders: INVALID_ARGUMENT for options that make no
  // sense, INTERNAL or NOT_FOUND for a repository that cannot be read (no folder is served then), INTERNAL
  // "failed to load all models" and a line for each that failed, when at least one failed (the others are served; the
  // caller decides whether to go on). Errors: a config.json that cannot be read or is not valid; nothing is loaded then. A servable
  // of it that does not load is no error.
  Status Start(Status& loaded);
  // Stops to take loads, waits for requests in flight, then stops everything, all until `deadline_ns`
  // (SteadyNowNs() time). The caller sees to it that no new requests come from outside; those of models to
  // other models still run. Errors: UNAVAILABLE when user code holds up a load or a stop: its thread cannot
  // be ended, so the process has to leave by _exit().
  Status Shutdown(int64_t deadline_ns);

  // The metrics section of the config.json, once it is read.
  std::optional<OvmsMetricsConfig> metrics() const;

  // One look at the model folders: loads what is new or has failed, reloads what has changed, unloads what is
  // gone; blocks until done. In poll mode a thread of the manager calls this each poll_seconds.
  void ScanFolders();

  // Of the model folders. Errors: also UNSUPPORTED without any: a config.json is changed in its file.
  Status Load(const LoadRequest& request) override;
  Status Unload(const std::string& model_name, bool unload_dependents, const ModelRights& rights) override;
  bool serving() const override;
  // Strict readiness of model folders looks at everything that is served; a server with a config.json alone
  // is ready when its first loads have ended, however they ended.
  bool server_ready() const override;
  void CheckServerReady(std::function<void(bool)> done) override;
  // Of the config.json.
  Result<bool> Reload() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braid
