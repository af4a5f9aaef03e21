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
    std::string python = {};            // path of the interpreter that runs models without their own
    std::string worker_directory = {};  // where braid_worker/ and the extension are
    WorkerStart worker_start = WorkerStart::kFork;
    std::vector<WorkerLimit> worker_limits = {};
    IsolationOptions isolation = {};
    SegmentBudget::Limits worker_segments = {};  // what each worker may have the server map
    int64_t stub_timeout_seconds = 30;           // from the start of a worker to its first message
    ModelBounds bounds = {};                     // of models that do not name their own, and of Python nodes
    // Idle shared memory that a model keeps, and each of its workers, after a burst.
    uint64_t memory_keep_bytes = uint64_t{64} << 20;
    // Of a model's inputs in flight; 0: no limit.
    uint64_t memory_max_bytes = 0;
    // Where models are placed; and what is asked before one gets an instance there. Null: nothing.
    GpuPlacement gpus = {};
    // What each process of a model may keep of its memory on a GPU when it is idle; 64 MiB of those that are not named.
    std::map<int, uint64_t> cuda_pool_bytes = {};
    // What the server, and each process of a model, may pin of the memory that it copies from and to GPUs.
    uint64_t pinned_pool_bytes = uint64_t{256} << 20;
    std::function<Status(const std::string& model, int gpu)> check_gpu = nullptr;
    // Whether the sequences of models are kept beside the models, so that what a model has of its own is asked for.
    bool keep_sequences = false;
    // The server's own program, which unpacks environments in processes of its own; empty: the server does.
    std::string program = {};
    // Where environments are unpacked, and what one may have.
    std::string temporary_directory = "/tmp";
    uint64_t environment_max_bytes = uint64_t{64} << 30;
    // Outlives the backend.
    const WorkerServices* services = nullptr;
    // Shared with other backends that have workers; null: it makes its own.
    std::shared_ptr<WorkerSupport> support = nullptr;
    // Likewise the users that workers of level separate are.
    std::shared_ptr<UserIds> user_ids = nullptr;
  };

  // `log` outlives the backend; the backend outlives its models and all their buffers.
  static Result<std::unique_ptr<PythonBackend>> Create(Options options, Logger& log);
  ~PythonBackend() override;

  GpuPlacement Gpus(const inference::ModelConfig&) override { return options_.gpus; }
  // Unpacks the model's environment, unless that is done. Errors: INTERNAL too when there is no model_file.
  Status Prepare(const inference::ModelConfig& config, ModelLocation& location,
                 const std::function<void(const std::string&)>& progress) override;
  void BeginShutdown() override { environments_.BeginShutdown(); }
  Status AutoComplete(const ModelLocation& location, inference::ModelConfig& config) override;
  Result<std::unique_ptr<BackendModel>> Create(const ModelLocation& location,
                                               std::shared_ptr<const inference::ModelConfig> config) override;

  // Starts a worker in the server's environment for the Python nodes of a graph; blocks until it has loaded
  // them all, as long as user code needs. Stop() is to be called before the last share goes. Errors: what
  // kept it from that, for users.
  Result<std::unique_ptr<PythonNodes>> StartNodes(const std::string& graph_name,
                                                  std::vector<PythonNodeSpec> nodes);

 private:
  PythonBackend(Options options, Logger& log);
  WorkerSpawner::Options SpawnerOptions() const;
  // Of a model's processes. Errors: INVALID_ARGUMENT: parameter WORKER_ISOLATION.
  Result<WorkerIsolation> Isolation(const ModelLocation& location,
                                    const inference::ModelConfig& config) const;
  Arena::Options ArenaOptions() const;

  const Options options_;
  Logger& log_;
  const std::shared_ptr<UserIds> user_ids_;  // shared with the workers that are such users
  // In the order in which they depend on one another.
  MemoryLimits memory_limits_;
  const std::shared_ptr<PythonEnvironment> default_environment_;  // shared with the models in it
  EnvironmentStore environments_;
};

}  // namespace braid
