// ReplaceableInstance: an instance of a Python model as the scheduler knows it. Its process can be replaced by a fresh
// one while the model serves, which happens when the process takes more memory than it may.
//
// A replacement loses no request and makes none wait for a model to be initialised:
//
//   the process goes on ------------------------> holds what is handed over next until
//     while a fresh one is started                 it has returned from all it has      -> the fresh one goes on
//
// What the old process has still to answer after that (a decoupled model's requests) it may answer; then it is
// finalized. Each of these waits has a bound. Sequences live in a process: the replacement waits for a moment at
// which none is open, and after a bound ends those which are, as the death of the process would.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/python/python_instance.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "serving/worker_counters.h"
#include "workers/memory_limits.h"

namespace braid {

class ReplaceableInstance final : public PythonModelInstance {
 public:
  // Makes a worker, which is not started yet, for this instance.
  using MakeInstance = std::function<std::unique_ptr<PythonInstance>(PythonInstance::Owner owner)>;
  struct Options {
    std::string model;  // for the log
    std::string name;
    bool passive = false;
    uint64_t memory_max_bytes = 0;  // of its process
  };

  // `counters` may be null. The references outlive the instance.
  ReplaceableInstance(Options options, MakeInstance make, MemoryLimits& limits, Logger& log,
                      std::shared_ptr<WorkerCounters::Row> counters);
  ~ReplaceableInstance() override;

  void Start(ExecutionListener& listener, std::function<void(Status)> on_started,
             std::function<void()> on_idle) override;
  void BeginStop(int64_t deadline_ns) override;
  void Join() override;
  std::optional<std::string> NotReadyReason() const override { return Current()->instance->NotReadyReason(); }
  void CheckReadiness(std::function<void(Readiness)> done) override {
    Current()->instance->CheckReadiness(std::move(done));
  }
  std::string Progress() const override { return Current()->instance->Progress(); }
  bool saves_sequences() const override { return Current()->instance->saves_sequences(); }
  void RetireSegment(uint32_t segment) override;

  const std::string& name() const override { return options_.name; }
  bool passive() const override { return options_.passive; }
  bool makes_calls() const override { return Current()->instance->makes_calls(); }
  void Execute(std::unique_ptr<Execution> execution) override;
  InstanceReport report() const override;

 private:
  struct Worker {
    std::unique_ptr<PythonInstance> instance;  // constant
    bool available = false;                    // guarded by the owner's mutex
  };
  using WorkerPtr = std::shared_ptr<Worker>;  // shared with the calls into it that are under way

  WorkerPtr MakeWorker();
  void OnAvailability(Worker& worker, bool available);
  WorkerPtr Current() const;
  // The process takes too much. On the thread of the limits.
  void OnExcess(uint64_t bytes);

  // The thread of one replacement ("brd-replace").
  void Replace(uint64_t bytes);
  WorkerPtr StartFresh();
  // Holds executions back until the worker has returned from all that it has. False: it has not until then, has
  // died, or the instance is to stop.
  bool Hold(Worker& worker, int64_t deadline_ns);
  // Passes on what was held back, and holds no more.
  void LetGo();
  // The fresh worker takes over. REQUIRES: executions are held back. False when it is too late for that.
  bool TakeOver(const WorkerPtr& old, const WorkerPtr& fresh, size_t sequences);
  // Ends a worker that the scheduler does not know; with `bounded` once all that it has is answered, within a time.
  void Retire(const WorkerPtr& worker, bool bounded);
  void Forget(const WorkerPtr& worker);
  // Waits for a change, or the time; false when the instance is to stop.
  bool WaitLocked(int64_t until_ns) BRAID_REQUIRES(mutex_);

  const Options options_;
  const MakeInstance make_;
  MemoryLimits& limits_;
  Logger& log_;
  const std::shared_ptr<WorkerCounters::Row> counters_;  // shared with who reads them
  ExecutionListener* listener_ = nullptr;                // constant after Start()
  std::function<void()> on_idle_;                        // constant after Start()
  std::unique_ptr<MemoryLimits::Watched> watched_;       // by Start() and BeginStop() alone

  // Not held while a worker or the listener is called.
  mutable Mutex mutex_;
  CondVar changed_;
  WorkerPtr current_ BRAID_GUARDED_BY(mutex_);
  std::vector<WorkerPtr> others_ BRAID_GUARDED_BY(mutex_);  // that start, or that end
  int entering_ BRAID_GUARDED_BY(mutex_) = 0;               // calls of Execute() that are under way
  bool holding_ BRAID_GUARDED_BY(mutex_) = false;
  std::deque<std::unique_ptr<Execution>> held_ BRAID_GUARDED_BY(mutex_);
  bool replacing_ BRAID_GUARDED_BY(mutex_) = false;
  int64_t next_try_ns_ BRAID_GUARDED_BY(mutex_) = 0;
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  int64_t stop_deadline_ns_ BRAID_GUARDED_BY(mutex_) = 0;
  // Of the workers that have gone.
  uint64_t executions_before_ BRAID_GUARDED_BY(mutex_) = 0;
  uint64_t restarts_before_ BRAID_GUARDED_BY(mutex_) = 0;
  std::thread thread_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
