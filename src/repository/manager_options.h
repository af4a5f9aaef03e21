// The options of a Manager, and its factories for servables.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/openvino/openvino_backend.h"
#include "base/status.h"
#include "config/ovms_config.h"
#include "pipeline/pipeline.h"
#include "scheduling/backend.h"
#include "sequences/sequence_vault.h"
#include "serving/servable.h"
#include "storage/object_storage.h"

namespace braid {

enum class ControlMode : unsigned char { kNone, kPoll, kExplicit };

struct FolderOptions {
  // Folders of model folders.
  std::vector<std::string> model_repositories;
  ControlMode control_mode = ControlMode::kNone;
  // The models that explicit mode loads at start; "*" alone means all.
  std::vector<std::string> startup_models;
  int poll_seconds = 15;
  // Whether a load request may contain the model's files.
  bool allow_file_overrides = true;
  // Selects {model}/configs/{name}.pbtxt; a model without such a file uses its config.pbtxt.
  std::string model_config_name;
  bool auto_complete = true;
  bool strict_readiness = true;
  // Whether requests load models (OnDemandLoader); needs ControlMode::kExplicit.
  bool on_demand = false;
  // How long a request waits for its model to be loaded.
  int64_t load_wait_ms = 30000;
  // The limit of the models' memory (ModelMemory); 0: none. Needs on_demand.
  uint64_t models_memory_max_bytes = 0;
  // How often a failed load of a version is immediately retried.
  int load_retry_count = 0;
  // The folders of hosted backends (Backend::HostedFile()).
  std::string backend_directory = "/opt/tritonserver/backends";
  // Where the files of load requests are kept, each in a private folder that is removed with its last user.
  std::string temporary_directory = "/tmp";
};

struct ConfigOptions {
  // The path of a config.json; if empty, single_model is set.
  std::string config_path;
  std::optional<OvmsModelConfig> single_model;
  // How often the file and the version folders are scanned; 0: only on demand.
  int poll_seconds = 1;
  // How long a reload waits for the requests in flight of retired servables.
  int64_t retire_wait_ns = int64_t{30} * 1'000'000'000;
  // Whether scans include the files of graphs; otherwise only reloads read them.
  bool watch_graph_files = false;
};

struct ManagerOptions {
  // The sources; either may be missing.
  std::optional<FolderOptions> folders = {};
  std::optional<ConfigOptions> config = {};
  // How long the instances of an unloaded servable may take to finalize.
  int exit_timeout_seconds = 30;
  // Whether saved files take effect at once, in place of polling: those of the sources, and the Python files
  // beside the handlers of graphs. Not with ControlMode::kPoll or `on_demand`.
  bool watch = false;
  // Limits the concurrent loads of servables, and of the versions of one model.
  int load_thread_count = 4;
  // Keeps the sequences of stateful models over restarts and reloads; outlives the manager. Null: they end
  // with their servable.
  SequenceVault* sequence_vault = nullptr;
  // Copies models in object stores; outlives the manager. Null: such models are errors.
  ObjectStorage* storage = nullptr;
};

// Several threads call the makers at once, and a maker may block for long. Its references outlive the
// servables.

struct FolderMakers {
  // Makes a version's servable and waits until it can serve; StartModel() in the server. Blocks on user code.
  // `progress` is valid during the call.
  using ModelMaker = std::function<Result<std::shared_ptr<Servable>>(
      ServableInfo info, std::unique_ptr<BackendModel> model,
      const std::function<void(const std::string&)>& progress)>;
  // Makes the servable of an ensemble, or reports its missing models; MakeEnsemble in the server. Loaded
  // models are in the catalog by then. `why_missing` returns the end of the sentence "ensemble 'e' depends on
  // 'm'" for a model without a loaded version.
  using EnsembleMaker = std::function<Result<std::shared_ptr<Servable>>(
      ServableInfo info, const std::function<std::string(const std::string& model)>& why_missing)>;

  std::vector<Backend*> backends;
  ModelMaker make_model;
  EnsembleMaker make_ensemble;
};

struct ConfigMakers {
  // See OpenVinoBackend::Load().
  std::function<Result<OpenVinoBackend::LoadedModel>(const OvmsModelConfig& config, int64_t version,
                                                     const std::string& version_path)>
      load_model;
  // Makes a version's servable and waits until it can serve; StartModel() in the server.
  std::function<Result<std::shared_ptr<Servable>>(ServableInfo info, std::unique_ptr<BackendModel> model)>
      make_servable;
  // See CustomNodeLibrary::Open().
  std::function<Result<std::shared_ptr<const CustomNodeLibrary>>(const OvmsCustomNodeLibrary& library)>
      open_library;
  // See MakePipeline().
  std::function<Result<std::shared_ptr<Servable>>(const OvmsPipelineConfig& config,
                                                  const CustomNodeLibraries& libraries)>
      make_pipeline;
  // Makes the servable of a graph and waits until it can serve. Calls `reads` with each file beside its
  // graph.pbtxt before it is read, even if the graph fails.
  std::function<Result<std::shared_ptr<Servable>>(const OvmsGraphConfig& config,
                                                  const std::function<void(const std::string& file)>& reads)>
      make_graph;
};

}  // namespace braid
