// The backends whose names have a meaning in configurations, and the files of their models. Each other name
// is that of a Python-based backend in the folder of backends.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace inference {
class ModelConfig;
}

namespace braid {

struct KnownBackend {
  std::string_view name;    // the value of `backend` in a model's configuration
  std::string_view runner;  // the name of the backend of this server that loads the models, or refuses them
  std::string_view kind;    // of its models, for messages
  // The default of `default_model_filename`, and the extension that it must have; empty: the backend looks
  // for its file.
  std::string_view default_file = {};
  std::string_view file_extension = {};
  // Whether only the user's code reads the model's parameters, and the fields that concern no backend of this
  // server.
  bool user_code = false;
};

// Returns all known backends.
std::span<const KnownBackend> KnownBackends();
// Returns the known backend with a name; null if there is none.
const KnownBackend* FindKnownBackend(std::string_view name);
// Returns whether the models of a backend are the user's code in their version folders.
bool RunsUserCode(std::string_view backend);

// Guesses from the files of the first version folder ("model.py" is python, ...), or else from a folder name
// of the form "model.{backend}". Errors: INVALID_ARGUMENT if neither matches.
Result<std::string> GuessBackend(std::string_view model_name, const std::vector<std::string>& version_files);
// Returns the names of the files that GuessBackend() knows.
std::vector<std::string_view> ModelFileNames();

// Returns the backend for the `platform` of an old configuration ("onnxruntime_onnx"); empty for an unknown
// one.
std::string_view BackendOfPlatform(std::string_view platform);

// Returns the configured file of a model, or the default of its backend; empty if the backend looks for it.
std::string ModelFileOf(const inference::ModelConfig& config);

}  // namespace braid
