#include "backends/native/native_function.h"

#include <chrono>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/guard.h"

namespace braid {
namespace {

constexpr int64_t kStopNs = 10'000'000'000;
// The same as in InstancePool.
constexpr int kMostReturns = 3;

}  // namespace

Result<std::unique_ptr<NativeFunction>> NativeFunction::Load(NativeWorkers& workers, const std::string& name,
                                                             const NativeTask& task) {
  BRAID_ASSIGN_OR_RETURN(auto model, workers.MakeModel(name, task, nullptr));
  std::unique_ptr<NativeFunction> function(
      new NativeFunction(std::move(model), task.most_calls, workers.options().outage_wait_ns));
  BRAID_ASSIGN_OR_RETURN(function->answer_, function->model_->Load());
  std::vector<NativeModel::InstanceName> names;
  for (size_t i = 0; i < task.most_calls; ++i) names.push_back({"call_" + std::to_string(i)});
  function->model_->AddInstances(names);
  function->instances_ = function->model_->instances();
  BRAID_RETURN_IF_ERROR(function->model_->Start(*function, [](const std::string&) {}));
  return function;
}

NativeFunction::NativeFunction(std::unique_ptr<NativeModel> model, size_t most_calls, int64_t outage_wait_ns)
    : outage_wait_ns_(outage_wait_ns), slots_(most_calls), model_(std::move(model)) {
  for (size_t i = 0; i < most_calls; ++i) free_.push_back(i);
}

NativeFunction::~NativeFunction() {
  Stop(SteadyNowNs() + kStopNs);
  MutexLock lock(mutex_);
  BRAID_CHECK(free_.size() == slots_.size());
}

void NativeFunction::Stop(int64_t deadline_ns) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    changed_.NotifyAll();
  }
  model_->Stop(deadline_ns);
}

NativeFunction::Slot& NativeFunction::SlotOf(const Instance& instance) {
  return slots_[static_cast<const NativeInstance&>(instance).index()];
}

Status NativeFunction::AwaitWorker() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(outage_wait_ns_);
  while (!available_ && !stopped_) {
    if (changed_.WaitUntil(mutex_, deadline) || available_) continue;
    return UnavailableError(model_->readiness().reason);
  }
  return stopped_ ? UnavailableError("it was stopped") : OkStatus();
}

Result<std::vector<Tensor>> NativeFunction::Call(std::vector<Tensor> inputs) {
  const RetryingAllocation retrying;
  auto execution = std::make_unique<Execution>();
  execution->rows = 1;
  execution->requests.push_back(std::make_unique<InferenceRequest>());
  execution->requests[0]->inputs = std::move(inputs);
  InferenceResponse response;
  {
    MutexLock lock(mutex_);
    while (free_.empty()) changed_.Wait(mutex_);
    const size_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    for (int returns = 0;; ++returns) {
      if (response.status = AwaitWorker(); !response.status.ok()) break;
      if (returns >= kMostReturns) {
        response.status = UnavailableError("its process died " + std::to_string(returns) +
                                           " times before the call started");
        break;
      }
      execution->compute_start_ns = SteadyNowNs();
      // Holds the lock, so that no execution follows a stop. Execute() calls no listener directly.
      instances_[index]->Execute(std::move(execution));
      while (!slot.response && slot.unstarted == nullptr) slot.ended.Wait(mutex_);
      if (slot.response) {
        response = *std::exchange(slot.response, std::nullopt);
        break;
      }
      execution = std::move(slot.unstarted);
    }
    free_.push_back(index);
    changed_.NotifyAll();
  }
  BRAID_RETURN_IF_ERROR(response.status);
  return std::move(response.outputs);
}

void NativeFunction::OnResponse(Instance& instance, InferenceRequest&,
                                std::optional<InferenceResponse> response, bool, const ExecutionTimes&) {
  MutexLock lock(mutex_);
  Slot& slot = SlotOf(instance);
  slot.response = std::move(response).value_or(InferenceResponse());
  slot.ended.NotifyOne();
}

void NativeFunction::OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) {
  MutexLock lock(mutex_);
  Slot& slot = SlotOf(instance);
  slot.unstarted = std::move(executions.front());
  slot.ended.NotifyOne();
}

void NativeFunction::OnAvailability(Instance&, bool available) {
  MutexLock lock(mutex_);
  available_ = available;
  changed_.NotifyAll();
}

}  // namespace braid
