// WorkerHost: keeps one worker process running: its thread starts the worker, receives its messages, and
// restarts it when it dies (see RestartPauses).
//
// The host handles the common parts of all workers: returned memory, calls (BLS), questions, log lines,
// forked processes, the end. The rest belongs to its WorkerUser: a model's instance, or the Python nodes of a
// graph.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "ipc/channel.h"
#include "ipc/messages.h"
#include "serving/structure.h"
#include "workers/forked_children.h"
#include "workers/restart_pauses.h"
#include "workers/user_code_limit.h"
#include "workers/worker_conversation.h"
#include "workers/worker_process.h"
#include "workers/worker_services.h"

namespace braid {

// The connection to one worker. After its death, calls of both members have no effect.
struct WorkerLink {
  std::shared_ptr<Channel> channel;      // shared with holders of the worker's memory
  std::shared_ptr<WorkerMemory> memory;  // shared with the buffers that the worker lends
};

// All methods are called on the host's thread, without its lock.
class WorkerUser {
 public:
  // The worker has loaded its user code and is ready for work. Errors: the worker is unfit, and is ended.
  virtual Status OnUp(const WorkerLink& link, const WorkerProcess::Answer& loaded) = 0;
  // The worker is not ready, or no longer; `reason` is for users. Called again when the reason changes.
  virtual void OnDown(const std::string& reason) = 0;
  // The worker has died, perhaps before it was up; its channel is about to close.
  virtual void OnDead() = 0;
  // All memory lent to the worker is back: fail its pending work now.
  virtual void OnGone(const std::string& reason) = 0;
  // Handles a message that the host does not; views into it are valid during the call. Errors: the worker
  // broke the rules, and is ended.
  virtual Status OnMessage(const std::vector<std::byte>& message) = 0;
  // Called before each wait, and after each Wake(). Returns the time of the next call at the latest.
  virtual int64_t OnRound(int64_t now_ns) = 0;
  // Called about each second.
  virtual void OnIdle() = 0;
  // Returns the origin of a call by the worker.
  virtual WorkerConversation::Origin OriginOf(const CallMessage& call) = 0;
  // Returns the ids of the requests that a message of user code is about; "" if that is not clear.
  virtual std::string RequestsNow() { return {}; }
  // Returns the chain for calls of forked processes.
  virtual std::shared_ptr<const CallChain> ForkedChain() = 0;

 protected:
  ~WorkerUser() = default;
};

class WorkerHost {
 public:
  struct Options {
    LoadMode mode = LoadMode::kInstance;
    std::string thread_name;
    // Names for the log and for reasons, e.g. "instance 'm_0'" and "instance".
    std::string title;
    std::string noun;
    // Time limits for the start of user code, and for its end within the deadline of BeginStop(); 0: no
    // limit.
    int64_t initialize_timeout_ns = 0;
    int64_t finalize_timeout_ns = 0;
    // Whether the worker runs user code, which may call servables, ask the server, and fork. If not, it must
    // not do so.
    bool runs_user_code = true;
    // While it is active, workers are forked from it, and `mode` is not used. Outlives the host; may be null.
    ForkSource* source = nullptr;
    // Shared with the readers of the metrics; null: nothing is counted.
    std::shared_ptr<WorkerCounters::Row> counters = nullptr;
  };

  // All references outlive the host.
  WorkerHost(Options options, const WorkerSpec& spec, const WorkerFacts& facts,
             const WorkerServices& services, WorkerSpawner& spawner, Arena& arena, WorkerUser& user);
  ~WorkerHost();

  // Starts the thread. `on_started` is called once on it: when the worker is up, or with the error if it
  // could not start (the host is then over).
  void Start(std::function<void(Status)> on_started);
  // As Start(), but blocks until the outcome. If it fails, the thread has ended too.
  Status StartAndWait();
  // Asks the worker to finalize and to end; returns at once. At `deadline_ns` the worker is killed.
  void BeginStop(int64_t deadline_ns);
  // Waits until the worker and the thread have ended. REQUIRES: BeginStop() was called, or Start() has
  // failed.
  void Join();

