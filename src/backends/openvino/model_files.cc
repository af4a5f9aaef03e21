#include "backends/openvino/model_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "serving/faults.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostEntries = 10'000;

Status FileError(const std::string& text) { return FaultError(Fault::kFileInvalid, text); }

bool IsFile(const fs::path& path) {
  std::error_code fault;
  return fs::is_regular_file(path, fault);
}

bool IsSavedModel(const fs::path& path) {
  return IsFile(path / "saved_model.pb") || IsFile(path / "saved_model.pbtxt");
}

// Whether it is a Paddle program in JSON; models may have other JSON files beside them.
bool IsPaddleJson(const fs::path& path) {
  return path.extension() == ".json" && IsFile(fs::path(path).replace_extension(".pdiparams"));
}

// Checks that the further files of a model are present.
Status CheckCompanions(const ModelFile& file) {
  if (file.format != ModelFormat::kIr) return OkStatus();
  const std::string weights = fs::path(file.path).replace_extension(".bin").string();
  if (IsFile(weights)) return OkStatus();
  return FileError("the weights '" + weights + "' are missing");
}

// Describes the folder of a missing file, and how to name another file.
std::string WhatIsThere(const fs::path& path) {
  constexpr size_t kMostNamed = 8;
  std::vector<std::string> names;
  std::error_code fault;
  for (fs::directory_iterator entry(path.parent_path(), fault); !fault && entry != fs::directory_iterator();
       entry.increment(fault)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.')) continue;
    names.push_back(name);
    if (names.size() > kMostEntries) break;
  }
  if (names.empty()) return "its folder is empty";
  std::sort(names.begin(), names.end());
  std::string text = "its folder has ";
  for (size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostNamed) text += ", ...";
  return text + "; set default_model_filename to use another file";
}

}  // namespace

std::string_view FormatName(ModelFormat format) {
  switch (format) {
    case ModelFormat::kIr:
      return "OpenVINO IR";
    case ModelFormat::kOnnx:
      return "ONNX";
    case ModelFormat::kSavedModel:
      return "TensorFlow SavedModel";
    case ModelFormat::kFrozenGraph:
      return "TensorFlow frozen graph";
    case ModelFormat::kTflite:
      return "TensorFlow Lite";
    case ModelFormat::kPaddle:
      return "PaddlePaddle";
    case ModelFormat::kTorchScript:
      return "TorchScript";
    case ModelFormat::kTensorRt:
      return "TensorRT";
    case ModelFormat::kUnknown:
      break;
  }
  return "unknown";
}

ModelFormat FormatOf(const std::string& path) {
  const fs::path file(path);
  std::error_code fault;
  if (fs::is_directory(file, fault))
    return IsSavedModel(file) ? ModelFormat::kSavedModel : ModelFormat::kUnknown;
  const std::string extension = file.extension().string();
  constexpr std::pair<std::string_view, ModelFormat> kExtensions[] = {
      {".xml", ModelFormat::kIr},         {".onnx", ModelFormat::kOnnx},
      {".pb", ModelFormat::kFrozenGraph}, {".graphdef", ModelFormat::kFrozenGraph},
      {".tflite", ModelFormat::kTflite},  {".pdmodel", ModelFormat::kPaddle},
      {".pt", ModelFormat::kTorchScript}, {".pth", ModelFormat::kTorchScript},
      {".plan", ModelFormat::kTensorRt},
  };
  for (const auto& [name, format] : kExtensions) {
    if (extension == name) return format;
  }
  return IsPaddleJson(file) ? ModelFormat::kPaddle : ModelFormat::kUnknown;
}

Result<ModelFile> CheckModelFile(const std::string& path) {
  std::error_code fault;
  if (!fs::exists(path, fault)) return FileError("'" + path + "' is missing; " + WhatIsThere(path));
  const ModelFile file{FormatOf(path), path};
  switch (file.format) {
    case ModelFormat::kTorchScript:
      return UnsupportedError("'" + path +
                              "' is a TorchScript model, which OpenVINO does not read: export it to ONNX "
                              "(torch.onnx.export) or to OpenVINO IR (openvino.convert_model)");
    case ModelFormat::kTensorRt:
      return UnsupportedError("'" + path +
                              "' is a TensorRT plan, which runs on only one kind of GPU: serve its source "
                              "ONNX file, or convert that to OpenVINO IR");
    case ModelFormat::kUnknown:
      return FileError(
          "'" + path +
          "' is not a model that OpenVINO reads; expected .xml with .bin, .onnx, .pb, .graphdef, .tflite, "
          ".pdmodel, or a folder with saved_model.pb");
    default:
      break;
  }
  BRAID_RETURN_IF_ERROR(CheckCompanions(file));
  return file;
}

Result<ModelFile> FindModelFile(const std::string& version_path) {
  if (IsFile(version_path)) return CheckModelFile(version_path);
  std::error_code fault;
  fs::directory_iterator entry(version_path, fault);
  if (fault) return FileError("'" + version_path + "': " + fault.message());
  // The version folder itself may be a SavedModel.
  std::vector<std::string> found;
  if (IsSavedModel(version_path)) found.push_back(version_path);
  size_t entries = 0;
  for (; entry != fs::directory_iterator(); entry.increment(fault)) {
    if (fault || ++entries > kMostEntries) break;
    const fs::path& path = entry->path();
    if (path.filename() == "saved_model.pb" || path.filename().string().starts_with('.')) continue;
    if (FormatOf(path.string()) != ModelFormat::kUnknown) found.push_back(path.string());
  }
  if (fault) return FileError("'" + version_path + "': " + fault.message());
  if (found.empty()) {
    return FileError(
        "'" + version_path +
        "' has no model; expected .xml with .bin, .onnx, .pb, .tflite, .pdmodel, or a SavedModel");
  }
  if (found.size() > 1) {
    std::sort(found.begin(), found.end());
    std::string names;
    for (const std::string& path : found) {
      names += (names.empty() ? "" : ", ") +
               (path == version_path ? "saved_model.pb" : fs::path(path).filename().string());
    }
    return FileError("'" + version_path + "' has several models: " + names);
  }
  return CheckModelFile(found.front());
}

}  // namespace braid
