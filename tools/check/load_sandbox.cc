#include "check/load_sandbox.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "backends/python/environment.h"
#include "backends/python/model_bounds.h"
#include "backends/python/python_files.h"
#include "backends/python/python_nodes.h"
#include "base/clock.h"
#include "config/config_json.h"
#include "model_config.pb.h"
#include "pipeline/ensemble_dag.h"
#include "scheduling/batching_policy.h"
#include "sequences/sequence_policy.h"
#include "server/latency_options.h"
#include "server/part_options.h"

namespace braid::check {
namespace {

// A servable that passed its checks; nothing was started for it.
class TriedServable final : public Servable {
 public:
  explicit TriedServable(ServableInfo info) : Servable(std::move(info)) {}
  BufferAllocator& input_allocator() override { return heap_; }
  // Destroying the request ends it.
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override {}

 private:
  HeapAllocator heap_;
};

class UnstartedModel final : public BackendModel {
 public:
  BufferAllocator& input_allocator() override { return heap_; }
  std::vector<Instance*> instances() override { return {}; }
  Status Start(ExecutionListener&, const std::function<void(const std::string&)>&) override {
    return FailedPreconditionError("a checked model cannot be started");
  }
  void Stop(int64_t) override {}
  Readiness readiness() const override { return {}; }

 private:
  HeapAllocator heap_;
};

class UnstartedNodes final : public PythonNodes {
 public:
  uint64_t Execute(size_t, uint64_t, std::vector<NodeTensor>, std::shared_ptr<NodeCallListener>) override {
    return 0;
  }
  bool Resume(uint64_t) override { return false; }
  void Close(uint64_t) override {}
  uint64_t BeginSession(const Parameters&, std::shared_ptr<const CallChain>) override { return 0; }
  void EndSession(uint64_t) override {}
  Readiness readiness() const override { return {}; }
  BufferAllocator& allocator() override { return heap_; }
  void Stop(int64_t) override {}

 private:
  HeapAllocator heap_;
};

// Whether the model's file contains auto_complete_config, and so may complete its configuration.
bool CompletesConfig(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str().find("auto_complete_config") != std::string::npos;
}

}  // namespace

// The Python backend without processes: checks files, and imports them if requested.
class LoadSandbox::PythonModels final : public PythonFiles {
 public:
  explicit PythonModels(LoadSandbox& sandbox) : sandbox_(sandbox) {}
  GpuPlacement Gpus(const inference::ModelConfig&) override { return sandbox_.gpus_; }

  Status Prepare(const inference::ModelConfig& config, ModelLocation& location,
                 const std::function<void(const std::string&)>&) override {
    BRAID_RETURN_IF_ERROR(CheckFile(location));
    environment_ = EnvironmentPath(config, location.model_path);
    if (environment_.empty()) return OkStatus();
    sandbox_.fault_location_.field = "parameters[EXECUTION_ENV_PATH].value.string_value";
    struct stat info {};
    if (stat(environment_.c_str(), &info) != 0) {
      return ErrnoError("the Python environment '" + environment_ + "' (EXECUTION_ENV_PATH)", errno);
    }
    if (S_ISDIR(info.st_mode)) {
      BRAID_ASSIGN_OR_RETURN(const std::string program, FindInterpreter(environment_));
    } else if (!S_ISREG(info.st_mode)) {
      return InternalError("the Python environment '" + environment_ +
                           "' (EXECUTION_ENV_PATH) is neither a folder nor an archive");
    }
    sandbox_.fault_location_.field.clear();
    return OkStatus();
  }

  Status AutoComplete(const ModelLocation& location, inference::ModelConfig& config) override {
    if (!sandbox_.imports()) {
      const bool knows =
          !CompletesConfig(location.model_file) && !config.input().empty() && !config.output().empty();
      if (!knows) sandbox_.NoteOpen(config.name());
      return OkStatus();
    }
    BRAID_ASSIGN_OR_RETURN(const std::string completed, Import(config, location, ConfigToJson(config)));
    if (completed.empty()) return OkStatus();
    BRAID_ASSIGN_OR_RETURN(config, ConfigFromJson(completed));
    return OkStatus();
  }

  Result<std::unique_ptr<BackendModel>> Create(
      const ModelLocation& location, std::shared_ptr<const inference::ModelConfig> config) override {
    ModelBounds bounds;
    FieldFault fault = ReadBounds(*config, bounds);
    sandbox_.fault_location_.field = std::move(fault.field);
    BRAID_RETURN_IF_ERROR(std::move(fault.status));
    if (sandbox_.imports() && !sandbox_.options_.folders.auto_complete) {
      BRAID_ASSIGN_OR_RETURN(const std::string none, Import(*config, location, ""));
    }
    return std::unique_ptr<BackendModel>(std::make_unique<UnstartedModel>());
  }

 private:
  Result<std::string> Import(const inference::ModelConfig& config, const ModelLocation& location,
                             std::string config_json) const {
    const ServerOptions& options = sandbox_.options_;
    ImportRequest request;
    request.class_name = "TritonPythonModel";
    request.file = location.model_file;
    request.module_name = ModuleName(location);
    request.version_path = location.version_path;
    request.config_json = std::move(config_json);
    request.environment = environment_;
    request.keeps_sequences = (!options.sequence_state_path.empty() || !options.sequence_store.url.empty()) &&
                              config.has_sequence_batching() &&
                              !config.sequence_batching().iterative_sequence();
    request.decoupled = config.model_transaction_policy().decoupled();
    Imported imported = ImportModel(sandbox_.import_, request);
    if (imported.asks_server) sandbox_.NoteOpen(config.name());
    if (imported.status.ok()) return std::move(imported.completed_config);
    sandbox_.fault_location_.code = imported.place.value_or(CodePlace{location.model_file, 0});
    return imported.status;
  }

