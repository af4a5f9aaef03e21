// Which file of a Triton model runs, by the backend or platform that its configuration names.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "model_config.pb.h"

namespace braid {

// Backends of other runtimes whose models OpenVINO reads ("onnxruntime", "tensorflow", "tflite"), and those
// which are known and refused by CheckTritonBackend().
bool IsOtherRuntime(std::string_view backend);

// Errors: UNSUPPORTED for models of a runtime whose files OpenVINO does not read, with what to do.
Status CheckTritonBackend(const inference::ModelConfig& config);

// The default name of the model's file or folder: the first that is there of those which such models may
// have, else the one that they ought to have.
std::string DefaultTritonFile(const inference::ModelConfig& config, const std::string& version_path);

}  // namespace braid
