// Makes a servable of a model that a backend runs, with the policy that its configuration asks for.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "scheduling/instance_pool.h"

namespace braid {

// Starts the backend's instances and waits for them. `info.config` is set and valid. Stateful models
// (info.stateful) get states, those with `sequence_batching` sequences; the others one queue. `timers` and
// `log` outlive the model. Errors: what kept the instances from starting; INVALID_ARGUMENT for a batching
// that cannot be; UNSUPPORTED for sequence_batching on instances that ask for resources, when the rate is
// limited.
Result<std::shared_ptr<InstancePool>> StartModel(ServableInfo info, std::unique_ptr<BackendModel> backend,
                                                 Timers& timers, Logger& log,
                                                 const std::function<void(const std::string&)>& progress,
                                                 const InstancePool::Options& options = {});

}  // namespace braid