  LoadSandbox& sandbox_;
  std::string environment_;  // of the model that is being loaded
};

LoadSandbox::LoadSandbox(const ServerOptions& options, const ImportOptions& import,
                         std::unique_ptr<WarningLog> log)
    : options_(options),
      import_(import),
      warnings_(std::move(log)),
      log_(warnings_->logger()),
      gpus_(PlacementOf(FindGpus(options.min_supported_compute_capability).devices, options)),
      catalog_(options.folders.model_repositories.empty() ? Dialect::kOvms : Dialect::kTriton) {}

LoadSandbox::~LoadSandbox() {
  for (const auto& servable : catalog_.All()) {
    catalog_.RemoveModel(servable->info().name);
    servable->Stop(SteadyNowNs());
  }
}

Result<std::unique_ptr<LoadSandbox>> LoadSandbox::Create(const ServerOptions& options,
                                                         const ImportOptions& import) {
  BRAID_ASSIGN_OR_RETURN(auto log, WarningLog::Create());
  std::unique_ptr<LoadSandbox> sandbox(new LoadSandbox(options, import, std::move(log)));
  OpenVinoBackend::Options openvino;
  openvino.cpu_extension = options.cpu_extension;
  openvino.smaller_types = options.smaller_types;
  openvino.cpu_stands_in = sandbox->gpus_.cpu_stands_in;
  BRAID_ASSIGN_OR_RETURN(sandbox->openvino_, OpenVinoBackend::Create(openvino, sandbox->log_));
  sandbox->python_ = std::make_unique<PythonModels>(*sandbox);
  BRAID_RETURN_IF_ERROR(sandbox->makers_.OpenCalculators({}));
  return sandbox;
}

LoadSandbox::FaultLocation LoadSandbox::TakeFaultLocation() { return std::exchange(fault_location_, {}); }

std::vector<GpuPlacement> LoadSandbox::PlacementsOf(const inference::ModelConfig& config) {
  return {gpus_, openvino_->Gpus(config)};
}

Makers::Steps LoadSandbox::Steps() {
  return {.make_model =
              [this](ServableInfo info, const std::unique_ptr<BackendModel>&,
                     const std::function<void(const std::string&)>&) { return MakeModel(std::move(info)); },
          .load_model = [this](const OvmsModelConfig& entry, int64_t version,
                               const std::string& path) { return openvino_->Load(entry, version, path); },
          .open_library =
              [](const OvmsCustomNodeLibrary& library) {
                return CustomNodeLibrary::Open(library.name, library.base_path);
              },
          .start_nodes = [this](const std::string&,
                                const std::vector<PythonNodeSpec>& nodes) { return ImportNodes(nodes); },
          .configure = [this](const Servable& servable) { return CheckLatency(servable.info()); }};
}

FolderMakers LoadSandbox::folder_makers() {
  FolderMakers makers = makers_.ForFolders({python_.get(), openvino_.get()});
  makers.make_ensemble = [this](ServableInfo info, const WhyMissing& why_missing) {
    return MakeTriedEnsemble(std::move(info), why_missing);
  };
  return makers;
}

// Repeats the server's checks before the start of instances.
Result<std::shared_ptr<Servable>> LoadSandbox::MakeModel(ServableInfo info) {
  if (info.config != nullptr && info.config->has_sequence_batching()) {
    fault_location_.field = "sequence_batching";
    BRAID_ASSIGN_OR_RETURN(const SequencePolicy policy, SequencePolicyFromConfig(*info.config));
  } else if (info.config != nullptr) {
    fault_location_.field = "dynamic_batching";
    BRAID_ASSIGN_OR_RETURN(const BatchingPolicy policy, BatchingPolicyFromConfig(*info.config));
  }
  BRAID_RETURN_IF_ERROR(CheckLatency(info));
  return std::shared_ptr<Servable>(std::make_shared<TriedServable>(std::move(info)));
}

Status LoadSandbox::CheckLatency(const ServableInfo& info) {
  fault_location_.field = "model_metrics";
  BRAID_ASSIGN_OR_RETURN(const LatencyOptions latency, LatencyOptionsFor(info, options_, log_));
  fault_location_.field.clear();
  return OkStatus();
}

Result<std::shared_ptr<Servable>> LoadSandbox::MakeTriedEnsemble(ServableInfo info,
                                                                 const WhyMissing& why_missing) {
  const auto uses = UsesOfEnsemble(*info.config);
  if (std::ranges::none_of(uses, [this](const ServableUse& use) { return IsOpen(use.name); }))
    return makers_.Ensemble(std::move(info), why_missing, &fault_location_.field);
  NoteOpen(info.name);
  FieldFault fault = CheckEnsembleConfig(*info.config);
  fault_location_.field = std::move(fault.field);
  if (!fault.ok()) return fault.status;
  return std::shared_ptr<Servable>(std::make_shared<TriedServable>(std::move(info)));
}

Result<std::unique_ptr<PythonNodes>> LoadSandbox::ImportNodes(const std::vector<PythonNodeSpec>& nodes) {
  for (const PythonNodeSpec& node : nodes) {
    if (!imports()) continue;
    ImportRequest request;
    request.class_name = "OvmsPythonModel";
    request.file = node.handler_path;
    request.module_name = std::filesystem::path(node.handler_path).stem().string();
    Imported imported = ImportModel(import_, request);
    if (imported.status.ok()) continue;
    fault_location_.code = imported.place.value_or(CodePlace{node.handler_path, 0});
    return imported.status;
  }
  return std::unique_ptr<PythonNodes>(std::make_unique<UnstartedNodes>());
}

}  // namespace braid::check
