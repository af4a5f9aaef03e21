// Warm-up: runs the samples of a model's configuration on its instances, by the normal way of an execution,
// before the model has its first request.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "scheduling/instance.h"
#include "serving/servable.h"
#include "serving/warmup.h"

namespace braid {

// Runs every sample on every instance, as often as it says, one execution at a time; blocks on user code.
// `execute` gives an instance an execution. What comes back goes to the requests'
// sinks, and is not counted. `prepare` adds what the scheduler gives a request
// beside the client's inputs. What a sample has beyond the inputs of the configuration (control tensors,
// states, and inputs that no client can send) is given to the model as it is, in place of what `prepare` has
// added by that name. REQUIRES: the backend has started, and the model has no requests yet. Errors:
// INVALID_ARGUMENT "failed to run warmup sample '{name}': {error}; ".
Status RunWarmup(const ServableInfo& info, const std::vector<Instance*>& instances,
                 const std::vector<WarmupSample>& samples,
                 const std::function<void(InferenceRequest&)>& prepare,
                 const std::function<void(Instance&, std::unique_ptr<Execution>)>& execute,
                 const std::function<void(const std::string&)>& progress);

}  // namespace braid
