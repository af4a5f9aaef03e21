// PythonBackend: runs TritonPythonModel files in worker processes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/python/environment_store.h"
#include "backends/python/model_bounds.h"
#include "backends/python/python_files.h"
#include "backends/python/python_nodes.h"
#include "base/log.h"
#include "ipc/arena.h"
#include "isolation/isolation_options.h"
#include "isolation/user_ids.h"
#include "isolation/worker_isolation.h"
#include "workers/memory_limits.h"
#include "workers/worker_services.h"
#include "workers/worker_spawner.h"
#include "workers/worker_support.h"

namespace braid {

class PythonBackend final : public PythonFiles {
 public:
  struct Options {
    std::string python = {};            // path of the interpreter of models without an environment
    std::string worker_directory = {};  // folder of braid_worker/ and the extension
    WorkerStart worker_start = WorkerStart::kFork;
    std::vector<WorkerLimit> worker_limits = {};
    IsolationOptions isolation = {};
    SegmentBudget::Limits worker_segments = {};  // memory that each worker may have the server map
    int64_t stub_timeout_seconds = 30;           // from the start of a worker to its first message
    // The model or graph that a debugger can attach to (--debug-model); empty: none.
    struct Debugging {
      std::string model = {};
      int port = 5678;
      bool wait = false;  // before the model's import
    };
    Debugging debugging = {};
    ModelBounds bounds = {};  // defaults for models, and the bounds of Python nodes
    // The most idle shared memory that a model, and each of its workers, keeps after a burst.
    uint64_t memory_keep_bytes = uint64_t{64} << 20;
    // The most memory for a model's inputs in flight; 0: no limit.
    uint64_t memory_max_bytes = 0;
    // The GPUs for models; `check_gpu` is called before a model gets an instance on one; null: no check.
    GpuPlacement gpus = {};
    // The most idle GPU memory that each process of a model keeps, by GPU; 64 MiB for GPUs that are not
    // listed.
    std::map<int, uint64_t> cuda_pool_bytes = {};
    // The most pinned memory for copies from and to GPUs, in the server and in each process of a model.
    uint64_t pinned_pool_bytes = uint64_t{256} << 20;
    std::function<Status(const std::string& model, int gpu)> check_gpu = nullptr;
    // Whether the server stores sequences outside the models, and so asks models for their own state of a
    // sequence.
    bool keep_sequences = false;
    // The server's own program, which unpacks environments in other processes; empty: the server unpacks them
    // itself.
    std::string program = {};
    // The folder for unpacked environments, and the size limit of each.
    std::string temporary_directory = "/tmp";
    uint64_t environment_max_bytes = uint64_t{64} << 30;
    // Copies environments in object stores; outlives the backend. Null: they are errors.
    ObjectStorage* storage = nullptr;
    // Outlives the backend.
    const WorkerServices* services = nullptr;
    // Shared with other backends that have workers; null: the backend makes its own.
    std::shared_ptr<WorkerSupport> support = nullptr;
    // The user ids for workers of level separate; shared likewise.
    std::shared_ptr<UserIds> user_ids = nullptr;
  };

  // `log` outlives the backend; the backend outlives its models and all their buffers.
  static Result<std::unique_ptr<PythonBackend>> Create(Options options, Logger& log);
  ~PythonBackend() override;

  GpuPlacement Gpus(const inference::ModelConfig&) override { return options_.gpus; }
  // Unpacks the model's environment, if not done yet. Errors: INTERNAL, also if model_file is missing.
  Status Prepare(const inference::ModelConfig& config, ModelLocation& location,
                 const std::function<void(const std::string&)>& progress) override;
  void BeginShutdown() override { environments_.BeginShutdown(); }
  Status AutoComplete(const ModelLocation& location, inference::ModelConfig& config) override;
  Result<std::unique_ptr<BackendModel>> Create(const ModelLocation& location,
                                               std::shared_ptr<const inference::ModelConfig> config) override;

  // Starts a worker in the server's environment for the Python nodes of a graph. Blocks until it has loaded
  // all nodes, however long user code takes. Errors: the reason of the failure, as a text for users.
  // REQUIRES: the caller stops the nodes with Stop() before it releases them.
  Result<std::unique_ptr<PythonNodes>> StartNodes(const std::string& graph_name,
                                                  std::vector<PythonNodeSpec> nodes);

 private:
  PythonBackend(Options options, Logger& log);
  WorkerSpawner::Options SpawnerOptions() const;
  // Returns the isolation of a model's processes. Errors: INVALID_ARGUMENT for a bad parameter
  // WORKER_ISOLATION.
  Result<WorkerIsolation> Isolation(const ModelLocation& location,
                                    const inference::ModelConfig& config) const;
  // Returns where a debugger attaches, if `model` is debugged, and frees it from limits and isolation. See
  // LoadMessage::debugger.
  std::string Debug(const std::string& model, ModelBounds& bounds, WorkerIsolation& isolation) const;
  Arena::Options ArenaOptions() const;

  const Options options_;
  Logger& log_;
  const std::shared_ptr<UserIds> user_ids_;  // shared with the workers that have these user ids
  // Ordered by dependency: later members use earlier ones.
  MemoryLimits memory_limits_;
  const std::shared_ptr<PythonEnvironment> default_environment_;  // shared with the models in it
  EnvironmentStore environments_;
};

}  // namespace braid
