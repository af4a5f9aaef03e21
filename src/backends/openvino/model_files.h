// Finds the model file in a version's folder.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

enum class ModelFormat : unsigned char {
  kIr,
  kOnnx,
  kSavedModel,  // a folder
  kFrozenGraph,
  kTflite,
  kPaddle,
  kTorchScript,  // known, but not supported
  kTensorRt,     // known, but not supported
  kUnknown,
};

// "OpenVINO IR", "ONNX", ...
std::string_view FormatName(ModelFormat format);

struct ModelFile {
  ModelFormat format = ModelFormat::kUnknown;
  std::string path;  // the absolute path for OpenVINO to read
};

// Returns the format of a file or folder, by its name and, for a folder, by its contents.
ModelFormat FormatOf(const std::string& path);

// Returns the only model in a version's folder. Errors: Fault::kFileInvalid if there is none, or several; the
// text lists their names.
Result<ModelFile> FindModelFile(const std::string& version_path);

// Returns the model of a Triton repository at `path`, which ends with its default or configured name. Errors:
// Fault::kFileInvalid if it is missing (the text lists the files found) or in a format that OpenVINO does not
// read.
Result<ModelFile> CheckModelFile(const std::string& path);

}  // namespace braid
