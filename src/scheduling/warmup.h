// Warm-up: runs the samples of a model's configuration on its instances, as normal executions, before the
// model's first request.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "scheduling/instance.h"
#include "serving/servable.h"
#include "serving/warmup.h"

namespace braid {

// Runs every sample on every instance, as often as the sample says, one execution at a time; blocks on user
// code. `execute` gives an instance an execution. Responses go to the requests' sinks and are not counted.
// `prepare` adds the inputs that the scheduler adds to a client's request.
//
// A sample may have inputs that the configuration does not list: control tensors, states, and inputs that no
// client can send. They go to the model unchanged, and replace inputs of that name that `prepare` added.
//
// REQUIRES: the backend has started, and the model has no requests yet. Errors: INVALID_ARGUMENT "failed to
// run warmup sample '{name}': {error}; ".
Status RunWarmup(const ServableInfo& info, const std::vector<Instance*>& instances,
                 const std::vector<WarmupSample>& samples,
                 const std::function<void(InferenceRequest&)>& prepare,
                 const std::function<void(Instance&, std::unique_ptr<Execution>)>& execute,
                 const std::function<void(const std::string&)>& progress);

}  // namespace braid
