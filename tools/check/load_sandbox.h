// LoadSandbox: the parts of a server that a load needs, without those that serve.
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
#include "base/status.h"
#include "base/warning_log.h"
#include "check/import.h"
#include "repository/manager_options.h"
#include "scheduling/backend.h"
#include "scheduling/call_graph.h"
#include "scheduling/timer_service.h"
#include "server/makers.h"
#include "server/options.h"
#include "serving/catalog.h"
#include "serving/gpu_placement.h"

namespace braid::check {

// Not for use by two threads at once.
class LoadSandbox {
 public:
  // `options` are those of a `braid serve` for the same files. Errors: a library that they name cannot be used.
  static Result<std::unique_ptr<LoadSandbox>> Create(const ServerOptions& options,
                                                     const ImportOptions& import);
  ~LoadSandbox();

  const ServerOptions& options() const { return options_; }
  Logger& log() { return log_; }
  // The warnings of the server's own code since the last call: what would stand in its log.
  std::vector<std::string> TakeWarnings() { return warnings_->Take(); }
  // What has been found good.
  Catalog& catalog() { return catalog_; }
  bool imports() const { return import_.enabled; }

  // Where the backends would place a model.
  std::vector<GpuPlacement> PlacementsOf(const inference::ModelConfig& config);

  // What the server makes servables with, of model folders and of entries of a config.json.
  FolderMakers folder_makers();
  Makers& makers() { return makers_; }

  // What the last load knows of its fault beside the text: the field of the configuration, empty for none, and the place
  // in Python code.
  struct FaultLocation {
    std::string field;
    std::optional<CodePlace> code;
  };
  FaultLocation TakeFaultLocation();

  // Whether the tensors of a servable are not known, since code says which they are that was not run.
  bool IsOpen(const std::string& name) const { return open_.contains(name); }
  // The names of a load that is being tried are kept here, by the makers alone.
  void NoteOpen(const std::string& name) { open_.insert(name); }

 private:
  class PythonModels;
  LoadSandbox(const ServerOptions& options, const ImportOptions& import, std::unique_ptr<WarningLog> log);

  Makers::Steps Steps();
  Result<std::shared_ptr<Servable>> MakeModel(ServableInfo info);
  Result<std::shared_ptr<Servable>> MakeTriedEnsemble(ServableInfo info, const WhyMissing& why_missing);
  Result<std::unique_ptr<PythonNodes>> ImportNodes(const std::vector<PythonNodeSpec>& nodes);
  Status CheckLatency(const ServableInfo& info);

  const ServerOptions options_;
  const ImportOptions import_;
  const std::unique_ptr<WarningLog> warnings_;
  Logger& log_;
  const GpuPlacement gpus_;  // of Python models, on this machine
  Catalog catalog_;
  TimerService timers_;
  CallGraph call_graph_;
  Makers makers_{options_, {catalog_, timers_, call_graph_}, Steps()};
  std::unique_ptr<OpenVinoBackend> openvino_;
  std::unique_ptr<PythonModels> python_;
  FaultLocation fault_location_;
  std::set<std::string> open_;
};

}  // namespace braid::check
