// What a Manager is made with.
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

namespace braid {

enum class ControlMode : unsigned char { kNone, kPoll, kExplicit };

struct FolderOptions {
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
  // How often a failed load of a version is tried again at once.
  int load_retry_count = 0;
  // Where the folders of backends are that another backend hosts (Backend::HostedFile()).
  std::string backend_directory = "/opt/tritonserver/backends";
  // Where the files of load requests are kept; each in a private folder that goes when nobody needs it.
  std::string temporary_directory = "/tmp";
};

struct ConfigOptions {
  // The path of a config.json, or, when empty, one model.
  std::string config_path;
  std::optional<OvmsModelConfig> single_model;
  // How often the file and the version folders are looked at; 0: only on demand.
  int poll_seconds = 1;
  // How long the answer to a reload waits for the requests of what it retires.
  int64_t retire_wait_ns = int64_t{30} * 1'000'000'000;
  // Whether the files of graphs are looked at then, too; else they are at reloads alone.
  bool watch_graph_files = false;
};

struct ManagerOptions {
  // The sources; either may be missing.
  std::optional<FolderOptions> folders = {};
  std::optional<ConfigOptions> config = {};
  // How long the instances of what is unloaded may take to finalize.
  int exit_timeout_seconds = 30;
  // Of servables that are loaded at once, and of the versions of one model.
  int load_thread_count = 4;
  // Keeps the sequences of stateful models over restarts and reloads, and outlives the manager; null: they
  // end with their servable.
  SequenceVault* sequence_vault = nullptr;
};

// The makers are called by several threads at once, and may block for long. All that they refer to outlives
// what they make.

struct FolderMakers {
  // Makes the servable of a version and waits until it can serve; StartModel() in the server. Blocks
  // on user code. `progress` is valid during the call.
  using ModelMaker = std::function<Result<std::shared_ptr<Servable>>(
      ServableInfo info, std::unique_ptr<BackendModel> model,
      const std::function<void(const std::string&)>& progress)>;
  // Makes the servable of an ensemble, whose models are in the catalog by then, or says what it lacks;
  // MakeEnsemble in the server. `why_missing` gives the end of the sentence "ensemble 'e' depends on 'm'"
  // for a model without a loaded version.
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
  // Makes the servable of a version and waits until it can serve; StartModel() in the server.
  std::function<Result<std::shared_ptr<Servable>>(ServableInfo info, std::unique_ptr<BackendModel> model)>
      make_servable;
  // See CustomNodeLibrary::Open().
  std::function<Result<std::shared_ptr<const CustomNodeLibrary>>(const OvmsCustomNodeLibrary& library)>
      open_library;
  // See MakePipeline().
  std::function<Result<std::shared_ptr<Servable>>(const OvmsPipelineConfig& config,
                                                  const CustomNodeLibraries& libraries)>
      make_pipeline;
  // Makes the servable of a graph and waits until it can serve. `files` gets what it was made of beside its
  // graph.pbtxt, also when it fails.
  std::function<Result<std::shared_ptr<Servable>>(const OvmsGraphConfig& config,
                                                  std::vector<std::string>& files)>
      make_graph;
};

}  // namespace braid
