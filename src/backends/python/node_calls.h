// NodeCalls: the executions under way in the worker of a graph's Python nodes, and the sessions that it
// knows, across the worker's lives.
//
// A generator may run ahead of its listener by a window of items, which wait here, so that the next one is
// there when it is asked for.
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

// Any thread, but for what belongs to the thread that receives from the worker. Listeners are called without
// a lock.
class NodeCalls {
 public:
  // Items of one generator that the worker may have sent and that nobody has asked for yet.
  static constexpr uint32_t kWindow = 8;

  NodeCalls();
  ~NodeCalls();

  // --- The worker's life; the receiving thread.

  // A worker is up.
  void Open(const WorkerLink& link, bool wants_sessions);
  // It takes nothing new; `reason` is what executions are refused with.
  void Refuse(const std::string& reason);
  // It is dead: what its sessions knew is lost.
  void Forget();
  // Fails all that it had.
  void Fail(const std::string& reason);
  // Errors: the worker broke the rules.
  Status OnStep(const NodeStepMessage& message);
  // What one wait for the worker may last: for the first step of a call, and from each item that was asked for to
  // the next. 0: as long as it needs. Before Open().
  void SetTimeLimit(int64_t limit_ns, std::string text) {
    limit_ns_ = limit_ns;
    overdue_text_ = std::move(text);
  }
  const std::string& overdue_text() const { return overdue_text_; }
  // Fails the calls whose time is up; returns when to look again. REQUIRES: there is a limit.
  int64_t Expire(int64_t now_ns);
  // Whether the worker is still in a call that has failed so.
  bool stuck() const;

  // --- As PythonNodes has them.
  uint64_t Execute(size_t node, uint64_t session, std::vector<NodeTensor> inputs,
                   std::shared_ptr<NodeCallListener> listener);
  bool Resume(uint64_t call);
  void Close(uint64_t call);
  uint64_t BeginSession(const Parameters& parameters, std::shared_ptr<const CallChain> chain);
  void EndSession(uint64_t session);
  Readiness readiness() const;

  // The chain of the run that a call belongs to; null when it has none, or the call has ended.
  std::shared_ptr<const CallChain> ChainOf(uint64_t call) const;

  // Calls that have not ended.
  size_t pending() const;

 private:
  class Life;
  class Object;
  struct Call {
    std::shared_ptr<NodeCallListener> listener;
    std::shared_ptr<const CallChain> chain;  // shared with the run's request
    std::shared_ptr<Life> life;              // shared with the calls and objects of the same worker
    std::deque<NodeStep> ahead;              // came, and wait for Resume(); the last one may be the end
    uint32_t credit = kWindow;               // items that the worker may still send
    uint32_t consumed = 0;                   // items asked for since the worker was last given credit
    bool awaited = true;                     // the listener is to get the next step
    SerialDelivery delivery;                 // of steps to the listener
    bool closed = false;
    bool ended = false;  // the last step has come
    int64_t since_ns =
        0;  // where there is a limit: when the worker was last asked for something, or answered
  };

  Status SendExecute(const std::shared_ptr<Life>& life, uint64_t call, size_t node, uint64_t session,
                     const std::vector<NodeTensor>& inputs);
  Result<NodeStep> MakeStep(const NodeStepMessage& message, const std::shared_ptr<Life>& life);
  // Hands the listener what it waits for, if that is there.
  void Deliver(uint64_t id, const std::shared_ptr<Call>& call);
  void SendSession(uint64_t session, bool end, const std::string& parameters_json) BRAID_REQUIRES(mutex_);

  mutable Mutex mutex_;  // a leaf lock

  std::shared_ptr<Life> life_ BRAID_GUARDED_BY(mutex_);  // null while nothing new is taken
  std::string reason_ BRAID_GUARDED_BY(mutex_);          // why not
  uint64_t next_call_ BRAID_GUARDED_BY(mutex_) = 1;
  uint64_t next_session_ BRAID_GUARDED_BY(mutex_) = 1;
  // Of sessions that have one.
  std::unordered_map<uint64_t, std::shared_ptr<const CallChain>> chains_ BRAID_GUARDED_BY(mutex_);
  // Calls that have failed for the limit and that the worker is still in; what it sends for them is dropped.
  std::unordered_set<uint64_t> given_up_ BRAID_GUARDED_BY(mutex_);
  // Shared with the threads that deliver.
  std::unordered_map<uint64_t, std::shared_ptr<Call>> calls_ BRAID_GUARDED_BY(mutex_);
  std::unordered_set<uint64_t> sessions_ BRAID_GUARDED_BY(mutex_);  // that the worker knows
  // Begun while there was none; their parameters.
  std::unordered_map<uint64_t, std::string> new_sessions_ BRAID_GUARDED_BY(mutex_);
  int64_t limit_ns_ = 0;      // constant after SetTimeLimit()
  std::string overdue_text_;  // likewise
  // The receiving thread's: the life whose steps come.
  std::shared_ptr<Life> receiving_;
};

}  // namespace braid
