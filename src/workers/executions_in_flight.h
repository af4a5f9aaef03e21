// ExecutionsInFlight: the executions and requests in one worker, across its restarts.
//
//   Hand() ---> sent ---> TakeReturned() ---> responses
//     |          |
//     |          +-- the worker dies: begun ones fail, others return to the scheduler
//     +-- not sent: returned or failed by the next TellRefused()
//
// A base class for users of a worker that runs executions. It calls the listener on the host's thread, with
// no lock held.
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
  // The reason why the worker takes no executions; nullopt while it does. Any thread.
  std::optional<std::string> NotReadyReason() const;

 protected:
  // A request in the worker, by its index in slots_.
  struct Slot {
    std::unique_ptr<InferenceRequest> request;
    uint32_t generation = 1;       // never 0, so that no request has the name 0
    Instance* instance = nullptr;  // its instance, as the listener knows it
    uint64_t execution_id = 0;
    ExecutionTimes times;     // known after the execution has returned
    int64_t progress_ns = 0;  // with a limit: start of the present wait for a response
    bool given_up = false;    // failed by the limit; later responses are dropped
  };
  struct Running {
    uint64_t id = 0;
    Instance* instance = nullptr;
    int64_t rows = 0;
    int64_t compute_start_ns = 0;
    boost::container::small_vector<uint32_t, 4> slots;  // one for each request
    std::shared_ptr<const CallChain> chain;             // of calls that block it; made with the first one
  };

  // `available`: whether the listener assumes that a new instance is available.
  explicit ExecutionsInFlight(bool available) : available_(available) {}
  ~ExecutionsInFlight() = default;

  // Encodes an execution and sends it to the worker.
  virtual Status Send(const Running& running, const Execution& execution) BRAID_REQUIRES(mutex_) = 0;
  // Reports the availability of all instances to the listener.
  virtual void TellAvailable(bool available) = 0;

  // Accepts an execution; with an error in `refused` it is not sent, and fails with that error. Returns false
  // if the caller must wake the host. Any thread, one at a time for each instance.
  bool Hand(Instance& instance, std::unique_ptr<Execution> execution, Status refused = {});
  // Reports the executions that Hand() could not send. For OnRound().
  void TellRefused();
  // Ends an execution that the worker has returned from; its requests stay in flight until they are answered.
  // Errors: the worker has no such execution.
  Result<Running> TakeReturned(uint64_t id, int64_t input_end_ns, int64_t infer_end_ns, ExecutionTimes& times)
      BRAID_REQUIRES(mutex_);
  // Returns the name of a request for the message of Send().
  uint64_t NameOf(uint32_t slot) const BRAID_REQUIRES(mutex_) {
    return uint64_t{slots_[slot].generation} << 32 | slot;
  }
  // Returns the slot of a request by its name, even if it was given up; null if there is none.
  Slot* Find(uint64_t name) BRAID_REQUIRES(mutex_);
  void FreeSlot(uint32_t slot) BRAID_REQUIRES(mutex_);
  // returned(): the worker has returned from all executions, and their results were delivered. answered():
  // each request has its final response too.
  bool returned() const BRAID_REQUIRES(mutex_) {
    return running_.empty() && refused_.empty() && !delivering_.load(std::memory_order_acquire);
  }
  bool answered() const BRAID_REQUIRES(mutex_) { return returned() && free_slots_.size() == slots_.size(); }

  ExecutionListener& listener() const { return *listener_.load(std::memory_order_acquire); }

  // WorkerUser. An override calls the method of this class first.
  Status OnUp(const WorkerLink& link, const WorkerProcess::Answer& loaded) override;
  void OnDown(const std::string& reason) override;
  void OnDead() override;
  void OnGone(const std::string& reason) override;
  std::string RequestsNow() override;

  std::atomic<ExecutionListener*> listener_{nullptr};  // set once, before the first execution
  std::atomic<bool> delivering_{false};                // a thread delivers responses; set with mutex_ held

  mutable Mutex mutex_;  // a leaf lock; no blocking calls while it is held
  WorkerLink link_;      // the host's thread changes it with mutex_ held, and reads it without
  std::deque<Running> running_ BRAID_GUARDED_BY(mutex_);  // sorted by id
  std::vector<Slot> slots_ BRAID_GUARDED_BY(mutex_);
  // Since when user code could work on the front execution, or has last answered one of its requests.
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

  // Used by the host's thread only.
  bool available_;            // as last reported to the listener
  std::vector<Slot> failed_;  // of a dead worker
  std::vector<Unstarted> unstarted_;

  bool accepting_ BRAID_GUARDED_BY(mutex_) = false;  // the worker is alive and has loaded its code
  std::string reason_ BRAID_GUARDED_BY(mutex_);      // why it does not accept
  uint64_t next_id_ BRAID_GUARDED_BY(mutex_) = 1;
  std::vector<uint32_t> free_slots_ BRAID_GUARDED_BY(mutex_);
  std::vector<Refused> refused_ BRAID_GUARDED_BY(mutex_);
  std::atomic<bool> any_refused_{false};  // false: refused_ is empty; set with mutex_ held
};

}  // namespace braid
