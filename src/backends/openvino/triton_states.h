// Variables of a Triton repository's model: with `sequence_batching` each becomes a `state` of the
// configuration, which the server keeps for each sequence as it does any other.
#pragma once

#include <openvino/openvino.hpp>

#include "backends/openvino/model_states.h"
#include "backends/openvino/tensor_names.h"
#include "base/status.h"
#include "model_config.pb.h"

namespace braid {

// Takes the states out of the model of a configuration with sequence_batching. Changes `model`. Errors:
// UNSUPPORTED for states that no configuration can say.
Result<ModelStates> TakeTritonStates(const inference::ModelConfig& config, ov::Model& model);

// Adds a `state` for each that the configuration does not have yet; its input and its output are called as
// the variable is.
Status CompleteTritonStates(const ModelStates& states, inference::ModelConfig& config);

// Checks that the configuration has each of the states, and that sequences begin as the model says; adds them
// to `names`, which are those of the model without them. Errors: INVALID_ARGUMENT, which names the state.
Status FitTritonStates(const inference::ModelConfig& config, const ModelStates& states, ModelNames& names);

}  // namespace braid
