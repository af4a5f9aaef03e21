// ExecutionsInFlight: the executions that one worker has, across its lives, and their requests.
//
//   Hand() ---> sent ---> TakeReturned() ---> responses
//     |          |
//     |          +-- the worker dies: what it had begun fails, the rest goes back to the scheduler
//     +-- it cannot be sent: goes back, or fails, with the next TellRefused()
//
// A base of those who use a worker for executions. It tells the listener on the host's thread, without a lock.
#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "scheduling/instance.h"
#include "workers/worker_host.h"

namespace braid {

class ExecutionsInFlight : public WorkerUser {
 public:
  // Why the worker takes no executions; nothing while it does. Any thread.
  std::optional<std::string> NotReadyReason() const;

 protected:
  // A request that the worker has, by its place in slots_.
  struct Slot {
    std::unique_ptr<InferenceRequest> request;
    uint32_t generation = 1;       // so that no request is known as 0, which is none
    Instance* instance = nullptr;  // that it runs on, as the listener knows it
    uint64_t execution_id = 0;
    ExecutionTimes times;     // known once its execution has returned
    int64_t progress_ns = 0;  // where there is a limit: when the present wait for a response began
    bool given_up = false;    // it has failed for the limit; what the worker still sends for it is dropped
  };
  struct Running {
    uint64_t id = 0;
    Instance* instance = nullptr;
    int64_t rows = 0;
    int64_t compute_start_ns = 0;
    boost::container::small_vector<uint32_t, 4> slots;  // one for each of its requests
    std::shared_ptr<const CallChain> chain;             // of the calls that block it; made with the first
  };

  // `available`: whether the listener takes a new instance for available.
  explicit ExecutionsInFlight(bool available) : available_(available) {}
  ~ExecutionsInFlight() = default;

  // Encodes an execution for the worker, and sends it.
  virtual Status Send(const Running& running, const Execution& execution) BRAID_REQUIRES(mutex_) = 0;
  // The listener is to be told of all instances.
  virtual void TellAvailable(bool available) = 0;

  // Takes an execution; one for which `refused` says why is not sent, and fails with that. Any thread, one at a time for
  // each instance. The host is to be woken when it returns false.
  bool Hand(Instance& instance, std::unique_ptr<Execution> execution, Status refused = {});
  // Tells what Hand() could not pass on. For OnRound().
  void TellRefused();
  // The worker has returned from an execution, which is in flight no more; its requests are, until they are answered.
  // Errors: it has no such execution.
  Result<Running> TakeReturned(uint64_t id, int64_t input_end_ns, int64_t infer_end_ns, ExecutionTimes& times)
      BRAID_REQUIRES(mutex_);
  // What `Send` is to name a request of a slot.
  uint64_t NameOf(uint32_t slot) const BRAID_REQUIRES(mutex_) {
    return uint64_t{slots_[slot].generation} << 32 | slot;
  }
  // The slot of the request that the worker names so, which may have been given up; null for none.
  Slot* Find(uint64_t name) BRAID_REQUIRES(mutex_);
  void FreeSlot(uint32_t slot) BRAID_REQUIRES(mutex_);
  // Whether no execution is handed over that has not returned, and all that it has come to is told; and whether each
  // request has its end, too.
  bool returned() const BRAID_REQUIRES(mutex_) {
    return running_.empty() && refused_.empty() && !delivering_.load(std::memory_order_acquire);
  }
  bool answered() const BRAID_REQUIRES(mutex_) { return returned() && free_slots_.size() == slots_.size(); }

  ExecutionListener& listener() const { return *listener_.load(std::memory_order_acquire); }

  // WorkerUser; those who override one call it first.
  Status OnUp(const WorkerLink& link, const WorkerProcess::Answer& loaded) override;
  void OnDown(const std::string& reason) override;
  void OnDead() override;
  void OnGone(const std::string& reason) override;

  std::atomic<ExecutionListener*> listener_{nullptr};  // set once, before the first execution
  std::atomic<bool> delivering_{false};                // a thread delivers responses; set with mutex_ held

  mutable Mutex mutex_;  // a leaf lock: nothing that blocks is called with it held
  WorkerLink link_;      // changed with mutex_ held by the host's thread, which reads it without
  std::deque<Running> running_ BRAID_GUARDED_BY(mutex_);  // in the order of their ids
  std::vector<Slot> slots_ BRAID_GUARDED_BY(mutex_);
  // Since when user code could work on the first of them, or has last answered one of its requests.
  int64_t front_since_ns_ BRAID_GUARDED_BY(mutex_) = 0;

 private:
  struct Refused {
    Instance* instance;
    std::unique_ptr<Execution> execution;
    Status status;  // OK: it can run elsewhere
  };
  struct Unstarted {
    Instance* instance;
    std::vector<std::unique_ptr<Execution>> executions;
  };
  uint32_t TakeSlot() BRAID_REQUIRES(mutex_);
  void SetAvailable(bool available);

  // The host's thread's own.
  bool available_;            // as the listener knows it
  std::vector<Slot> failed_;  // of a worker that is dead
  std::vector<Unstarted> unstarted_;

  bool accepting_ BRAID_GUARDED_BY(mutex_) = false;  // the worker has loaded its code, and lives
  std::string reason_ BRAID_GUARDED_BY(mutex_);      // why not accepting
  uint64_t next_id_ BRAID_GUARDED_BY(mutex_) = 1;
  std::vector<uint32_t> free_slots_ BRAID_GUARDED_BY(mutex_);
  std::vector<Refused> refused_ BRAID_GUARDED_BY(mutex_);
  std::atomic<bool> any_refused_{false};  // false: refused_ is empty; set with mutex_ held
};

}  // namespace braid
