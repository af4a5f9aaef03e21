// The files of a model: which one of a version's folder OpenVINO reads.
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
  kTorchScript,  // known, and not read
  kTensorRt,     // known, and not read
  kUnknown,
};

// "OpenVINO IR", "ONNX", ...
std::string_view FormatName(ModelFormat format);

struct ModelFile {
  ModelFormat format = ModelFormat::kUnknown;
  std::string path;  // what OpenVINO is to read; absolute
};

// What a file or folder is, by its name and, for a folder, by what lies in it.
ModelFormat FormatOf(const std::string& path);

// The one model in a version's folder. Errors: Fault::kFileInvalid for none and for several, with their
// names.
Result<ModelFile> FindModelFile(const std::string& version_path);

// A model of a Triton repository, by its default name or by that in the configuration. Errors: as above when
// it is not there, with what is; or of a kind that OpenVINO does not read.
Result<ModelFile> CheckModelFile(const std::string& path);

}  // namespace braid
