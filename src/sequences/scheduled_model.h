// Creates a servable for a model that a backend runs, with the policy of its configuration.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "scheduling/instance_pool.h"

namespace braid {

// Starts the backend's instances and waits for them. Stateful models (info.stateful) have states, those with
// `sequence_batching` sequences, and all others one queue. `timers` and `log` outlive the model. REQUIRES:
// `info.config` is set and valid. Errors: the error of an instance that did not start; INVALID_ARGUMENT for
// invalid batching; UNSUPPORTED for sequence_batching on instances with resources, if the rate is limited.
Result<std::shared_ptr<InstancePool>> StartModel(ServableInfo info, std::unique_ptr<BackendModel> backend,
                                                 Timers& timers, Logger& log,
                                                 const std::function<void(const std::string&)>& progress,
                                                 const InstancePool::Options& options = {});

}  // namespace braid
