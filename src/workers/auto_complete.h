// Lets a model complete its own configuration, in a short-lived worker.
#pragma once

#include <cstdint>
#include <string>

#include "serving/custom_metrics.h"
#include "workers/worker_process.h"

namespace braid {

// Returns the JSON text of the completed configuration; empty when the model completes nothing. Blocks on
// user code, for at most `timeout_ns`; 0: no limit. User code may create metrics in `metrics`; null: none.
// Errors: those of user code with their texts; the worker died.
Result<std::string> AutoCompleteConfig(const WorkerFacts& facts, WorkerSpawner& spawner, int64_t timeout_ns,
                                       CustomMetrics* metrics);

}  // namespace braid
