// PythonInstance: a worker process that is an instance of a Python model, and the thread "brd-py" that starts it,
// receives from it, and starts it anew when it has died.
//
// The scheduler knows it as a ReplaceableInstance, which may have two of them for a while.
//
// A worker that dies fails the requests that its user code had begun; those it was only handed come back to
// the scheduler. Requests are answered on the instance's thread.
//
// Where executions have a time limit, it is one for each wait: from when user code can begin with a request to its
// first response, and from each response to the next. What passes it fails at once; a moment later the worker is
// ended, unless user code has come back by then (UserCodeLimit).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/python/model_bounds.h"
#include "backends/python/readiness_hook.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "ipc/channel.h"
#include "ipc/messages.h"
#include "scheduling/instance.h"
#include "workers/user_code_limit.h"
#include "workers/worker_host.h"

namespace braid {

class PythonInstance final : private WorkerUser {
 public:
  // All references outlive the instance. `sign_in_timeout_ns` bounds the time from the start of the process
  // to its first message, `bounds` what comes after it. `known_as` is what the listener and call chains are told.
  PythonInstance(Instance& known_as, WorkerSpec spec, const WorkerFacts& facts,
                 const WorkerServices& services, WorkerSpawner& spawner, ChildReaper& reaper, Arena& arena,
                 Logger& log, int64_t sign_in_timeout_ns, const ModelBounds& bounds,
                 std::shared_ptr<WorkerCounters::Row> counters);
  ~PythonInstance();

  // Starts the thread; `on_started` is called once on it: when the worker is initialised, or with what kept
  // it from that (the instance is then over). `on_idle` is called on the thread now and then.
  void Start(ExecutionListener& listener, std::function<void(Status)> on_started,
             std::function<void()> on_idle);
  // Asks the worker to finalize and to end; returns at once. At `deadline_ns` it is killed.
  void BeginStop(int64_t deadline_ns);
  // Waits for the end of the worker and of the thread. REQUIRES: BeginStop() was called.
  void Join();

  // As Instance has them. Any thread; Execute() by one at a time.
  bool makes_calls() const { return makes_calls_.load(std::memory_order_relaxed); }
  // As BackendModel has it; known once the worker is up.
  bool saves_sequences() const { return saves_sequences_.load(std::memory_order_relaxed); }
  void Execute(std::unique_ptr<Execution> execution);
  InstanceReport report() const;

  // Whether no execution is handed over that has not returned; and whether no request is without its end. Any
  // thread.
  bool returned() const;
  bool answered() const;
  // Ends the worker, which `reason` tells ("It was ended because ..."); begun requests fail with that. Any thread.
  void End(std::string reason) { host_.End(std::move(reason)); }

  // Why the instance cannot run now; nothing when it can. Any thread.
  std::optional<std::string> NotReadyReason() const;
  // Whether it is ready, its user code's is_ready() asked too. `done` is called once, perhaps before this
  // returns, on any thread.
  void CheckReadiness(std::function<void(Readiness)> done);
  // What the instance waits for while it starts, for progress reports.
  std::string Progress() const;
  // A segment of the arena is gone.
  void RetireSegment(uint32_t segment);

 private:
  // A request that the worker has, by its place in slots_.
  struct Slot {
    std::unique_ptr<InferenceRequest> request;
    uint32_t generation = 1;  // so that no request is known as 0, which is none
    uint64_t execution_id = 0;
    ExecutionTimes times;     // known once its execution has returned
    int64_t progress_ns = 0;  // where there is a limit: when the present wait for a response began
    bool given_up = false;    // it has failed for the limit; what the worker still sends for it is dropped
  };
  struct Running {
    uint64_t id = 0;
    int64_t rows = 0;
    size_t requests = 0;
    int64_t compute_start_ns = 0;
    std::vector<uint32_t> slots;
    std::shared_ptr<const CallChain> chain;  // of the calls that block it; made with the first
  };

  Status OnUp(const WorkerLink& link, const WorkerProcess::Answer& loaded) override;
  void OnDown(const std::string& reason) override;
  void OnDead() override;
  void OnGone(const std::string& reason) override;
  Status OnMessage(const std::vector<std::byte>& message) override;
  int64_t OnRound(int64_t now_ns) override;
  void OnIdle() override { on_idle_(); }
  Origin OriginOf(const CallMessage& call) override;
  std::shared_ptr<const CallChain> ForkedChain() override;

