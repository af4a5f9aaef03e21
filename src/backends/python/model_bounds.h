// ModelBounds: limits on the user code of a Python model, and on the memory of its processes. The server's
// options set them for all models, and a model's configuration for one:
//
//   parameters { key: "EXECUTE_TIMEOUT_MS" value { string_value: "2000" } }
#pragma once

#include <cstdint>

#include "config/field_fault.h"

namespace inference {
class ModelConfig;
}

namespace braid {

// Whether the instances of a model are forked from a template after initialize(). kAuto: if the process can be
// forked then.
enum class ShareInstances : unsigned char { kOff, kAuto, kOn };

struct ModelBounds {
  static constexpr int64_t kMostMs = 1'000'000'000;

  // In milliseconds; 0: no limit.
  int64_t execute_timeout_ms = 0;     // EXECUTE_TIMEOUT_MS: time without a response
  int64_t initialize_timeout_ms = 0;  // INITIALIZE_TIMEOUT_MS: from the import of the model
  int64_t finalize_timeout_ms = 0;    // FINALIZE_TIMEOUT_MS
  // WORKER_MEMORY_MAX_BYTES: of one process, with its share of shared memory (PSS); 0: no limit.
  uint64_t memory_max_bytes = 0;
  ShareInstances share_instances = ShareInstances::kOff;  // SHARE_INSTANCES: off, auto, on

  int64_t execute_timeout_ns() const { return execute_timeout_ms * 1'000'000; }
  int64_t initialize_timeout_ns() const { return initialize_timeout_ms * 1'000'000; }
  int64_t finalize_timeout_ns() const { return finalize_timeout_ms * 1'000'000; }
};

// Sets `bounds` from the configuration's parameters; the others keep their values from the options. Faults:
// INVALID_ARGUMENT for a parameter with another kind of value.
FieldFault ReadBounds(const inference::ModelConfig& config, ModelBounds& bounds);

}  // namespace braid
