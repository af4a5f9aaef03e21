// Instance: runs executions of a model, one after the other. A Python model's instance is a worker process.
//
// The scheduler decides which requests go together and when; the instance runs and answers them. Both
// directions are asynchronous: Execute() hands requests over, and the ExecutionListener is notified of the
// results.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "serving/request.h"
#include "serving/statistics.h"
#include "serving/structure.h"

namespace braid {

// The requests of one call of user code.
struct Execution {
  std::vector<std::unique_ptr<InferenceRequest>> requests;
  int64_t rows = 0;              // sum of the requests' batch sizes
  int64_t compute_start_ns = 0;  // when it left the queue
  uint32_t life = 0;             // used by the scheduler only: the life of the instance for which it was
                                 // meant
  // Whether the thread that calls Execute() may spend a few tens of microseconds in it. An instance whose
  // user code is that fast can then run it at once, and call the listener from within Execute().
  bool on_callers_thread = false;
};

class Instance;

// A listener for the results of executions. One thread of the instance calls it at a time. The backend holds
// no lock, since the listener calls Execute() of this and other instances, and sinks. It does not block. The
// calling thread may be inside Execute(), if the execution allows that.
//
// When an instance dies, the calls come in this order: OnAvailability(false), OnResponse for requests that
// user code had begun, OnUnstarted for the rest. Once it runs again, OnAvailability(true) follows. OnExecuted
// is not called for the executions it died with.
class ExecutionListener {
 public:
  virtual ~ExecutionListener() = default;

  // User code has returned from an execution of `rows` rows and `request_count` requests; the instance can
  // take another. It comes before the returned responses, so that statistics are never behind the responses
  // that a client sees.
  virtual void OnExecuted(Instance& instance, int64_t rows, size_t request_count,
                          const ExecutionTimes& times) = 0;

  // All responses and reschedulings that came with the preceding OnExecuted have been reported.
  virtual void OnDelivered(Instance& instance) { (void)instance; }

  // A response to a request, which the listener delivers to the request's sink. `response` is empty only
  // together with `final`. With `final`, the request has ended when this returns; the instance, which owns
  // it, then destroys it.
  virtual void OnResponse(Instance& instance, InferenceRequest& request,
                          std::optional<InferenceResponse> response, bool final,
                          const ExecutionTimes& times) = 0;

  // User code has released a request before its end, so that it is scheduled again in its original form.
  // Comes after OnExecuted of its execution.
  virtual void OnRescheduled(Instance& instance, std::unique_ptr<InferenceRequest> request) = 0;

  // The instance died before user code began these executions. They can run elsewhere.
  virtual void OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) = 0;

  // The instance will get a fresh process while it serves. Until OnReplaced(), new bindings to the process
  // (sequences) go to other instances if there are any. With `last_call` they wait in any case. Returns the
  // number of open sequences that the process may know.
  virtual size_t OnReplacing(Instance& instance, bool last_call) {
    static_cast<void>(instance);
    static_cast<void>(last_call);
    return 0;
  }
  virtual void OnReplaced(Instance& instance) { (void)instance; }

  // The instance can run executions again, or cannot for now (it died and is being restarted).
  virtual void OnAvailability(Instance& instance, bool available) = 0;
};

class Instance {
 public:
  virtual ~Instance() = default;

  // The name that user code sees, e.g. "add_sub_0_0".
  virtual const std::string& name() const = 0;

  // Takes an execution; never blocks. Several may be handed over ahead of time; they run in this order. An
  // instance that is not available returns its requests by OnUnstarted. Any thread, but one at a time.
  virtual void Execute(std::unique_ptr<Execution> execution) = 0;

  // Whether its user code has called other servables. An execution that is handed over ahead to such an
  // instance would wait for these calls, and the calls might wait for it. Any thread.
  virtual bool makes_calls() const { return false; }

  // Its current state, for display. Any thread; does not block.
  virtual InstanceReport report() const {
    InstanceReport report;
    report.name = name();
    return report;
  }

  // A passive instance is initialised but never scheduled.
  virtual bool passive() const { return false; }
};

}  // namespace braid
