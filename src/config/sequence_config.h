// What a `sequence_batching` of a configuration must be like.
#pragma once

#include "config/field_fault.h"
#include "model_config.pb.h"

namespace braid {

// What can be judged before the model completes its own configuration: strategy, controls and states by
// themselves. REQUIRES: config.has_sequence_batching(). Errors: INVALID_ARGUMENT with the first fault found.
FieldFault CheckSequenceBatching(const inference::ModelConfig& config);

// Whether controls and states go with the inputs and outputs of the configuration. Errors: as above.
FieldFault CheckSequenceTensors(const inference::ModelConfig& config);

}  // namespace braid
