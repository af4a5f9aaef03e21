// NodeCalls: the executions and sessions in the worker of a graph's Python nodes, across restarts of the
// worker.
//
// A generator may run ahead of its listener by a window of items. They wait here, so that the next one is
// ready when the listener asks for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/python/python_nodes.h"
#include "base/mutex.h"
#include "base/serial_delivery.h"
#include "base/status.h"
#include "ipc/node_messages.h"
#include "workers/worker_host.h"

namespace braid {

// Methods of the worker's life belong to the thread that receives from the worker; any thread may call the
// others. Listeners are called with no lock held.
class NodeCalls {
 public:
  // The most items of one generator that the worker may send before the listener asks for them.
  static constexpr uint32_t kWindow = 8;

  NodeCalls();
  ~NodeCalls();

  // --- The worker's life, on the receiving thread.

  // The worker is up.
  void Open(const WorkerLink& link, bool wants_sessions);
  // Refuses new executions, with `reason`.
  void Refuse(const std::string& reason);
  // The worker has died; the state of its sessions is lost.
  void Forget();
  // Fails all executions of the worker.
  void Fail(const std::string& reason);
  // Errors: the worker broke the rules.
  Status OnStep(const NodeStepMessage& message);
  // Sets the time limit for one wait: for the first step of a call, and then from each requested item to the
  // next. 0: no limit. REQUIRES: called before Open().
  void SetTimeLimit(int64_t limit_ns, std::string text) {
    limit_ns_ = limit_ns;
    overdue_text_ = std::move(text);
  }
  const std::string& overdue_text() const { return overdue_text_; }
  // Fails overdue calls; returns the time of the next check. REQUIRES: there is a limit.
  int64_t Expire(int64_t now_ns);
  // Whether the worker is still running a call that failed this way.
  bool stuck() const;

  // --- As in PythonNodes.
  uint64_t Execute(size_t node, uint64_t session, std::vector<NodeTensor> inputs,
                   std::shared_ptr<NodeCallListener> listener);
  bool Resume(uint64_t call);
  void Close(uint64_t call);
  uint64_t BeginSession(const Parameters& parameters, std::shared_ptr<const CallChain> chain);
  void EndSession(uint64_t session);
  Readiness readiness() const;

  // Returns the call chain of the run that a call belongs to; null if it has none, or the call has ended.
  std::shared_ptr<const CallChain> ChainOf(uint64_t call) const;

  // The number of unfinished calls.
  size_t pending() const;

 private:
  class Life;
  class Object;
  struct Call {
    std::shared_ptr<NodeCallListener> listener;
    std::shared_ptr<const CallChain> chain;  // shared with the run's request
    std::shared_ptr<Life> life;              // shared with the calls and objects of the same worker
    std::deque<NodeStep> ahead;  // received steps that wait for Resume(); the last one may be the end
    uint32_t credit = kWindow;   // items that the worker may still send
    uint32_t consumed = 0;       // items asked for since the last credit was sent
    bool awaited = true;         // the listener expects the next step
    SerialDelivery delivery;     // of steps to the listener
    bool closed = false;
    bool ended = false;    // the last step was received
    int64_t since_ns = 0;  // with a limit: when the worker was last asked, or last answered
  };

  Status SendExecute(const std::shared_ptr<Life>& life, uint64_t call, size_t node, uint64_t session,
                     const std::vector<NodeTensor>& inputs);
  Result<NodeStep> MakeStep(const NodeStepMessage& message, const std::shared_ptr<Life>& life);
  // Passes the next step to the listener if it expects one and one is ready.
  void Deliver(uint64_t id, const std::shared_ptr<Call>& call);
  void SendSession(uint64_t session, bool end, const std::string& parameters_json) BRAID_REQUIRES(mutex_);

  mutable Mutex mutex_;  // a leaf lock

  std::shared_ptr<Life> life_ BRAID_GUARDED_BY(mutex_);  // null while new executions are refused
  std::string reason_ BRAID_GUARDED_BY(mutex_);          // the reason for the refusal
  uint64_t next_call_ BRAID_GUARDED_BY(mutex_) = 1;
  uint64_t next_session_ BRAID_GUARDED_BY(mutex_) = 1;
  // Only of sessions that have a chain.
  std::unordered_map<uint64_t, std::shared_ptr<const CallChain>> chains_ BRAID_GUARDED_BY(mutex_);
  // Calls that failed by the limit while the worker still runs them; their steps are dropped.
  std::unordered_set<uint64_t> given_up_ BRAID_GUARDED_BY(mutex_);
  // Shared with the threads that deliver.
  std::unordered_map<uint64_t, std::shared_ptr<Call>> calls_ BRAID_GUARDED_BY(mutex_);
  std::unordered_set<uint64_t> sessions_ BRAID_GUARDED_BY(mutex_);  // sessions known to the worker
  // The parameters of sessions that began while there was no worker.
  std::unordered_map<uint64_t, std::string> new_sessions_ BRAID_GUARDED_BY(mutex_);
  int64_t limit_ns_ = 0;      // constant after SetTimeLimit()
  std::string overdue_text_;  // constant after SetTimeLimit()
  // Used by the receiving thread only: the life whose steps arrive.
  std::shared_ptr<Life> receiving_;
};

}  // namespace braid
