// PythonInstance: one instance of a Python model: a worker process, and the thread "brd-py" that starts it,
// receives from it, and starts it anew when it has died.
//
// A worker that dies fails the requests that its user code had begun; those it was only handed come back to
// the scheduler. Requests are answered on the instance's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/python/readiness_hook.h"
#include "backends/python/worker_host.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "ipc/channel.h"
#include "ipc/messages.h"
#include "scheduling/instance.h"

namespace braid {

class PythonInstance final : public Instance, private WorkerUser {
 public:
  // All references outlive the instance. `sign_in_timeout_ns` bounds the time from the start of the process
  // to its first message; user code's `initialize` is not bounded.
  PythonInstance(PythonInstanceSpec spec, const PythonModelFacts& facts, const WorkerServices& services,
                 WorkerSpawner& spawner, ChildReaper& reaper, Arena& arena, Logger& log,
                 int64_t sign_in_timeout_ns);
  ~PythonInstance() override;

  // Starts the thread; `on_started` is called once on it: when the worker is initialised, or with what kept
  // it from that (the instance is then over). `on_idle` is called on the thread now and then.
  void Start(ExecutionListener& listener, std::function<void(Status)> on_started,
             std::function<void()> on_idle);
  // Asks the worker to finalize and to end; returns at once. At `deadline_ns` it is killed.
  void BeginStop(int64_t deadline_ns);
  // Waits for the end of the worker and of the thread. REQUIRES: BeginStop() was called.
  void Join();

  const std::string& name() const override { return spec_.name; }
  bool passive() const override { return spec_.passive; }
  bool makes_calls() const override { return makes_calls_.load(std::memory_order_relaxed); }
  void Execute(std::unique_ptr<Execution> execution) override;
  InstanceReport report() const override;

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
    ExecutionTimes times;  // known once its execution has returned
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
  uint32_t TakeSlot() BRAID_REQUIRES(mutex_);
  void FreeSlot(uint32_t slot) BRAID_REQUIRES(mutex_);
  // Sends an execution whose requests get `slots`.
  Status Send(const Execution& execution, uint64_t execution_id, const std::vector<uint32_t>& slots)
      BRAID_REQUIRES(mutex_);
  // Sends back what Execute() could not pass on.
  void ReturnRefused();

  const PythonInstanceSpec spec_;
  const PythonModelFacts& facts_;
  ExecutionListener* listener_ = nullptr;  // constant after Start()
  std::function<void()> on_idle_;          // constant after Start()

  // The host's thread's own.
  bool available_ = false;    // as the listener knows it
  std::vector<Slot> failed_;  // of a worker that is dead
  std::vector<std::unique_ptr<Execution>> unstarted_;
  ReadinessHook readiness_hook_;
  std::atomic<bool> makes_calls_{false};
  std::atomic<uint64_t> executions_{0};  // that user code has returned from

  mutable Mutex mutex_;  // a leaf lock: nothing that blocks is called with it held
  WorkerLink link_;      // changed with mutex_ held by the host's thread, which reads it without
  bool accepting_ BRAID_GUARDED_BY(mutex_) = false;  // the worker is initialised and alive
  std::string reason_ BRAID_GUARDED_BY(mutex_);      // why not accepting
  uint64_t next_execution_id_ BRAID_GUARDED_BY(mutex_) = 1;
  std::deque<Running> running_ BRAID_GUARDED_BY(mutex_);  // in the order of their ids
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
