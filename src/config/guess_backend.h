// Chooses the backend of a model whose configuration does not name one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace braid {

// Guesses from the files of the first version folder ("model.py" is python, ...), or else from a folder name
// of the form "model.{backend}". Errors: INVALID_ARGUMENT if neither matches.
Result<std::string> GuessBackend(std::string_view model_name, const std::vector<std::string>& version_files);

// Returns the backend for the `platform` of an old configuration ("onnxruntime_onnx"); empty for an unknown
// one.
std::string_view BackendOfPlatform(std::string_view platform);

}  // namespace braid
