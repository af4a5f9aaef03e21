// PythonInstance: one instance of a Python model: a worker process, and the thread "brd-py" that starts it,
// receives from it, and starts it anew when it has died.
//
// A worker that dies fails the requests that its user code had begun; those it was only handed come back to
// the scheduler. It is started again after a pause that doubles with each failure. Requests are answered on
// the instance's thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/python/forked_children.h"
#include "backends/python/readiness_hook.h"
#include "backends/python/worker_calls.h"
#include "backends/python/worker_memory.h"
#include "backends/python/worker_process.h"
#include "backends/python/worker_services.h"
#include "base/log.h"
#include "base/status.h"
#include "ipc/channel.h"
#include "ipc/messages.h"
#include "scheduling/instance.h"

namespace braid {

// The pause before a worker is started again after it has died `failures` times in a row.
// It begins with one second, so that a monitor which polls each second sees the model not ready, and ends
// with 30.
int64_t RestartPauseNs(int failures);

class PythonInstance final : public Instance {
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

  void Run();
  // Starts a worker and waits until it is initialised.
  Status StartWorker();
  // Serves until the worker dies or the stop has been carried out. Returns why the worker is no good any
  // more, if it was ended for breaking the rules.
  std::string Serve();
  // Handles one message. Errors: the worker broke the rules.
  Status Handle(const std::vector<std::byte>& message);
  Status HandleCall(const CallMessage& message);
  // Forked processes of the worker ask for channels.
  Status HandleKnock();
  // The chain of a call that blocks an execution, or of one that blocks none.
  std::shared_ptr<const CallChain> ChainLocked(uint64_t blocked_execution);
  // The chain of a call that holds up the requests in the slots for which `blocked` is true.
  template <class Blocked>
  std::shared_ptr<const CallChain> BlockingChainLocked(const Blocked& blocked);
  Status HandleExecuted(const ExecutedMessage& message);
  Status HandleResponse(const ResponseMessage& message, WorkerMemory::Returned& returned);
  // The request that the worker knows as `id`, out of its slot.
  Result<std::unique_ptr<InferenceRequest>> TakeBack(uint64_t id);
  Status MakeResponse(const ResponseMessage& message, WorkerMemory::Returned& returned,
                      InferenceResponse& response);
  // Ends the requests of a worker that is gone, and closes its channel.
  void BuryWorker(const std::string& reason);
  void SetState(bool ready, std::string reason);
  uint32_t TakeSlotLocked();
  void FreeSlotLocked(uint32_t slot);
  // Sends an execution whose requests get `slots`.
  Status SendLocked(const Execution& execution, uint64_t execution_id, const std::vector<uint32_t>& slots);
  // Sends back what Execute() could not pass on.
  void ReturnRefused();
  void Wake();

  const PythonInstanceSpec spec_;
  const PythonModelFacts& facts_;
  const WorkerServices& services_;
  WorkerSpawner& spawner_;
  ChildReaper& reaper_;
  Arena& arena_;
  Logger& log_;
  const int64_t sign_in_timeout_ns_;
  ExecutionListener* listener_ = nullptr;  // constant after Start()
  std::function<void(Status)> on_started_;
  std::function<void()> on_idle_;
  std::thread thread_;

  // Owned by the thread; `worker_` and `memory_` are changed with mutex_ held, so that others may look at it
  // with mutex_ held.
  std::unique_ptr<WorkerProcess> worker_;
  std::shared_ptr<WorkerMemory> memory_;   // shared with the buffers that the worker lends
  std::shared_ptr<WorkerCalls> calls_;     // shared with the calls that have not ended
  std::unique_ptr<ForkedChildren> forks_;  // made with the first
  bool finalized_ = false;
  std::unique_ptr<CustomMetrics::Session> metrics_;  // what the worker refers to; the thread's alone
  ReadinessHook readiness_hook_;
  std::atomic<bool> makes_calls_{false};

  mutable std::mutex mutex_;  // a leaf lock: nothing that blocks is called with it held
  // Guarded by mutex_.
  std::condition_variable stop_changed_;
  bool accepting_ = false;  // the worker is initialised and alive
  bool stopping_ = false;
  int64_t stop_deadline_ns_ = 0;
  std::string reason_;    // why not accepting
  std::string progress_;  // while starting
  uint64_t next_execution_id_ = 1;
  std::deque<Running> running_;                   // in the order of their ids
  std::shared_ptr<const CallChain> loose_chain_;  // of all calls that block no execution
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  struct Refused {
    std::unique_ptr<Execution> execution;
    Status status;  // OK: it can run elsewhere
  };
  std::vector<Refused> refused_;  // handed over and not passed on; the thread sends them back
  std::vector<std::byte> encoded_;
  ExecuteMessage outgoing_;
};

}  // namespace braid
