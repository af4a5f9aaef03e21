// Variables in models of a Triton repository. With `sequence_batching` each one becomes a `state` of the
// configuration, which the server keeps for each sequence like any other.
#pragma once

#include <openvino/openvino.hpp>

#include "backends/openvino/model_states.h"
#include "backends/openvino/tensor_names.h"
#include "base/status.h"
#include "model_config.pb.h"

namespace braid {

// Takes the states out of `model`, whose configuration has sequence_batching. Errors: UNSUPPORTED for states
// that a configuration cannot express.
Result<ModelStates> TakeTritonStates(const inference::ModelConfig& config, ov::Model& model);

// Adds a `state` for each one missing from the configuration; its input and output have the variable's name.
Status CompleteTritonStates(const ModelStates& states, inference::ModelConfig& config);

// Checks that the configuration has each state, and that sequences begin as the model says. Adds the states
// to `names`, which are those of the model without them. Errors: INVALID_ARGUMENT; the text names the state.
Status FitTritonStates(const inference::ModelConfig& config, const ModelStates& states, ModelNames& names);

}  // namespace braid
