// A short-lived worker that asks a model to complete its own configuration.
#pragma once

#include <cstdint>
#include <string>

#include "serving/custom_metrics.h"
#include "workers/worker_process.h"

namespace braid {

// Blocks on user code. The JSON text of the completed configuration; empty when the model completes nothing.
// Errors: those of user code with their texts; the worker died. `metrics` are those that it may make
// meanwhile; null for none. User code has `timeout_ns`, 0 for as long as it needs.
Result<std::string> AutoCompleteConfig(const WorkerFacts& facts, WorkerSpawner& spawner, int64_t timeout_ns,
                                       CustomMetrics* metrics);

}  // namespace braid
