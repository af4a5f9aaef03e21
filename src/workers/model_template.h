// ModelTemplate: a process in which a Python model has been initialised once. Instances are forked from it and
// share its memory until they write to it (--share-instances). It executes nothing.
//
// A template that dies is started again, with another initialize(), by the next instance that needs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "ipc/arena.h"
#include "workers/fork_server.h"
#include "workers/worker_conversation.h"
#include "workers/worker_process.h"
#include "workers/worker_services.h"

namespace braid {

class ModelTemplate final : public ForkSource {
 public:
  // `spec` is the instance whose arguments initialize() gets. All references outlive the template.
  ModelTemplate(WorkerSpec spec, const WorkerFacts& facts, const WorkerServices& services,
                WorkerSpawner& spawner, Arena& arena, int64_t initialize_timeout_ns);
  // Ends the process. REQUIRES: no instance starts any more.
  ~ModelTemplate();

  // Starts the process; blocks until the model is initialised. `progress` is called from time to time.
  // Errors: those of user code; UNSUPPORTED with the reasons why the process cannot be forked. active() is
  // false after an error.
  Status Start(const std::function<void(const std::string&)>& progress);
  // A start in progress ends at `deadline_ns` at the latest. Any thread.
  void BeginStop(int64_t deadline_ns) { deadline_ns_ = deadline_ns; }

  bool active() const override { return active_; }
  // 0: there is no process now. Any thread.
  pid_t pid() const { return pid_; }
  Status Use(const std::function<Status(const ForkServer&)>& fork) override;

 private:
  Status StartProcess(const std::function<void(const std::string&)>& progress) BRAID_REQUIRES(mutex_);
  // Initialises the model in a new process.
  Status Load(const std::function<void(const std::string&)>& progress) BRAID_REQUIRES(mutex_);
  void EndProcess() BRAID_REQUIRES(mutex_);

  const WorkerSpec spec_;
  const WorkerFacts& facts_;
  const WorkerServices& services_;
  WorkerSpawner& spawner_;
  Arena& arena_;
  Logger& log_;
  const int64_t initialize_timeout_ns_;
  const std::shared_ptr<const CallChain> chain_;  // shared with calls of initialize()

  std::atomic<bool> active_{false};
  std::atomic<pid_t> pid_{0};
  std::atomic<int64_t> deadline_ns_{INT64_MAX};
  std::atomic<bool> ending_{false};

  Mutex mutex_;  // held while the process starts, and while it forks: it takes one order at a time
  ForkServer server_ BRAID_GUARDED_BY(mutex_);
  std::unique_ptr<WorkerProcess> process_ BRAID_GUARDED_BY(mutex_);
  // Kept after initialize(): the model may hold tensors of its calls.
  std::unique_ptr<WorkerConversation> conversation_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
