// WorkerSpawner: starts worker processes with the interpreter of the models' environment. All workers are
// confined before they run any code (isolation/).
//
// Workers of the levels none and basic are forked from a warm process of that environment, the zygote. It has
// loaded the interpreter, the extension and numpy, has a single thread, and runs no user code. A fork takes 2
// ms and little memory instead of 60 ms and 16 MiB. The zygote forks twice, so that the worker's parent is
// the server, and gives each worker its own process group. So workers survive the zygote. A zygote that dies
// is replaced in advance, by the thread "brd-warm".
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/temporary_folder.h"
#include "base/unique_fd.h"
#include "ipc/channel.h"
#include "isolation/confinement.h"
#include "isolation/isolation_options.h"
#include "isolation/user_ids.h"
#include "isolation/worker_cgroup.h"
#include "isolation/worker_isolation.h"
#include "workers/fork_server.h"
#include "workers/worker_limits.h"
#include "workers/worker_support.h"

namespace braid {

enum class WorkerStart : unsigned char { kFork, kFresh };

class WorkerSpawner {
 public:
  struct Options {
    std::string python;            // path of the interpreter
    std::string worker_directory;  // folder of braid_worker/ and the extension
    // Program and arguments of workers without an interpreter, with start = kFresh. The channel's file
    // descriptors (memory, socket, wake-up) follow as arguments.
    std::vector<std::string> program = {};
    WorkerStart start = WorkerStart::kFork;
    // "NAME=value" for all of the interpreter's processes; empty: the server's own variables.
    std::vector<std::string> environment;
    // For each worker, but not for the zygote.
    std::vector<WorkerLimit> limits;
    // Its level, none or basic, is the zygote's; workers of other levels get their own interpreter.
    IsolationOptions isolation = {};
    // Shared by all spawners, so that no two workers have the same user.
    std::shared_ptr<UserIds> user_ids =
        std::make_shared<UserIds>(isolation.first_user_id, isolation.last_user_id);
    // The folder for private folders of workers of level strict and separate.
    std::string temporary_directory = "/tmp";
    // The memory that each worker may have the server map, for the code that makes its channel.
    SegmentBudget::Limits segments = {};
    // The time limit for the start of a process, until its first message.
    int64_t timeout_ns = 30'000'000'000;
    // Whether errors include details meant for the operator only.
    bool verbose_errors = false;
  };

  // `support` outlives the spawner.
  WorkerSpawner(Options options, WorkerSupport& support);
  // Ends the zygote; workers live on.
  ~WorkerSpawner();

  WorkerSupport& support() { return support_; }
  bool verbose_errors() const { return options_.verbose_errors; }
  int64_t timeout_ns() const { return options_.timeout_ns; }

  // Resources reserved for one worker, until it is dead.
  struct Place {
    std::shared_ptr<TemporaryFolder> folder;  // for strict and separate
    UserIds::Share user;                      // for separate
    std::shared_ptr<WorkerCgroup> cgroup;     // null: not wanted
  };
  struct Worker {
    pid_t pid = 0;
    std::shared_ptr<WorkerOutput> output;  // shared with the pump
    Place place;
    // Lets the server read /proc files that the worker hides from other processes of its user
    // (KeepReadable()).
    std::shared_ptr<const void> readable;
  };

  // Where a worker comes from.
  struct Origin {
    WorkerStart start = WorkerStart::kFork;
    // With kFork: forks the worker instead of the zygote; null: the zygote does.
    const ForkServer* from = nullptr;
    // The worker's end of a ForkServer, if it is a template; else -1. REQUIRES: kFork and the zygote.
    int fork_socket = -1;
  };

  // Returns how a worker starts: in its own interpreter unless it has the zygote's level.
  WorkerStart StartOf(const WorkerIsolation& isolation) const;
  const SegmentBudget::Limits& segments() const { return options_.segments; }

