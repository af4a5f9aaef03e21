// WorkerProcess: one life of a worker: its process, its channel, and its end.
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

// Facts for the worker about its model; the texts of LoadMessage.
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
  std::string debugger = {};  // see LoadMessage
  // The confinement of its processes, which is not sent to the worker.
  WorkerIsolation isolation = {};
};

struct WorkerSpec {
  std::string name;
  std::string kind;
  int32_t device_id = 0;
  bool passive = false;
};

// Belongs to one thread, except channel(), which has its own rules, and Kill().
class WorkerProcess {
 public:
  // Starts the process; blocks until it exists. If the zygote is lost on the way, tries once more without it.
  // With `source`, it is forked from there only. `spawner` and its support outlive the worker.
  static Result<std::unique_ptr<WorkerProcess>> Start(const std::string& name,
                                                      const WorkerIsolation& isolation,
                                                      WorkerSpawner& spawner, ForkSource* source = nullptr);
  // Starts a template, the process at the other end of `fork_socket`. Errors: UNAVAILABLE: the zygote is
  // lost.
  static Result<std::unique_ptr<WorkerProcess>> StartTemplate(const std::string& name,
                                                              const WorkerIsolation& isolation,
                                                              WorkerSpawner& spawner,
                                                              const UniqueFd& fork_socket);
  // Kills a running process.
  ~WorkerProcess();

  // Handles a message that is not part of the start, e.g. a log line. Errors: the worker broke the rules.
  using OtherMessage = std::function<Status(const std::vector<std::byte>&)>;

  // Waits for the worker's first message. Errors: it died, or took longer than WorkerSpawner::timeout_ns().
  Status AwaitSignIn(const OtherMessage& other);
  // The worker's answer after it has loaded its model.
  struct Answer {
    std::string completed_config;  // of kAutoComplete, if any
    bool has_readiness_hook = false;
    bool wants_sessions = false;
    bool saves_sequences = false;
  };

  // The time limit for loading, and its texts: "{who} has been {doing} for 10 s", "{who} has not {done}
  // within 500 ms".
  struct LoadWatch {
    std::string who;
    std::string_view doing;
    std::string_view done;
    int64_t timeout_ns = 0;  // 0: no limit
    // Called at least once a second, with a text every ten seconds. An error ends the wait.
    std::function<Status(const std::string& progress)> look;
  };
  // Makes the worker import the model and, by `mode`, initialise or complete it. At the time limit, its
  // stacks are logged. Errors: those of user code with their texts; the worker died; UNAVAILABLE: the time
  // limit.
  Result<Answer> Load(LoadMode mode, const WorkerFacts& facts, const WorkerSpec& spec,
                      const OtherMessage& other, const LoadWatch& watch);

  const std::shared_ptr<Channel>& channel() const { return channel_; }
  pid_t pid() const { return pid_; }
  bool dead() const;
  // Whether it was ended by SIGKILL from outside the server, and not for lack of memory. Known after its
  // death, until EnsureDead().
  bool killed_by_others() const;
  // Makes the worker write the stacks of all threads to its standard error, and so to the log, at once, even
  // if user code is running. REQUIRES: it has signed in; before that the signal would end it.
  void WriteStacks();
  // Sends SIGKILL to the worker and its group, if it lives.
  void Kill();
  // Kills the worker and waits until it is reaped.
  void EnsureDead();
  // Describes the death: "Stub process 'x' is not healthy.", its cause (`broken_rule` if that is not empty),
  // and whether memory had run out. The log also gets the last line on stderr.
  struct Death {
    std::string logged;
    std::string told;  // for clients: without the model's output, unless errors are verbose
  };
  Death DescribeDeath(const std::string& broken_rule) const;

 private:
  // Shared with the reaper's callback, which may run after the worker's owner is gone.
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
  Status Spawn(const WorkerSpawner::Origin& origin, const WorkerIsolation& isolation);

  const std::string name_;
  WorkerSpawner& spawner_;
  ChildReaper& reaper_;
  Logger& log_;
  const uint64_t oom_kills_before_;
  std::shared_ptr<Channel> channel_;  // shared with holders of the worker's memory
  std::shared_ptr<Fate> fate_;
  std::shared_ptr<WorkerOutput> output_;  // shared with the pump
  WorkerSpawner::Place place_;
  std::shared_ptr<const void> readable_;  // see WorkerSpawner::Worker
  pid_t pid_ = 0;
};

}  // namespace braid
