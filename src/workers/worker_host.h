// WorkerHost: keeps a worker process for as long as it is wanted: a thread that starts it, receives from it,
// and starts it anew when it has died, see RestartPauses.
//
// What all workers do alike is handled here: memory given back, calls (BLS), questions, log lines, forked
// processes, the end. The rest is its user's: a model's instance, or the Python nodes of a graph.
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

// The ways to one worker; both may be used after its death, to no effect.
struct WorkerLink {
  std::shared_ptr<Channel> channel;      // shared with whoever holds memory of the worker
  std::shared_ptr<WorkerMemory> memory;  // shared with the buffers that the worker lends
};

// All calls come on the host's thread, without its lock.
class WorkerUser {
 public:
  // The worker has loaded its user code and can be given work. Errors: it is not as it should be, and is ended.
  virtual Status OnUp(const WorkerLink& link, const WorkerProcess::Answer& loaded) = 0;
  // It cannot, or not any more; `reason` is for readers. Told anew when the reason changes.
  virtual void OnDown(const std::string& reason) = 0;
  // The worker is dead, also one that was never up; its channel is about to go.
  virtual void OnDead() = 0;
  // Nothing that was lent to it is out any more: the time to fail what it had.
  virtual void OnGone(const std::string& reason) = 0;
  // A message that is not the host's; views into it last until this returns. Errors: the worker broke the
  // rules, and is ended.
  virtual Status OnMessage(const std::vector<std::byte>& message) = 0;
  // Before each wait, and after each Wake(). Returns when this is to be called again at the latest.
  virtual int64_t OnRound(int64_t now_ns) = 0;
  // About each second.
  virtual void OnIdle() = 0;
  // What a call of the worker's is made for.
  virtual WorkerConversation::Origin OriginOf(const CallMessage& call) = 0;
  // Of the calls of forked processes.
  virtual std::shared_ptr<const CallChain> ForkedChain() = 0;

 protected:
  ~WorkerUser() = default;
};

class WorkerHost {
 public:
  struct Options {
    LoadMode mode = LoadMode::kInstance;
    std::string thread_name;
    // Name it in the log and in reasons, e.g. "instance 'm_0'" and "instance".
    std::string title;
    std::string noun;
    // Those of user code's own start, and of its end within the deadline of BeginStop(); 0: not bounded.
    int64_t initialize_timeout_ns = 0;
    int64_t finalize_timeout_ns = 0;
    // Whether there is user code in it that may call servables, ask the server, and fork; else it must not.
    bool runs_user_code = true;
    // Shared with who reads it; null where nothing is counted.
    std::shared_ptr<WorkerCounters::Row> counters = nullptr;
  };

  // All references outlive the host.
  WorkerHost(Options options, const WorkerSpec& spec, const WorkerFacts& facts,
             const WorkerServices& services, WorkerSpawner& spawner, Arena& arena, WorkerUser& user);
  ~WorkerHost();

  // Starts the thread; `on_started` is called once on it: when the worker is up, or with what kept it from
  // that (the host is then over).
  void Start(std::function<void(Status)> on_started);
  // Likewise, and blocks until then. When it fails, the thread has ended too.
  Status StartAndWait();
  // Asks the worker to finalize and to end; returns at once. At `deadline_ns` it is killed.
  void BeginStop(int64_t deadline_ns);
  // Waits for the end of the worker and of the thread. REQUIRES: BeginStop() was called, or Start() has
  // failed.
  void Join();

  // Has the user's OnRound() called soon. Any thread.
  void Wake();
  // Ends the worker as one that has broken the rules: `reason` goes on from "It was ended because". Any thread.
  void End(std::string reason);
  // Watches user code whose time may be up: `stuck` while the worker is in such code. Its stacks are logged at once, and a
  // moment later the worker is ended, for which `text` says why. Returns when to look again, at `next_ns` at the latest.
  // From within OnRound(), while a worker is up.
  int64_t WatchStuck(int64_t now_ns, int64_t next_ns, bool stuck, const std::function<std::string()>& text);
  // The worker has done some work: it will be started again at once. From within OnMessage().
  void NoteServed() { served_ = true; }
  // What the host waits for while it starts, for progress reports. Any thread.
  std::string Progress() const;
  // A segment of the arena is gone. Any thread.
  void RetireSegment(uint32_t segment);
  // Gives idle memory of the arena back to the system, which only this host uses.
  void TrimArena();
  // The worker as it is now: process, start, restarts. Any thread.
  void Describe(InstanceReport& report) const;

 private:
  void Run();
  // What has come from the worker, and been handled. Any thread.
  ThreadWatch::Work work() const;
  // Starts a worker and waits until it is initialised.
  Status StartWorker();
  // Waits until the worker has loaded its user code, within the time for that.
  Result<WorkerProcess::Answer> Load();
  // Serves until the worker dies or the stop has been carried out. Returns why the worker is no good any
  // more, if it was ended for breaking the rules.
  std::string Serve();
  // What is to be done while the worker ends; returns when to look again.
  int64_t LookAtEnd(int64_t now_ns, int64_t deadline_ns);
  // Tries until a worker is up again after one that lived like this; false when the host is to stop.
  bool Restart(RestartPauses& pauses, RestartPauses::Life life, std::string cause);
  // Waits for the next try, or the stop.
  void Pause(int64_t until_ns);
  // Handles one message. Errors: the worker broke the rules.
  Status Handle(const std::vector<std::byte>& message);
  // Forked processes of the worker ask for channels.
  Status AdmitForks();
  // Ends what a worker that is gone had, and closes its channel.
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

  // Owned by the thread; both are changed with mutex_ held, so that others may look at them with mutex_ held.
  std::unique_ptr<WorkerProcess> worker_;
  std::unique_ptr<WorkerConversation> conversation_;
  std::unique_ptr<ForkedChildren> forks_;  // made with the first
  bool finalized_ = false;
  bool asked_to_finalize_ = false;
  bool ended_by_force_ = false;
  UserCodeLimit finalizing_;
  UserCodeLimit stuck_;
  bool served_ = false;
  bool killed_ = false;  // the last worker that could not be started, by somebody else

  std::atomic<pid_t> pid_{0};          // 0: no worker lives
  std::atomic<int64_t> born_ms_{0};    // since 1970, of the last one
  std::atomic<uint64_t> restarts_{0};  // that went well

  mutable Mutex mutex_;  // a leaf lock
  CondVar woken_changed_;
  bool woken_ BRAID_GUARDED_BY(mutex_) = false;
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  int64_t stop_deadline_ns_ BRAID_GUARDED_BY(mutex_) = 0;
  std::string end_reason_ BRAID_GUARDED_BY(mutex_);  // empty: the worker may live
  std::string progress_ BRAID_GUARDED_BY(mutex_);    // while starting
};

}  // namespace braid
