// Which backend a model is for when its configuration does not name one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace braid {

// By the files of the first version folder ("model.py" is python, ...), else by a folder name of the form
// "model.{backend}". Errors: INVALID_ARGUMENT when neither tells.
Result<std::string> GuessBackend(std::string_view model_name, const std::vector<std::string>& version_files);

// The backend that an old configuration names by its platform ("onnxruntime_onnx"); empty for an unknown one.
std::string_view BackendOfPlatform(std::string_view platform);

}  // namespace braid
