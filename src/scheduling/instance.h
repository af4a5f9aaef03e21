// Instance: one place where executions of a model run, one after the other. A Python model's instance is a
// worker process.
//
// The scheduler decides which requests go together and when; the instance runs them and answers them. Both
// ends are asynchronous: Execute() hands requests over, the ExecutionListener hears how it went.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "serving/request.h"
#include "serving/statistics.h"
#include "serving/structure.h"

namespace braid {

// What one call of user code works on.
struct Execution {
  std::vector<std::unique_ptr<InferenceRequest>> requests;
  int64_t rows = 0;              // sum of the requests' batch sizes
  int64_t compute_start_ns = 0;  // when it left the queue
  uint32_t life = 0;             // the scheduler's own note: for which life of the instance it was meant
  // The thread that calls Execute() may spend a few tens of microseconds in it: an instance whose user code
  // takes no longer can run it at once, and call the listener from within.
  bool on_callers_thread = false;
};

class Instance;

// Hears what becomes of executions. Called by one thread of the instance at a time, with no lock of the
// backend held, since it calls Execute() of this and other instances, and sinks. It does not block. The
// thread may be one that is within Execute(), when the execution allows that.
//
// When an instance dies, these calls come in this order: OnAvailability(false), OnResponse for what user code
// had begun, OnUnstarted for the rest, and once it runs again OnAvailability(true). There is no OnExecuted
// for what it died with.
class ExecutionListener {
 public:
  virtual ~ExecutionListener() = default;

  // User code has returned from an execution of `rows` rows; the instance can take another. Comes before the
  // responses that were returned, so that statistics are never behind what a client sees. `request_count` is
  // that of the execution.
  virtual void OnExecuted(Instance& instance, int64_t rows, size_t request_count,
                          const ExecutionTimes& times) = 0;

  // All that came together with the OnExecuted before it has been told: responses and reschedulings.
  virtual void OnDelivered(Instance& instance) { (void)instance; }

  // A response to a request, which the listener delivers to the request's sink. `response` is empty only
  // together with `final`. With `final` the request has ended when this returns; the instance, which owns it,
  // destroys it then.
  virtual void OnResponse(Instance& instance, InferenceRequest& request,
                          std::optional<InferenceResponse> response, bool final,
                          const ExecutionTimes& times) = 0;

  // User code has let go of a request without its end, so that it is scheduled again, as it was when it came.
  // Comes after OnExecuted of its execution.
  virtual void OnRescheduled(Instance& instance, std::unique_ptr<InferenceRequest> request) = 0;

  // The instance died with executions which user code never began: they can run elsewhere.
  virtual void OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) = 0;

  // The instance is to be given a fresh process, while it serves. Until OnReplaced(), what would bind itself to the
  // process goes to other instances, where there are some; with `last_call` it waits in any case. Returns how many
  // sequences are open that the process may know of.
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

  // The name user code sees, e.g. "add_sub_0_0".
  virtual const std::string& name() const = 0;

  // Takes an execution; never blocks. Several may be handed over ahead, they run in this order. Requests of
  // an instance that is not available come back by OnUnstarted. Any thread, but one at a time.
  virtual void Execute(std::unique_ptr<Execution> execution) = 0;

  // Whether its user code calls other servables (it has done so before). What is handed over ahead to such an
  // instance would wait for its calls as well, and could be what they wait for. Any thread.
  virtual bool makes_calls() const { return false; }

  // What it is now, for people. Any thread; does not block.
  virtual InstanceReport report() const {
    InstanceReport report;
    report.name = name();
    return report;
  }

  // A passive instance is initialised and never scheduled.
  virtual bool passive() const { return false; }
};

}  // namespace braid