  // Makes the host call OnRound() soon. Any thread.
  void Wake();
  // Ends the worker as if it had broken a rule: `reason` continues "It was ended because". Any thread.
  void End(std::string reason);
  // Watches overdue user code: `stuck` is true while the worker runs such code. Its stacks are logged at
  // once, and the worker is ended shortly after, with the reason `text`. Returns the time of the next check,
  // at most `next_ns`. Only within OnRound(), while a worker is up.
  int64_t WatchStuck(int64_t now_ns, int64_t next_ns, bool stuck, const std::function<std::string()>& text);
  // The worker has done some work, so it restarts at once if it dies. Only within OnMessage().
  void NoteServed() { served_ = true; }
  // The state of the start, for progress reports. Any thread.
  std::string Progress() const;
  // The arena has deleted a segment. Any thread.
  void RetireSegment(uint32_t segment);
  // Returns idle memory of the arena to the system. Only if the arena belongs to this host alone.
  void TrimArena();
  // Describes the worker: process, start, restarts. Any thread.
  void Describe(InstanceReport& report) const;

 private:
  void Run();
  // The messages received from the worker, and those handled. Any thread.
  ThreadWatch::Work work() const;
  // Starts a worker and waits until it is initialised.
  Status StartWorker();
  // Waits until the worker has loaded its user code, within the time limit.
  Result<WorkerProcess::Answer> Load(LoadMode mode);
  // Serves until the worker dies or has been stopped. If it was ended for breaking a rule, returns the rule.
  std::string Serve();
  // Drives the end of the worker; returns the time of the next check.
  int64_t LookAtEnd(int64_t now_ns, int64_t deadline_ns);
  // Retries until a worker is up, after one that lived like `life`. Returns false when the host stops.
  bool Restart(RestartPauses& pauses, RestartPauses::Life life, std::string cause);
  // Waits until the next try, or the stop.
  void Pause(int64_t until_ns);
  // Handles one message. Errors: the worker broke the rules.
  Status Handle(const std::vector<std::byte>& message);
  // Gives channels to forked processes of the worker that ask for them.
  Status AdmitForks();
  // Ends the pending work of a dead worker, and closes its channel.
  void BuryWorker(const std::string& reason);
  bool stopping() const;

  const Options options_;
  const WorkerSpec& spec_;
  const WorkerFacts& facts_;
  const WorkerServices& services_;
  WorkerSpawner& spawner_;
  Arena& arena_;
  Logger& log_;
  WorkerUser& user_;
  std::function<void(Status)> on_started_;
  std::thread thread_;

  // Owned by the thread. The thread changes both with mutex_ held, so that other threads can read them with
  // mutex_ held.
  std::unique_ptr<WorkerProcess> worker_;
  std::unique_ptr<WorkerConversation> conversation_;
  std::unique_ptr<ForkedChildren> forks_;  // made with the first child
  bool finalized_ = false;
  bool asked_to_finalize_ = false;
  bool ended_by_force_ = false;
  UserCodeLimit finalizing_;
  UserCodeLimit stuck_;
  bool served_ = false;
  bool killed_ = false;  // whether the last worker that failed to start was killed from outside the server

  std::atomic<pid_t> pid_{0};          // 0: no worker lives
  std::atomic<int64_t> born_ms_{0};    // of the last worker, in ms since 1970
  std::atomic<uint64_t> restarts_{0};  // successful ones

  mutable Mutex mutex_;  // a leaf lock
  CondVar woken_changed_;
  bool woken_ BRAID_GUARDED_BY(mutex_) = false;
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  int64_t stop_deadline_ns_ BRAID_GUARDED_BY(mutex_) = 0;
  std::string end_reason_ BRAID_GUARDED_BY(mutex_);  // empty: the worker may live
  std::string progress_ BRAID_GUARDED_BY(mutex_);    // during the start
};

}  // namespace braid
