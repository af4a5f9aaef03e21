// WorkerProcess: one life of a worker: its process, its channel, and what became of it.
#pragma once

#include <sys/types.h>
#include <atomic>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "ipc/channel.h"
#include "ipc/messages.h"
#include "workers/worker_spawner.h"

namespace braid {

// What a worker is told about its model; the texts of LoadMessage.
struct WorkerFacts {
  std::string model_file;
  std::string module_name;
  std::string model_path;
  std::string version_path;
  std::string model_config_json;
  std::string model_name;
  std::string model_version;
  uint64_t arena_keep_bytes = 0;
  std::vector<LoadMessage::DevicePool> device_pools = {};
  uint64_t pinned_pool_bytes = 0;
  bool keeps_sequences = false;
  // How its processes are confined, of which the worker is told nothing.
  WorkerIsolation isolation = {};
};

struct WorkerSpec {
  std::string name;
  std::string kind;
  int32_t device_id = 0;
  bool passive = false;
};

// Belongs to one thread, apart from channel(), whose own rules hold, and Kill().
class WorkerProcess {
 public:
  // Starts the process; blocks until it exists. What fails because the warm interpreter was lost on the way
  // is tried once more, without it. The references outlive the worker.
  static Result<std::unique_ptr<WorkerProcess>> Start(const std::string& name,
                                                      const WorkerIsolation& isolation,
                                                      WorkerSpawner& spawner, ChildReaper& reaper,
                                                      Logger& log);
  // Kills what still runs.
  ~WorkerProcess();

  // Handles a message that is not part of the start, e.g. a log line. Errors: the worker broke the rules.
  using OtherMessage = std::function<Status(const std::vector<std::byte>&)>;
  // Asked now and then with the time that loading has taken; returns how long it may be until it is asked again.
  // An error gives up.
  using StillLoading = std::function<Result<int64_t>(int64_t elapsed_ns)>;

  // Waits for the worker's first message. Errors: it died, or took longer than `timeout_ns`.
  Status AwaitSignIn(int64_t timeout_ns, const OtherMessage& other);
  // What the worker says once its model is loaded.
  struct Answer {
    std::string completed_config;  // of kAutoComplete, if any
    bool has_readiness_hook = false;
    bool wants_sessions = false;
    bool saves_sequences = false;
  };

  // Has the model imported and, by `mode`, initialised or completed. Waits as long as user code needs.
  // Errors: those of user code with their texts; the worker died.
  Result<Answer> Load(LoadMode mode, const WorkerFacts& facts, const WorkerSpec& spec,
                      const OtherMessage& other, const StillLoading& still_loading);

  const std::shared_ptr<Channel>& channel() const { return channel_; }
  pid_t pid() const { return pid_; }
  bool dead() const;
  // Whether it was ended by SIGKILL from outside the server, and not for lack of memory. Known once it is
  // dead, before EnsureDead().
  bool killed_by_others() const;
  // Has it write the stacks of all its threads to its standard error, from where they go to the log; whatever it
  // runs, it does so at once. REQUIRES: it has signed in, or the signal for that would end it.
  void WriteStacks();
  // Sends SIGKILL to the worker and its group, if it lives.
  void Kill();
  // Kills the worker and waits until it is reaped.
  void EnsureDead();
  // "Stub process 'x' is not healthy.", how it ended (or, when `broken_rule` is not empty, for what it was
  // ended), and whether memory had run out; in the log also the last line that it wrote to stderr.
  struct Death {
    std::string logged;
    std::string told;  // to clients: without what the model has printed, unless errors are verbose
  };
  Death DescribeDeath(const std::string& broken_rule) const;

 private:
  // Shared with the reaper's callback, which may come when the worker's owner has gone.
  struct Fate {
    Mutex mutex;
    CondVar changed;
    std::atomic<bool> dead{false};                // set with the mutex held
    bool killed BRAID_GUARDED_BY(mutex) = false;  // by Kill(), while it lived
    ExitCause cause BRAID_GUARDED_BY(mutex);
  };
  bool OutOfMemory() const;
  // Logs the death of a worker that was never up; returns it for clients.
  Status Died(const std::string& broken_rule) const;
  WorkerProcess(std::string name, bool verbose_errors, ChildReaper& reaper, Logger& log);
  // Errors: as WorkerSpawner::Spawn().
  Status Spawn(WorkerSpawner& spawner, WorkerStart how, const WorkerIsolation& isolation);

  const std::string name_;
  const bool verbose_errors_;
  ChildReaper& reaper_;
  Logger& log_;
  const uint64_t oom_kills_before_;
  std::shared_ptr<Channel> channel_;  // shared with whoever holds memory of the worker
  std::shared_ptr<Fate> fate_;
  std::shared_ptr<WorkerOutput> output_;  // shared with the pump
  WorkerSpawner::Place place_;
  std::shared_ptr<const void> readable_;  // see WorkerSpawner::Worker
  pid_t pid_ = 0;
};

// Writes a line of user code's Logger to the server's log.
void WriteWorkerLog(Logger& log, const LogMessage& message);

}  // namespace braid
