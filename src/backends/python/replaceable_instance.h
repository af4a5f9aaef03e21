// ReplaceableInstance: an instance of a Python model whose process can be replaced while the model serves. A
// process is replaced when it exceeds its memory limit.
//
// A replacement loses no request, and no request waits for the model's initialisation:
//
//   the old process runs -------------------> new executions are held until it has
//     while the fresh process is started      returned from all that it has         -> the fresh one takes over
//
// After that the old process may still send responses (a decoupled model's); then it is finalized. Each of
// these waits has a time limit. Sequences live in a process, so the replacement waits until none is open.
// After the limit it ends the open ones, as the death of the process would.
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
  // Makes an unstarted worker for this instance.
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
  using WorkerPtr = std::shared_ptr<Worker>;  // shared with the calls in progress into it

  WorkerPtr MakeWorker();
  void OnAvailability(Worker& worker, bool available);
  WorkerPtr Current() const;
  // The process exceeds its memory limit. Called on the thread of the limits.
  void OnExcess(uint64_t bytes);

  // Runs on the thread of one replacement ("brd-replace").
  void Replace(uint64_t bytes);
  WorkerPtr StartFresh();
  // Holds new executions back until the worker has returned from all it has. Returns false if it has not by
  // then, if it has died, or if the instance stops.
  bool Hold(Worker& worker, int64_t deadline_ns);
  // Passes held executions on, and ends the holding.
  void LetGo();
  // Makes the fresh worker the current one. Returns false if it is too late for that. REQUIRES: executions
  // are held back.
  bool TakeOver(const WorkerPtr& old, const WorkerPtr& fresh, size_t sequences);
  // Ends a worker that is not the current one. If `bounded`, first waits, with a limit, until it has answered
  // all its requests.
  void Retire(const WorkerPtr& worker, bool bounded);
  void Forget(const WorkerPtr& worker);
  // Waits for a change or until `until_ns`; returns false when the instance stops.
  bool WaitLocked(int64_t until_ns) BRAID_REQUIRES(mutex_);

  const Options options_;
  const MakeInstance make_;
  MemoryLimits& limits_;
  Logger& log_;
  const std::shared_ptr<WorkerCounters::Row> counters_;  // shared with the readers of the metrics
  ExecutionListener* listener_ = nullptr;                // constant after Start()
  std::function<void()> on_idle_;                        // constant after Start()
  std::unique_ptr<MemoryLimits::Watched> watched_;       // used by Start() and BeginStop() only

  // Not held during calls into a worker or the listener.
  mutable Mutex mutex_;
  CondVar changed_;
  WorkerPtr current_ BRAID_GUARDED_BY(mutex_);
  std::vector<WorkerPtr> others_ BRAID_GUARDED_BY(mutex_);  // workers that start or end
  int entering_ BRAID_GUARDED_BY(mutex_) = 0;               // calls of Execute() in progress
  bool holding_ BRAID_GUARDED_BY(mutex_) = false;
  std::deque<std::unique_ptr<Execution>> held_ BRAID_GUARDED_BY(mutex_);
  bool replacing_ BRAID_GUARDED_BY(mutex_) = false;
  int64_t next_try_ns_ BRAID_GUARDED_BY(mutex_) = 0;
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  int64_t stop_deadline_ns_ BRAID_GUARDED_BY(mutex_) = 0;
  // Sums of the workers that were replaced.
  uint64_t executions_before_ BRAID_GUARDED_BY(mutex_) = 0;
  uint64_t restarts_before_ BRAID_GUARDED_BY(mutex_) = 0;
  std::thread thread_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
