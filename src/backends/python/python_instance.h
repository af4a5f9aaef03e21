// PythonInstance: an instance of a Python model in a worker process. The thread "brd-py" starts the worker,
// receives its messages, and restarts it when it dies.
//
// If a worker dies, the requests that its user code had begun fail; the others return to the scheduler.
// Responses are sent on the instance's thread.
//
// The time limit of executions applies to each wait: until the first response to a request, and then from
// each response to the next. The first wait begins when user code can begin with the request. An overdue
// request fails at once. The worker is ended shortly after, unless user code returns before that
// (WorkerHost::WatchStuck()).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/python/model_bounds.h"
#include "backends/python/python_model_instance.h"
#include "backends/python/readiness_hook.h"
#include "base/status.h"
#include "ipc/messages.h"
#include "workers/executions_in_flight.h"

namespace braid {

class PythonInstance final : public PythonModelInstance, private ExecutionsInFlight {
 public:
  // The instance that owns this process: the scheduler and call chains see the owner instead.
  struct Owner {
    Instance& known_as;
    std::function<void(bool)> on_availability;  // in place of the listener's; on the instance's thread
  };

  // All references outlive the instance. `source`: see WorkerHost::Options.
  PythonInstance(WorkerSpec spec, const WorkerFacts& facts, const WorkerServices& services,
                 WorkerSpawner& spawner, Arena& arena, const ModelBounds& bounds,
                 std::shared_ptr<WorkerCounters::Row> counters, std::optional<Owner> owner = {},
                 ForkSource* source = nullptr);
  ~PythonInstance() override;

  const std::string& name() const override { return spec_.name; }
  bool passive() const override { return spec_.passive; }
  bool makes_calls() const override { return makes_calls_.load(std::memory_order_relaxed); }
  void Execute(std::unique_ptr<Execution> execution) override;
  InstanceReport report() const override;

  void Start(ExecutionListener& listener, std::function<void(Status)> on_started,
             std::function<void()> on_idle) override;
  void BeginStop(int64_t deadline_ns) override { host_.BeginStop(deadline_ns); }
  void Join() override { host_.Join(); }
  std::optional<std::string> NotReadyReason() const override { return ExecutionsInFlight::NotReadyReason(); }
  void CheckReadiness(std::function<void(Readiness)> done) override;
  std::string Progress() const override { return host_.Progress(); }
  bool saves_sequences() const override { return saves_sequences_.load(std::memory_order_relaxed); }
  void RetireSegment(uint32_t segment) override { host_.RetireSegment(segment); }

  // As in ExecutionsInFlight. Any thread.
  bool returned() const;
  bool answered() const;
  // Ends the worker; begun requests fail with `reason` ("It was ended because ..."). Any thread.
  void End(std::string reason) { host_.End(std::move(reason)); }

 private:
  Status Send(const Running& running, const Execution& execution) override BRAID_REQUIRES(mutex_);
  void TellAvailable(bool available) override;
  Status OnUp(const WorkerLink& link, const WorkerProcess::Answer& loaded) override;
  void OnGone(const std::string& reason) override;
  Status OnMessage(const std::vector<std::byte>& message) override;
  int64_t OnRound(int64_t now_ns) override;
  void OnIdle() override { on_idle_(); }
  WorkerConversation::Origin OriginOf(const CallMessage& call) override;
  std::shared_ptr<const CallChain> ForkedChain() override;

  // Returns the chain of a call that blocks an execution; 0: of a call that blocks none.
  std::shared_ptr<const CallChain> Chain(uint64_t blocked_execution) BRAID_REQUIRES(mutex_);
  // Returns the chain of a call that blocks the requests in the slots for which `blocked` is true.
  template <class Blocked>
  std::shared_ptr<const CallChain> BlockingChain(const Blocked& blocked) BRAID_REQUIRES(mutex_);
  Status HandleExecuted(const ExecutedMessage& message);
  Status HandleResponse(const ResponseMessage& message, WorkerMemory::Returned& returned);
  // Takes the request with the worker's number `id` out of its slot.
  Result<std::unique_ptr<InferenceRequest>> TakeBack(uint64_t id);
  Status MakeResponse(const ResponseMessage& message, WorkerMemory::Returned& returned,
                      InferenceResponse& response);
  // Checks how long executions have lasted; returns the time of the next check.
  int64_t WatchExecutions(int64_t now_ns);
  // Takes the overdue requests out of their slots; returns when the next one may be overdue.
  int64_t TakeOverdue(int64_t now_ns, std::vector<std::unique_ptr<InferenceRequest>>& overdue)
      BRAID_REQUIRES(mutex_);
  // Whether the worker is still running an overdue execution.
  bool Stuck() BRAID_REQUIRES(mutex_);
  std::string OverdueText() const;

  const WorkerSpec spec_;
  const WorkerFacts& facts_;
  const std::optional<Owner> owner_;
  Instance& known_as_;
  const int64_t execute_timeout_ns_;  // 0: none
  std::function<void()> on_idle_;     // constant after Start()

  // Used by the host's thread only.
  ReadinessHook readiness_hook_;
  int64_t next_watch_ns_ = 0;
  uint64_t overdue_execution_ = 0;  // 0: none
  std::atomic<bool> makes_calls_{false};
  std::atomic<bool> saves_sequences_{false};
  std::atomic<uint64_t> executions_{0};  // finished by user code

  // The chain of all calls that block no execution.
  std::shared_ptr<const CallChain> loose_chain_ BRAID_GUARDED_BY(mutex_);
  std::vector<std::byte> encoded_ BRAID_GUARDED_BY(mutex_);
  // Messages that keep their memory.
  ExecuteMessage outgoing_ BRAID_GUARDED_BY(mutex_);
  ExecutedMessage executed_;  // of the host's thread
  WorkerHost host_;
};

}  // namespace braid
