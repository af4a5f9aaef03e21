// Checks of a configuration's `sequence_batching`.
#pragma once

#include "config/field_fault.h"
#include "model_config.pb.h"

namespace braid {

// Checks strategy, controls and states on their own, before the model completes its configuration. REQUIRES:
// config.has_sequence_batching(). Errors: INVALID_ARGUMENT with the first fault.
FieldFault CheckSequenceBatching(const inference::ModelConfig& config);

// Checks that controls and states match the configuration's inputs and outputs. Errors: as above.
FieldFault CheckSequenceTensors(const inference::ModelConfig& config);

}  // namespace braid
