// WarmupListener: stands between a backend and the scheduler of a model, so that each instance can be warmed
// up by the normal way of an execution, before the scheduler has the model to itself.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "scheduling/instance.h"
#include "serving/servable.h"
#include "serving/warmup.h"

namespace braid {

class WarmupListener final : public ExecutionListener {
 public:
  // `model` hears everything that does not belong to the warm-up.
  explicit WarmupListener(ExecutionListener& model) : model_(model) {}

  // Runs every sample on every instance, as often as it says; blocks on user code. Nothing of it is counted,
  // and nobody sees the responses. `prepare` adds what the scheduler gives a request beside the client's
  // inputs. What a sample has beyond the inputs of the configuration (control tensors, states, and inputs
  // that no client can send) is given to the model as it is, in place of what `prepare` has added by that
  // name. REQUIRES: the backend has started, and the model has no requests yet. Errors: INVALID_ARGUMENT
  // "failed to run warmup sample '{name}': {error}; ".
  Status Run(const ServableInfo& info, const std::vector<Instance*>& instances,
             const std::vector<WarmupSample>& samples, const std::function<void(InferenceRequest&)>& prepare,
             const std::function<void(const std::string&)>& progress);

  void OnExecuted(Instance& instance, int64_t rows, size_t request_count,
                  const ExecutionTimes& times) override;
  void OnDelivered(Instance& instance) override { model_.OnDelivered(instance); }
  void OnResponse(Instance& instance, InferenceRequest& request, std::optional<InferenceResponse> response,
                  bool final, const ExecutionTimes& times) override;
  void OnRescheduled(Instance& instance, std::unique_ptr<InferenceRequest> request) override;
  void OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) override;
  void OnAvailability(Instance& instance, bool available) override;

 private:
  Status RunOne(const ServableInfo& info, Instance& instance, const WarmupSample& sample,
                const std::function<void(InferenceRequest&)>& prepare);
  // Whether an execution that has returned was one of the warm-up: a decoupled model may answer before it.
  bool TakeExecution(Instance& instance);

  ExecutionListener& model_;
  std::atomic<bool> warming_{false};
  std::atomic<int> running_{0};  // executions of the warm-up that have not returned
  std::mutex mutex_;
  std::map<Instance*, int> running_of_;  // the same by instance; guarded by mutex_
};

}  // namespace braid
