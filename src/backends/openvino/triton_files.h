// Chooses the file of a Triton model, by the backend or platform in its configuration.
#pragma once

#include <string>

#include "base/status.h"
#include "model_config.pb.h"

namespace braid {

// Errors: UNSUPPORTED for models of a runtime whose files OpenVINO does not read; the text says how to go on.
Status CheckTritonBackend(const inference::ModelConfig& config);

// Returns the default name of the model's file or folder: the first existing one of the names that such
// models may have, or the expected name if none exists.
std::string DefaultTritonFile(const inference::ModelConfig& config, const std::string& version_path);

}  // namespace braid
