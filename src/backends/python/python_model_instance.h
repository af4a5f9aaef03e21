// PythonModelInstance: an instance of a Python model, with its start and end.
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
  // Begins to start. Calls `on_started` once, on a thread of the instance: when it is initialised, or with the
  // error if the start failed (the instance is then over). Calls `on_idle` on such a thread from time to time.
  virtual void Start(ExecutionListener& listener, std::function<void(Status)> on_started,
                     std::function<void()> on_idle) = 0;
  // Begins to finalize user code and to end; returns at once. At `deadline_ns` the process is killed.
  virtual void BeginStop(int64_t deadline_ns) = 0;
  // Waits until processes and threads have ended. REQUIRES: BeginStop() was called.
  virtual void Join() = 0;

  // All following methods: any thread.

  // The reason why it cannot run now; nullopt when it can.
  virtual std::optional<std::string> NotReadyReason() const = 0;
  // Checks whether it is ready, by user code's is_ready() too. `done` is called once, perhaps before this
  // returns, on any thread.
  virtual void CheckReadiness(std::function<void(Readiness)> done) = 0;
  // The state of its start, for progress reports.
  virtual std::string Progress() const = 0;
  // As in BackendModel; known after the start.
  virtual bool saves_sequences() const = 0;
  // The arena has deleted a segment.
  virtual void RetireSegment(uint32_t segment) = 0;
};

}  // namespace braid