  // Starts a worker at the other end of a channel; blocks until the process exists. `on_exit` is called when
  // it ends. Its output is logged for the model of the calling thread (LogAbout).
  //
  // Errors: the reason of the failure, with the interpreter's path. UNAVAILABLE: the zygote or `origin.from`
  // was lost, which says nothing of the worker. The caller can then start it with kFresh, but at another
  // channel: a worker that was forked but not reported may own this one.
  Result<Worker> Spawn(const std::string& name, const Origin& origin, const WorkerIsolation& isolation,
                       Channel::WorkerEnd worker_end, ChildReaper::OnExit on_exit);

 private:
  struct Pipes {
    UniqueFd read_output, read_error, write_output, write_error;
  };
  static Result<Pipes> MakePipes();
  // Returns the arguments that run a script of braid_worker/.
  std::vector<std::string> Script(const char* name) const;
  // The environment of a program.
  struct LaunchSettings {
    Confinement confinement;
    std::vector<std::string> variables;
    std::string folder = {};  // its working directory; empty: the server's
    std::vector<std::pair<int, rlimit>> limits = {};
  };
  // For the zygote, and for workers without a Place.
  LaunchSettings PlainSettings(IsolationLevel level) const;
  Result<Place> MakePlace(const WorkerIsolation& isolation) const;
  LaunchSettings SettingsIn(const Place& place, const WorkerIsolation& isolation) const;
  // Starts a program with the descriptors, whose numbers become its last arguments.
  Result<pid_t> Exec(std::vector<std::string> arguments, std::span<const int> inherited, const Pipes& pipes,
                     LaunchSettings settings);
  Result<pid_t> SpawnFresh(const Channel::WorkerEnd& worker_end, const Pipes& pipes, LaunchSettings settings);
  std::vector<WorkerLimit> LimitsOf(IsolationLevel level) const;
  Result<pid_t> SpawnForked(const std::string& name, const Origin& origin,
                            const Channel::WorkerEnd& worker_end, const Pipes& pipes);
  Status StartZygote() BRAID_REQUIRES(mutex_);
  // Ends the zygote; returns its fate, as UNAVAILABLE.
  Status ZygoteLost(const std::string& what) BRAID_REQUIRES(mutex_);
  // Replaces zygotes that have died.
  void KeepWarm();

  const Options options_;
  WorkerSupport& support_;
  ChildReaper& reaper_;
  Logger& log_;

  // Zygote deaths that the reaper reports to the keeper. Shared with running zygotes, which may outlive the
  // spawner.
  struct Deaths {
    Mutex mutex;
    CondVar changed;
    uint64_t last BRAID_GUARDED_BY(mutex) = 0;  // the number of the latest dead zygote
    ExitCause cause BRAID_GUARDED_BY(mutex);
    std::atomic<bool> ending{false};  // set with the mutex held
  };
  const std::shared_ptr<Deaths> deaths_ = std::make_shared<Deaths>();

  Mutex mutex_;  // held while a worker is forked: the zygote takes one order at a time
  ForkServer zygote_ BRAID_GUARDED_BY(mutex_);
  pid_t zygote_pid_ BRAID_GUARDED_BY(mutex_) = 0;
  uint64_t zygote_number_ BRAID_GUARDED_BY(mutex_) = 0;   // of the last one started
  int64_t zygote_since_ns_ BRAID_GUARDED_BY(mutex_) = 0;  // when it was ready; 0: never
  bool zygote_served_ BRAID_GUARDED_BY(mutex_) = false;   // it has forked a worker
  bool zygote_unfit_ BRAID_GUARDED_BY(mutex_) = false;    // it has reported that it cannot run models
  std::shared_ptr<WorkerOutput> zygote_output_ BRAID_GUARDED_BY(mutex_);
  std::thread keeper_ BRAID_GUARDED_BY(mutex_);  // started with the first zygote
};

}  // namespace braid
