// NativeFunction: a blocking call of a function of tensors in a native worker.
//
//   BRAID_ASSIGN_OR_RETURN(auto function, NativeFunction::Load(workers, "resize", task));
//   BRAID_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, function->Call(inputs));
//
// If a worker dies, the calls that it had begun fail, and it is restarted; other calls wait for the restart.
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
  // Starts a worker for the task; blocks. The worker runs up to `task.most_calls` calls at once, and others
  // wait. `workers` outlives this. Errors: those of loading; the worker died.
  static Result<std::unique_ptr<NativeFunction>> Load(NativeWorkers& workers, const std::string& name,
                                                      const NativeTask& task);
  // Stops the worker if Stop() was not called. REQUIRES: no call runs.
  ~NativeFunction() override;

  // Ends the worker, at `deadline_ns` (SteadyNowNs()) by force. Running and later calls fail.
  void Stop(int64_t deadline_ns);

  const NativeAnswer& answer() const { return answer_; }

  // Calls the function. Any thread; blocks while the function runs. Inputs in memory from a worker or from
  // input_allocator() are read in place; others are copied once. Errors: those of the function; INTERNAL when
  // the worker died with the call. UNAVAILABLE when no worker was available for
  // NativeWorkers::Options::outage_wait_ns, or when several workers died before they began the call.
  Result<std::vector<Tensor>> Call(std::vector<Tensor> inputs);
  // The report of the worker. Any thread; does not block.
  InstanceReport report() const { return model_->report(); }
  // The preferred memory for inputs.
  BufferAllocator& input_allocator() { return model_->input_allocator(); }

 private:
  // A place for a running call, with the index of its instance.
  struct Slot {
    // At the end: a response, or the execution that no worker has begun.
    std::optional<InferenceResponse> response;
    std::unique_ptr<Execution> unstarted;
    CondVar ended;
  };

  NativeFunction(std::unique_ptr<NativeModel> model, size_t most_calls, int64_t outage_wait_ns);

  Slot& SlotOf(const Instance& instance) BRAID_REQUIRES(mutex_);
  // Waits until a worker is available. Errors: UNAVAILABLE.
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
  CondVar changed_;  // a slot is free, or a worker is available
  std::vector<Slot> slots_ BRAID_GUARDED_BY(mutex_);
  std::vector<size_t> free_ BRAID_GUARDED_BY(mutex_);
  bool available_ BRAID_GUARDED_BY(mutex_) = true;
  bool stopped_ BRAID_GUARDED_BY(mutex_) = false;
  const std::unique_ptr<NativeModel> model_;  // destroyed first: it calls this listener
};

}  // namespace braid
