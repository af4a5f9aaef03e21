// LoadSandbox: the parts of a server that loading needs, without ports and instances.
//
// It reads, compiles and checks models with the server's own code. It starts no instance and opens no port.
// It imports Python models only if requested (see ImportModel()).
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

// Not thread-safe.
class LoadSandbox {
 public:
  // `options` are those of a `braid serve` for the same files. Errors: a library that they name cannot be
  // used.
  static Result<std::unique_ptr<LoadSandbox>> Create(const ServerOptions& options,
                                                     const ImportOptions& import);
  ~LoadSandbox();

  const ServerOptions& options() const { return options_; }
  Logger& log() { return log_; }
  // Returns the warnings that the server's code has logged since the last call.
  std::vector<std::string> TakeWarnings() { return warnings_->Take(); }
  // The servables that passed their checks.
  Catalog& catalog() { return catalog_; }
  bool imports() const { return import_.enabled; }

  // Where each backend would place a model.
  std::vector<GpuPlacement> PlacementsOf(const inference::ModelConfig& config);

  // The server's makers, for model folders and for entries of a config.json.
  FolderMakers folder_makers();
  Makers& makers() { return makers_; }

  // The location of the last load's fault: the field of the configuration (empty: unknown) and the line of
  // Python code.
  struct FaultLocation {
    std::string field;
    std::optional<CodePlace> code;
  };
  FaultLocation TakeFaultLocation();

  // Whether the tensors of a servable are unknown, because they depend on code that was not run.
  bool IsOpen(const std::string& name) const { return open_.contains(name); }
  // Marks a servable as open. Only the makers call it, during a load.
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
