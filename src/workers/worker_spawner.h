// WorkerSpawner: starts worker processes with the interpreter of the models' environment.
// They are confined before they run anything (isolation/), whatever the model runs.
//
// Workers of the levels none and basic are forked from a warm process of that environment (the zygote: interpreter, extension
// and numpy loaded, single-threaded, no user code), which takes 2 ms and little memory instead of 60 ms and
// 16 MiB. The zygote forks twice, so that the worker's parent is the server, and gives each worker a process
// group of its own: workers live on when the zygote dies. One that dies is replaced in advance, by the thread
// "brd-warm".
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
#include "workers/worker_limits.h"
#include "workers/worker_support.h"

namespace braid {

enum class WorkerStart : unsigned char { kFork, kFresh };

class WorkerSpawner {
 public:
  struct Options {
    std::string python;            // path of the interpreter
    std::string worker_directory;  // where braid_worker/ and the extension are
    // Program and arguments of workers that are no interpreters, with start = kFresh; the numbers of the channel's
    // descriptors (memory, socket, wake-up) come after them.
    std::vector<std::string> program = {};
    WorkerStart start = WorkerStart::kFork;
    // "NAME=value" for all of the interpreter's processes; empty: the server's own variables.
    std::vector<std::string> environment;
    // Of each worker, not of the warm process.
    std::vector<WorkerLimit> limits;
    // The warm process has its level, none or basic; what needs more has an interpreter of its own.
    IsolationOptions isolation = {};
    // Shared by all spawners, whose workers are never the same user.
    std::shared_ptr<UserIds> user_ids =
        std::make_shared<UserIds>(isolation.first_user_id, isolation.last_user_id);
    // Where workers of level strict and separate have their private folders.
    std::string temporary_directory = "/tmp";
    // What each worker may have the server map; for who makes its channel.
    SegmentBudget::Limits segments = {};
    // How long a process may take to come up: from its start to its first message.
    int64_t timeout_ns = 30'000'000'000;
    // Errors say all that is known, also what is for the operator alone.
    bool verbose_errors = false;
  };

  // `support` outlives the spawner.
  WorkerSpawner(Options options, WorkerSupport& support);
  // Ends the zygote; workers live on.
  ~WorkerSpawner();

  WorkerSupport& support() { return support_; }
  bool verbose_errors() const { return options_.verbose_errors; }
  int64_t timeout_ns() const { return options_.timeout_ns; }

  // What a worker has to itself, until it is dead.
  struct Place {
    std::shared_ptr<TemporaryFolder> folder;  // of strict and separate
    UserIds::Share user;                      // of separate
    std::shared_ptr<WorkerCgroup> cgroup;     // null: none was asked for
  };
  struct Worker {
    pid_t pid = 0;
    std::shared_ptr<WorkerOutput> output;  // shared with the pump
    Place place;
    // What the worker hides from others of its user is still seen by the server (KeepReadable).
    std::shared_ptr<const void> readable;
  };

  // How a worker is to be started: in an interpreter of its own unless it is to have the warm process's level.
  WorkerStart StartOf(const WorkerIsolation& isolation) const;
  const SegmentBudget::Limits& segments() const { return options_.segments; }

  // Starts a worker at the other end of a channel; blocks until the process exists. `on_exit` is called when
  // it ends. Errors: what kept it from starting, with the interpreter's path. UNAVAILABLE: the zygote was
  // lost on the way, which says nothing of the worker; it can be started kFresh, at another channel, since a
  // worker that was forked and never told of may have this one.
  // What it prints is of the model that the calling thread is about (LogAbout).
  Result<Worker> Spawn(const std::string& name, WorkerStart how, const WorkerIsolation& isolation,
                       Channel::WorkerEnd worker_end, ChildReaper::OnExit on_exit);

 private:
  struct Pipes {
    UniqueFd read_output, read_error, write_output, write_error;
  };
  static Result<Pipes> MakePipes();
  // The arguments that run a script of braid_worker/.
  std::vector<std::string> Script(const char* name) const;
  // Where a program runs.
  struct LaunchSettings {
    Confinement confinement;
    std::vector<std::string> variables;
    std::string folder = {};  // that it is started in; empty: the server's
    std::vector<std::pair<int, rlimit>> limits = {};
  };
  // Of the warm process, and of workers without a place of their own.
  LaunchSettings PlainSettings(IsolationLevel level) const;
  Result<Place> MakePlace(const WorkerIsolation& isolation) const;
  LaunchSettings SettingsIn(const Place& place, const WorkerIsolation& isolation) const;
  // Starts a program with the descriptors, whose numbers become its last arguments.
  Result<pid_t> Exec(std::vector<std::string> arguments, std::span<const int> inherited, const Pipes& pipes,
                     LaunchSettings settings);
  Result<pid_t> SpawnFresh(const Channel::WorkerEnd& worker_end, const Pipes& pipes, LaunchSettings settings);
  std::vector<WorkerLimit> LimitsOf(IsolationLevel level) const;
  Result<pid_t> SpawnForked(const std::string& name, const Channel::WorkerEnd& worker_end,
                            const Pipes& pipes);
  Status StartZygote() BRAID_REQUIRES(mutex_);
  // One datagram of the zygote. Errors: UNAVAILABLE, none within the time.
  Result<std::string> ReceiveFromZygote() BRAID_REQUIRES(mutex_);
  // Ends what is left of the zygote; says what has become of it, as UNAVAILABLE.
  Status ZygoteLost(const std::string& what) BRAID_REQUIRES(mutex_);
  // Replaces zygotes that have died.
  void KeepWarm();

  const Options options_;
  WorkerSupport& support_;
  ChildReaper& reaper_;
  Logger& log_;

  // What the reaper tells the keeper; shared with the zygotes that have not ended, which may do so later than
  // the spawner.
  struct Deaths {
    Mutex mutex;
    CondVar changed;
    uint64_t last BRAID_GUARDED_BY(mutex) = 0;  // the latest zygote, by its number, that has died
    ExitCause cause BRAID_GUARDED_BY(mutex);
    std::atomic<bool> ending{false};  // set with the mutex held
  };
  const std::shared_ptr<Deaths> deaths_ = std::make_shared<Deaths>();

  Mutex mutex_;  // held while a worker is forked: the zygote takes one order at a time
  UniqueFd zygote_ BRAID_GUARDED_BY(mutex_);
  pid_t zygote_pid_ BRAID_GUARDED_BY(mutex_) = 0;
  uint64_t zygote_number_ BRAID_GUARDED_BY(mutex_) = 0;   // of the last that was started
  int64_t zygote_since_ns_ BRAID_GUARDED_BY(mutex_) = 0;  // when it was ready; 0: it never was
  bool zygote_served_ BRAID_GUARDED_BY(mutex_) = false;   // it has forked a worker
  bool zygote_unfit_ BRAID_GUARDED_BY(mutex_) = false;    // it has said that it cannot run models
  std::shared_ptr<WorkerOutput> zygote_output_ BRAID_GUARDED_BY(mutex_);
  std::thread keeper_ BRAID_GUARDED_BY(mutex_);  // from the first zygote on
};

}  // namespace braid
