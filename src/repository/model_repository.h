// ModelRepository: keeps what the catalog serves in step with the model folders on disk and with load and
// unload requests.
//
//   ModelRepository repository(options, catalog, {&python_backend}, factory, log);
//   Status loaded = repository.Start();       // every model of the startup set, in parallel
//   ...                                       // protocols call Load() and Unload()
//   Status stopped = repository.Shutdown(deadline_ns);
//
// An ensemble is loaded after the models it uses, which are loaded with it, and is made anew when one of them
// has been replaced; its version that serves stays when that fails. It may use what another repository of the
// same catalog serves (a config.json): that is taken as it is, and followed by Refresh().
//
// A version is built beside the one it replaces, swapped in, and the old one is stopped when its last request
// has left. A model that fails to load never takes another down; a load of several versions takes effect as a
// whole or not at all, and a failed reload leaves what was served before. At most one load of a model runs at
// a time. All methods may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "repository/sequence_vault.h"
#include "scheduling/backend.h"
#include "serving/catalog.h"
#include "serving/model_control.h"
#include "serving/servable.h"

namespace braid {

enum class ControlMode : unsigned char { kNone, kPoll, kExplicit };

struct RepositoryOptions {
  // Folders of model folders.
  std::vector<std::string> model_repositories;
  ControlMode control_mode = ControlMode::kNone;
  // What explicit mode loads at start; "*" alone is everything.
  std::vector<std::string> startup_models;
  int poll_seconds = 15;
  // Whether a load may bring the model's files.
  bool allow_file_overrides = true;
  // Of {model}/configs/{name}.pbtxt; a model without such a file is read from its config.pbtxt.
  std::string model_config_name;
  bool auto_complete = true;
  bool strict_readiness = true;
  // How long the instances of an unloaded model may take to finalize.
  int exit_timeout_seconds = 30;
  // Of models at start and when polling, and of the versions of one model.
  int load_thread_count = 4;
  // How often a failed load of a version is tried again at once.
  int load_retry_count = 0;
  // Where the folders of Python-based backends are: {backend_directory}/{backend}/model.py.
  std::string backend_directory = "/opt/tritonserver/backends";
  // Where the files of load requests are kept; each in a private folder that goes when nobody needs it.
  std::string temporary_directory = "/tmp";
  // Keeps the sequences of models with implicit state over restarts and reloads, and outlives the repository;
  // null: they end with their servable.
  SequenceVault* sequence_vault = nullptr;
  // Another repository fills the catalog after this one: ensembles of the startup set which use models that
  // are in no model folder wait for it, until FinishStart().
  bool others_follow = false;
};

class ModelRepository : public ModelControl {
 public:
  // Makes the servable of a version and waits until it can serve; ScheduledModel::Start in the server. Blocks
  // on user code; called by several threads at once, for different versions. `progress` is valid during the
  // call.
  using ServableFactory = std::function<Result<std::shared_ptr<Servable>>(
      ServableInfo info, std::unique_ptr<BackendModel> model,
      const std::function<void(const std::string&)>& progress)>;

  // Makes the servable of an ensemble, whose models are in the catalog by then, or says what it lacks;
  // Ensemble::Create in the server. `why_missing` gives the end of the sentence "ensemble 'e' depends on 'm'"
  // for a model without a loaded version.
  using EnsembleFactory = std::function<Result<std::shared_ptr<Servable>>(
      ServableInfo info, const std::function<std::string(const std::string& model)>& why_missing)>;

  // `catalog`, the backends and `log` outlive the repository. The backend named "python" also runs
  // Python-based backends.
  ModelRepository(RepositoryOptions options, Catalog& catalog, std::vector<Backend*> backends,
                  ServableFactory factory, EnsembleFactory ensembles, Logger& log);
  // REQUIRES: Start() was never called, or Shutdown() has returned OK.
  ~ModelRepository() override;

  // Loads the startup set and begins to serve; blocks until every load has ended. Called once. Errors:
  // INVALID_ARGUMENT for options that make no sense, INTERNAL or NOT_FOUND for a repository that cannot be
  // read (nothing is served then); INTERNAL "failed to load all models" when at least one failed (the others
  // are served; the caller decides whether to go on).
  Status Start();
  // Where others follow: to be called once after Start(), when they have. Loads what still waits, and then
  // polls. Errors: INTERNAL "failed to load all models" when something that has waited does not serve.
  Status FinishStart();

  // What others serve in the catalog has changed: makes the ensembles anew that use it, as when a model of
  // the repository is replaced, and makes those at last that lacked it. Blocks until done.
  void Refresh();

  // Stops to take loads, waits for requests in flight, then stops every model, all until `deadline_ns`
  // (SteadyNowNs() time). The caller sees to it that no new requests come from outside; those of models to
  // other models still run. Errors: UNAVAILABLE when user code holds up a load or a stop: its thread cannot
  // be ended, so the process has to leave by _exit().
  Status Shutdown(int64_t deadline_ns);

  // One round of polling: loads what is new or has failed, reloads what has changed, unloads what is gone;
  // blocks until done. In poll mode a thread of the repository calls this each poll_seconds.
  void ScanOnce();

  Status Load(const LoadRequest& request) override;
  Status Unload(const std::string& model_name, bool unload_dependents) override;
  bool serving() const override;
  bool server_ready() const override;
  void CheckServerReady(std::function<void(bool)> done) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braid
