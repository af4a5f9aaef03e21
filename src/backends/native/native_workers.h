// NativeWorkers: starts the server's native workers: processes that run native code (models of OpenVINO, custom nodes, the
// decoding of images) in the server's place.
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
    // The program that is a native worker, and its arguments; see RunNativeWorker().
    std::vector<std::string> program = {};
    std::vector<WorkerLimit> limits = {};
    SegmentBudget::Limits segments = {};
    // Workers of level strict or separate can read what the program needs and the files of their task, and write to
    // OpenVinoBackend::Options::cache_directory and to a folder of their own in `temporary_directory`.
    IsolationOptions isolation = {};
    std::shared_ptr<UserIds> user_ids =
        nullptr;  // shared with other backends that have workers; null: its own
    std::string temporary_directory = "/tmp";
    int64_t sign_in_timeout_ns = 30'000'000'000;
    Arena::Options arena = {};  // of what each worker is given; the worker keeps as much for what it gives
    // For how long a call of a NativeFunction waits for a worker that has died.
    int64_t outage_wait_ns = 10'000'000'000;
    // Outlives this. There is nothing that workers may ask for but the texts of errors.
    const WorkerServices* services = nullptr;
    // Called when the first worker is started. Any thread.
    std::function<Result<std::shared_ptr<WorkerSupport>>()> support = {};
  };

  // Outlives the workers and all buffers of theirs.
  explicit NativeWorkers(Options options);
  ~NativeWorkers();

  const Options& options() const { return options_; }

  // Has a worker do a task after which it ends; blocks. Errors: that of the task; the worker could not be started, or died.
  Result<NativeAnswer> Do(const std::string& name, const NativeTask& task);
  // A worker that is still to be loaded. `files`: what is kept as long as the model is.
  Result<std::unique_ptr<NativeModel>> MakeModel(const std::string& name, const NativeTask& task,
                                                 std::shared_ptr<const void> files);

 private:
  // Both are made when the first is needed, and constant then.
  struct Shared {
    std::shared_ptr<WorkerSupport> support;
    std::unique_ptr<WorkerSpawner> spawner;
  };
  Result<Shared*> Get();
  // What the worker of a task is to be told at its start. Errors: those of IsolationOf().
  Result<WorkerFacts> Facts(const std::string& name, const NativeTask& task) const;

  const Options options_;
  Mutex mutex_;
  Shared shared_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
