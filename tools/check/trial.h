// Trial: the parts of a server that a load needs, without those that serve.
//
// Models are read, compiled and checked by the code that the server loads them with; no instance of one is started, and
// no port is opened. Python models are imported only where that is asked for (see ModelImport).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/openvino/openvino_backend.h"
#include "base/elastic_threads.h"
#include "base/status.h"
#include "base/warning_log.h"
#include "check/import.h"
#include "graph/registry.h"
#include "mediapipe_graph/graph_servable.h"
#include "pipeline/custom_node_threads.h"
#include "pipeline/dag_servable.h"
#include "pipeline/pipeline.h"
#include "repository/manager_options.h"
#include "scheduling/backend.h"
#include "scheduling/call_graph.h"
#include "scheduling/timer_service.h"
#include "server/options.h"
#include "serving/catalog.h"
#include "serving/gpu_placement.h"

namespace braid::check {

// Not for use by two threads at once.
class Trial {
 public:
  // `options` are those of a `braid serve` for the same files. Errors: a library that they name cannot be used.
  static Result<std::unique_ptr<Trial>> Create(const ServerOptions& options, const ImportOptions& import);
  ~Trial();

  const ServerOptions& options() const { return options_; }
  Logger& log() { return log_; }
  // The warnings of the server's own code since the last call: what would stand in its log.
  std::vector<std::string> TakeWarnings() { return warnings_->Take(); }
  // What has been found good.
  Catalog& catalog() { return catalog_; }
  const graph::CalculatorRegistry& calculators() const { return *calculators_; }
  bool imports() const { return import_.enabled; }

  // Where the backends would place a model.
  std::vector<GpuPlacement> PlacementsOf(const inference::ModelConfig& config);

  // What the server loads model folders and entries of a config.json with.
  FolderMakers folder_makers();
  ConfigMakers config_makers();

  // ConfigMakers::make_pipeline, which tells the faults one by one.
  Result<std::shared_ptr<Servable>> TryPipeline(const OvmsPipelineConfig& config,
                                                const CustomNodeLibraries& libraries,
                                                std::vector<PipelineFault>& faults);

  // What the last load knows of its fault beside the text: the field of the configuration, empty for none, and the place
  // in Python code.
  struct Blame {
    std::string field;
    std::optional<CodePlace> code;
  };
  Blame TakeBlame();

  // Whether the tensors of a servable are not known, since code says which they are that was not run.
  bool IsOpen(const std::string& name) const { return open_.contains(name); }
  // The names of a load that is being tried are kept here, by the makers alone.
  void NoteOpen(const std::string& name) { open_.insert(name); }

 private:
  class PythonFiles;
  Trial(const ServerOptions& options, const ImportOptions& import, std::unique_ptr<WarningLog> log);

  Result<std::shared_ptr<Servable>> MakeModel(ServableInfo info);
  Result<std::shared_ptr<Servable>> MakeTriedEnsemble(
      ServableInfo info, const std::function<std::string(const std::string& model)>& why_missing);
  Result<std::shared_ptr<Servable>> MakeTriedGraph(const OvmsGraphConfig& config,
                                                   std::vector<std::string>& files);

  const ServerOptions options_;
  const ImportOptions import_;
  const std::unique_ptr<WarningLog> warnings_;
  Logger& log_;
  const GpuPlacement gpus_;  // of Python models, on this machine
  Catalog catalog_;
  TimerService timers_;
  CallGraph call_graph_;
  const DagDeps dag_deps_{catalog_, timers_, call_graph_};
  CustomNodeThreads custom_node_threads_;
  ElasticThreads graph_threads_{{.name = "brd-graph", .most = 1}};
  std::shared_ptr<const graph::CalculatorRegistry> calculators_;  // shared with the graphs
  std::unique_ptr<OpenVinoBackend> openvino_;
  std::unique_ptr<PythonFiles> python_;
  Blame blame_;
  std::set<std::string> open_;
};

}  // namespace braid::check
