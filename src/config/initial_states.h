// The initial values of implicit states.
#pragma once

#include <vector>

#include "base/status.h"
#include "config/folder.h"
#include "model_config.pb.h"
#include "tensor/tensor.h"

namespace braid {

// Returns one tensor for each `state` of a valid configuration, named by its input_name. The batch dimension,
// if any, is included. The values are zeros (empty strings for strings), or the contents of
// {model}/initial_state/{data_file}. Without an initial_state, a dimension of -1 becomes 1. Errors:
// INVALID_ARGUMENT for a file that is missing, not beneath that folder, or of the wrong size for the state's
// shape.
Result<std::vector<Tensor>> LoadInitialStates(const inference::ModelConfig& config,
                                              const Folder& model_folder);

}  // namespace braid
