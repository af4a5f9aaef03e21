// NativeFunction: a function of tensors that a native worker runs, as a call that blocks.
//
//   BRAID_ASSIGN_OR_RETURN(auto function, NativeFunction::Load(workers, "resize", task));
//   BRAID_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, function->Call(inputs));
//
// A worker that dies fails the calls that it had begun, and is started anew; others wait for that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/native/native_workers.h"
#include "base/mutex.h"
#include "base/status.h"
#include "scheduling/instance.h"
#include "tensor/tensor.h"

namespace braid {

class NativeFunction final : private ExecutionListener {
 public:
  // Starts a worker for the task, where up to `task.most_calls` calls run at once and others wait; blocks. `workers` outlives
  // this. Errors: those of loading; the worker died.
  static Result<std::unique_ptr<NativeFunction>> Load(NativeWorkers& workers, const std::string& name,
                                                      const NativeTask& task);
  // Stops it, if that was not done. REQUIRES: no call runs.
  ~NativeFunction() override;

  // Ends the worker, at `deadline_ns` (SteadyNowNs()) by force; calls that still run then fail, and so do those that come.
  void Stop(int64_t deadline_ns);

  const NativeAnswer& answer() const { return answer_; }

  // Any thread; blocks for as long as the function takes. Inputs are read in place where they lie in memory that a worker
  // gave or that comes from input_allocator(), and copied once otherwise. Errors: those of the function; INTERNAL when the
  // worker has died with the call; UNAVAILABLE when there is no worker for NativeWorkers::Options::outage_wait_ns, or several
  // have died before they began with the call.
  Result<std::vector<Tensor>> Call(std::vector<Tensor> inputs);
  // Of its worker. Any thread; does not block.
  InstanceReport report() const { return model_->report(); }
  // Where inputs are best written to.
  BufferAllocator& input_allocator() { return model_->input_allocator(); }

 private:
  // One that may run; calls have the index of the instance that runs them.
  struct Slot {
    // What has become of it: nothing yet, a response, or the execution that no worker has begun.
    std::optional<InferenceResponse> response;
    std::unique_ptr<Execution> unstarted;
    CondVar ended;
  };

  NativeFunction(std::unique_ptr<NativeModel> model, size_t most_calls, int64_t outage_wait_ns);

  Slot& SlotOf(const Instance& instance) BRAID_REQUIRES(mutex_);
  // Waits until there is a worker. Errors: UNAVAILABLE.
  Status AwaitWorker() BRAID_REQUIRES(mutex_);

  // ExecutionListener.
  void OnExecuted(Instance&, int64_t, size_t, const ExecutionTimes&) override {}
  void OnResponse(Instance& instance, InferenceRequest& request, std::optional<InferenceResponse> response,
                  bool final, const ExecutionTimes& times) override;
  void OnRescheduled(Instance&, std::unique_ptr<InferenceRequest>) override {}
  void OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) override;
  void OnAvailability(Instance& instance, bool available) override;

  const int64_t outage_wait_ns_;
  NativeAnswer answer_;  // constant after Load()
  std::vector<Instance*> instances_;

  Mutex mutex_;
  CondVar changed_;  // a slot is free, or there is a worker
  std::vector<Slot> slots_ BRAID_GUARDED_BY(mutex_);
  std::vector<size_t> free_ BRAID_GUARDED_BY(mutex_);
  bool available_ BRAID_GUARDED_BY(mutex_) = true;
  bool stopped_ BRAID_GUARDED_BY(mutex_) = false;
  const std::unique_ptr<NativeModel> model_;  // ends before what it calls
};

}  // namespace braid
