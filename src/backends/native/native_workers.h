// NativeWorkers: starts the server's native workers: processes that run native code in the server's place
// (OpenVINO models, custom nodes, image decoding).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/native/native_model.h"
#include "base/mutex.h"
#include "isolation/isolation_options.h"
#include "isolation/user_ids.h"
#include "workers/worker_services.h"
#include "workers/worker_support.h"

namespace braid {

class NativeWorkers {
 public:
  struct Options {
    // The native worker's program and arguments; see RunNativeWorker().
    std::vector<std::string> program = {};
    std::vector<WorkerLimit> limits = {};
    SegmentBudget::Limits segments = {};
    // Workers of level strict or separate can read only the program's dependencies and the files of their
    // task. They can write only to OpenVinoBackend::Options::cache_directory, and to a private folder in
    // `temporary_directory`.
    IsolationOptions isolation = {};
    std::shared_ptr<UserIds> user_ids =
        nullptr;  // shared with other backends that have workers; null: its own
    std::string temporary_directory = "/tmp";
    int64_t sign_in_timeout_ns = 30'000'000'000;
    Arena::Options arena = {};  // for memory lent to each worker; the worker keeps as much for its outputs
    // How long a call of a NativeFunction waits for a worker that has died.
    int64_t outage_wait_ns = 10'000'000'000;
    // Outlives this. Native workers use only its texts of errors.
    const WorkerServices* services = nullptr;
    // Called when the first worker is started. Any thread.
    std::function<Result<std::shared_ptr<WorkerSupport>>()> support = {};
  };

  // Outlives the workers and all of their buffers.
  explicit NativeWorkers(Options options);
  ~NativeWorkers();

  const Options& options() const { return options_; }

  // Runs a task in a worker that ends afterwards; blocks. Errors: those of the task; the worker could not be
  // started, or died.
  Result<NativeAnswer> Do(const std::string& name, const NativeTask& task);
  // Makes a model whose worker is not loaded yet. `files` are kept as long as the model.
  Result<std::unique_ptr<NativeModel>> MakeModel(const std::string& name, const NativeTask& task,
                                                 std::shared_ptr<const void> files);

 private:
  // Both are made on first use, and constant afterwards.
  struct Shared {
    std::shared_ptr<WorkerSupport> support;
    std::unique_ptr<WorkerSpawner> spawner;
  };
  Result<Shared*> Get();
  // Returns the start message for the worker of a task. Errors: those of IsolationOf().
  Result<WorkerFacts> Facts(const std::string& name, const NativeTask& task) const;

  const Options options_;
  Mutex mutex_;
  Shared shared_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
