// The initial values of implicit states.
#pragma once

#include <vector>

#include "base/status.h"
#include "config/folder.h"
#include "model_config.pb.h"
#include "tensor/tensor.h"

namespace braid {

// One tensor for each `state` of a valid configuration, named by its input_name and with the batch dimension,
// if there is one: zeros (for strings: empty ones), or the contents of {model}/initial_state/{data_file}.
// Without an initial_state, a dimension of -1 is taken as 1. Errors: INVALID_ARGUMENT for a file that is
// missing, not beneath that folder, or not as long as the state's shape asks for.
Result<std::vector<Tensor>> LoadInitialStates(const inference::ModelConfig& config,
                                              const Folder& model_folder);

}  // namespace braid
