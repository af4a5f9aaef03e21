// ConfigRepository: keeps what the catalog serves in step with a config.json (or with one model named on the
// command line) and the version folders of its models.
//
//   ConfigRepository repository(options, catalog, makers, log);
//   BRAID_RETURN_IF_ERROR(repository.Start());   // loads what it can; the rest is known with its fault
//   ...
//   Status stopped = repository.Shutdown(deadline_ns);
//
// Order of a load: models (versions side by side), custom node libraries, pipelines, graphs. A version is
// built beside the one that it replaces and swapped in. A pipeline is made anew when something behind its
// nodes has been replaced, becomes unavailable when a model goes, and comes back with it; also when that
// model is another repository's of the same catalog. Such a repository may use what is served here: it is
// told between the models and the pipelines, and at the end. What has a fault is left as it runs, and does
// not keep the rest from being applied. Methods may be called from any thread; a name belongs to whoever has
// brought it to the catalog first.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "config/ovms_config.h"
#include "repository/config_makers.h"
#include "repository/sequence_vault.h"
#include "serving/catalog.h"
#include "serving/config_control.h"

namespace braid {

struct ConfigRepositoryOptions {
  // The path of a config.json, or, when empty, one model.
  std::string config_path;
  std::optional<OvmsModelConfig> single_model;
  // How often the file and the version folders are looked at; 0: only on demand.
  int poll_seconds = 1;
  // Whether the files of graphs are looked at then, too; else they are at reloads alone.
  bool watch_graph_files = false;
  // How long the instances of what is unloaded may take to end.
  int exit_timeout_seconds = 30;
  int load_thread_count = 4;
  // Keeps the sequences of stateful models over restarts and reloads, and outlives the repository; null: they
  // end with their servable.
  SequenceVault* sequence_vault = nullptr;
  // Called when what the catalog serves has changed, so that who has made something of it can make that anew;
  // pipelines over that are then made anew, too. By one thread at a time, and before Start() and Reload()
  // return. May be empty.
  std::function<void()> changed = {};
};

class ConfigRepository final : public ConfigControl {
 public:
  // `catalog` and `log` outlive the repository, and so does what the makers refer to.
  ConfigRepository(ConfigRepositoryOptions options, Catalog& catalog, ConfigMakers makers, Logger& log);
  // REQUIRES: Start() was never called, or Shutdown() has returned OK.
  ~ConfigRepository() override;

  // Blocks until every load has ended, then polls. Called once. Errors: only for what keeps a server from
  // starting, a file that cannot be read or is not valid. A servable that does not load is no error: it is
  // registered with its fault.
  Status Start();
  // The metrics section of the file, after Start().
  std::optional<OvmsMetricsConfig> metrics() const;
  // Whether Start() has ended well and Shutdown() was not called.
  bool serving() const;
  // Stops polling and unloads everything until `deadline_ns` (SteadyNowNs() time). Errors: UNAVAILABLE when a
  // load or a stop does not end: its thread cannot be ended, so the process has to leave by _exit().
  Status Shutdown(int64_t deadline_ns);

  Result<bool> Reload() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braid
