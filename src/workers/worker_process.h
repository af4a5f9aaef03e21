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
  // is tried once more, without it. `spawner` and its support outlive the worker.
  static Result<std::unique_ptr<WorkerProcess>> Start(const std::string& name,
                                                      const WorkerIsolation& isolation,
                                                      WorkerSpawner& spawner);
  // Kills what still runs.
  ~WorkerProcess();

  // Handles a message that is not part of the start, e.g. a log line. Errors: the worker broke the rules.
  using OtherMessage = std::function<Status(const std::vector<std::byte>&)>;

  // Waits for the worker's first message. Errors: it died, or took longer than WorkerSpawner::timeout_ns().
  Status AwaitSignIn(const OtherMessage& other);
  // What the worker says once its model is loaded.
  struct Answer {
    std::string completed_config;  // of kAutoComplete, if any
    bool has_readiness_hook = false;
    bool wants_sessions = false;
    bool saves_sequences = false;
  };

  // How long user code may take to load, and how that is told: "{who} has been {doing} for 10 s", "{who} has not
  // {done} within 500 ms".
  struct LoadWatch {
    std::string who;
    std::string_view doing;
    std::string_view done;
    int64_t timeout_ns = 0;  // 0: as long as it needs
    // Called at least once a second, with a text every ten seconds. An error gives up.
    std::function<Status(const std::string& progress)> look;
  };
  // Has the model imported and, by `mode`, initialised or completed. When the time is up its stacks are logged.
  // Errors: those of user code with their texts; the worker died; UNAVAILABLE: the time was up.
  Result<Answer> Load(LoadMode mode, const WorkerFacts& facts, const WorkerSpec& spec,
                      const OtherMessage& other, const LoadWatch& watch);

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
  WorkerProcess(std::string name, WorkerSpawner& spawner);
  // Errors: as WorkerSpawner::Spawn().
  Status Spawn(WorkerStart how, const WorkerIsolation& isolation);

  const std::string name_;
  WorkerSpawner& spawner_;
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

}  // namespace braid
