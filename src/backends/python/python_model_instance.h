// PythonModelInstance: an instance of a Python model, as the model starts and ends it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "scheduling/instance.h"
#include "serving/servable.h"

namespace braid {

class PythonModelInstance : public Instance {
 public:
  // Begins to start; `on_started` is called once, on a thread of the instance: when it is initialised, or with what kept
  // it from that (the instance is then over). `on_idle` is called on such a thread now and then.
  virtual void Start(ExecutionListener& listener, std::function<void(Status)> on_started,
                     std::function<void()> on_idle) = 0;
  // Has user code finalize and end; returns at once. At `deadline_ns` the process is killed.
  virtual void BeginStop(int64_t deadline_ns) = 0;
  // Waits for the end of processes and threads. REQUIRES: BeginStop() was called.
  virtual void Join() = 0;

  // The rest: any thread.

  // Why it cannot run now; nothing when it can.
  virtual std::optional<std::string> NotReadyReason() const = 0;
  // Whether it is ready, its user code's is_ready() asked too. `done` is called once, perhaps before this returns, on any
  // thread.
  virtual void CheckReadiness(std::function<void(Readiness)> done) = 0;
  // What it waits for while it starts, for progress reports.
  virtual std::string Progress() const = 0;
  // As BackendModel has it; known once it has started.
  virtual bool saves_sequences() const = 0;
  // A segment of the arena is gone.
  virtual void RetireSegment(uint32_t segment) = 0;
};

}  // namespace braid
