// PythonInstance: a worker process that is an instance of a Python model, and the thread "brd-py" that starts it,
// receives from it, and starts it anew when it has died.
//
// A worker that dies fails the requests that its user code had begun; those it was only handed come back to
// the scheduler. Requests are answered on the instance's thread.
//
// Where executions have a time limit, it is one for each wait: from when user code can begin with a request to its
// first response, and from each response to the next. What passes it fails at once; a moment later the worker is
// ended, unless user code has come back by then (WorkerHost::WatchStuck()).
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
  // An instance that this one is a process of: what the scheduler and call chains know in its place.
  struct Owner {
    Instance& known_as;
    std::function<void(bool)> on_availability;  // instead of the listener's; on the instance's thread
  };

  // All references outlive the instance.
  PythonInstance(WorkerSpec spec, const WorkerFacts& facts, const WorkerServices& services,
                 WorkerSpawner& spawner, Arena& arena, const ModelBounds& bounds,
                 std::shared_ptr<WorkerCounters::Row> counters, std::optional<Owner> owner = {});
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

  // As ExecutionsInFlight has them. Any thread.
  bool returned() const;
  bool answered() const;
  // Ends the worker, which `reason` tells ("It was ended because ..."); begun requests fail with that. Any thread.
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
  // Looks at how long executions have lasted; returns when to look again.
  int64_t WatchExecutions(int64_t now_ns);
  // Takes the requests whose time is up; returns when the next one's may be.
  int64_t TakeOverdue(int64_t now_ns, std::vector<std::unique_ptr<InferenceRequest>>& overdue)
      BRAID_REQUIRES(mutex_);
  // Whether the worker is still in what its time was up for.
  bool Stuck() BRAID_REQUIRES(mutex_);
  std::string OverdueText() const;

  const WorkerSpec spec_;
  const WorkerFacts& facts_;
  const std::optional<Owner> owner_;
  Instance& known_as_;
  const int64_t execute_timeout_ns_;  // 0: none
  std::function<void()> on_idle_;     // constant after Start()

  // The host's thread's own.
  ReadinessHook readiness_hook_;
  int64_t next_watch_ns_ = 0;
  uint64_t overdue_execution_ = 0;  // 0: none
  std::atomic<bool> makes_calls_{false};
  std::atomic<bool> saves_sequences_{false};
  std::atomic<uint64_t> executions_{0};  // that user code has returned from

  // Of all calls that block no execution.
  std::shared_ptr<const CallChain> loose_chain_ BRAID_GUARDED_BY(mutex_);
  std::vector<std::byte> encoded_ BRAID_GUARDED_BY(mutex_);
  // Messages that keep their memory.
  ExecuteMessage outgoing_ BRAID_GUARDED_BY(mutex_);
  ExecutedMessage executed_;  // of the host's thread
  WorkerHost host_;
};

}  // namespace braid