  // The chain of a call that blocks an execution, or of one that blocks none.
  std::shared_ptr<const CallChain> Chain(uint64_t blocked_execution) BRAID_REQUIRES(mutex_);
  // The chain of a call that holds up the requests in the slots for which `blocked` is true.
  template <class Blocked>
  std::shared_ptr<const CallChain> BlockingChain(const Blocked& blocked) BRAID_REQUIRES(mutex_);
  Status HandleExecuted(const ExecutedMessage& message);
  Status HandleResponse(const ResponseMessage& message, WorkerMemory::Returned& returned);
  // The request that the worker knows as `id`, out of its slot.
  Result<std::unique_ptr<InferenceRequest>> TakeBack(uint64_t id);
  Status MakeResponse(const ResponseMessage& message, WorkerMemory::Returned& returned,
                      InferenceResponse& response);
  // Whether the worker has it, though it may have been given up.
  bool Has(uint32_t slot, uint32_t generation) const BRAID_REQUIRES(mutex_);
  // Looks at how long executions have lasted; returns when to look again.
  int64_t WatchExecutions(int64_t now_ns);
  // Takes the requests whose time is up; returns when the next one's may be.
  int64_t TakeOverdue(int64_t now_ns, std::vector<std::unique_ptr<InferenceRequest>>& overdue)
      BRAID_REQUIRES(mutex_);
  // Whether the worker is still in what its time was up for.
  bool Stuck() BRAID_REQUIRES(mutex_);
  std::string OverdueText() const;
  uint32_t TakeSlot() BRAID_REQUIRES(mutex_);
  void FreeSlot(uint32_t slot) BRAID_REQUIRES(mutex_);
  // Sends an execution whose requests get `slots`.
  Status Send(const Execution& execution, uint64_t execution_id, const std::vector<uint32_t>& slots)
      BRAID_REQUIRES(mutex_);
  // Sends back what Execute() could not pass on.
  void ReturnRefused();

  Instance& known_as_;
  const WorkerSpec spec_;
  const WorkerFacts& facts_;
  Logger& log_;
  const int64_t execute_timeout_ns_;  // 0: none
  // Shared with who reads it; null where nothing is counted.
  const std::shared_ptr<WorkerCounters::Row> counters_;
  ExecutionListener* listener_ = nullptr;  // constant after Start()
  std::function<void()> on_idle_;          // constant after Start()

  // The host's thread's own.
  bool available_ = false;    // as the listener knows it
  std::vector<Slot> failed_;  // of a worker that is dead
  std::vector<std::unique_ptr<Execution>> unstarted_;
  ReadinessHook readiness_hook_;
  int64_t next_watch_ns_ = 0;
  UserCodeLimit overdue_;           // of what is overdue now
  uint64_t overdue_execution_ = 0;  // 0: none
  std::atomic<bool> makes_calls_{false};
  std::atomic<bool> saves_sequences_{false};
  std::atomic<bool> delivering_{false};  // what an execution has come to is being told; set with mutex_ held
  std::atomic<uint64_t> executions_{0};  // that user code has returned from

  mutable Mutex mutex_;  // a leaf lock: nothing that blocks is called with it held
  WorkerLink link_;      // changed with mutex_ held by the host's thread, which reads it without
  bool accepting_ BRAID_GUARDED_BY(mutex_) = false;  // the worker is initialised and alive
  std::string reason_ BRAID_GUARDED_BY(mutex_);      // why not accepting
  uint64_t next_execution_id_ BRAID_GUARDED_BY(mutex_) = 1;
  std::deque<Running> running_ BRAID_GUARDED_BY(mutex_);  // in the order of their ids
  // Where there is a limit: since when user code could work on the first of them, or has last answered one of
  // its requests.
  int64_t front_since_ns_ BRAID_GUARDED_BY(mutex_) = 0;
  // Of all calls that block no execution.
  std::shared_ptr<const CallChain> loose_chain_ BRAID_GUARDED_BY(mutex_);
  std::vector<Slot> slots_ BRAID_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_slots_ BRAID_GUARDED_BY(mutex_);
  struct Refused {
    std::unique_ptr<Execution> execution;
    Status status;  // OK: it can run elsewhere
  };
  // Handed over and not passed on; the thread sends them back.
  std::vector<Refused> refused_ BRAID_GUARDED_BY(mutex_);
  std::vector<std::byte> encoded_ BRAID_GUARDED_BY(mutex_);
  ExecuteMessage outgoing_ BRAID_GUARDED_BY(mutex_);
  WorkerHost host_;
};

}  // namespace braid
