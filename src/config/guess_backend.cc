#include "config/guess_backend.h"

#include <algorithm>
#include <utility>

namespace braid {
namespace {

constexpr std::pair<std::string_view, std::string_view> kFiles[] = {
    {"model.onnx", "onnxruntime"},    {"model.xml", "openvino"},  {"model.savedmodel", "tensorflow"},
    {"model.graphdef", "tensorflow"}, {"model.tflite", "tflite"}, {"model.pdmodel", "openvino"},
    {"model.pt", "pytorch"},          {"model.plan", "tensorrt"}, {"model.py", "python"},
};

constexpr std::pair<std::string_view, std::string_view> kPlatforms[] = {
    {"onnxruntime_onnx", "onnxruntime"},   {"openvino", "openvino"},
    {"pytorch_libtorch", "pytorch"},       {"tensorrt_plan", "tensorrt"},
    {"tensorflow_graphdef", "tensorflow"}, {"tensorflow_savedmodel", "tensorflow"},
};

}  // namespace

Result<std::string> GuessBackend(std::string_view model_name, const std::vector<std::string>& version_files) {
  for (const auto& [file, backend] : kFiles) {
    if (std::find(version_files.begin(), version_files.end(), file) != version_files.end())
      return std::string(backend);
  }
  const size_t dot = model_name.rfind('.');
  if (dot != std::string_view::npos && dot > 0 && dot + 1 < model_name.size()) {
    return std::string(model_name.substr(dot + 1));
  }
  return InvalidArgumentError("Invalid model name: Could not determine backend for model '" +
                              std::string(model_name) +
                              "' with no backend in model configuration. Expected model name of the form "
                              "'model.<backend_name>'.");
}

std::string_view BackendOfPlatform(std::string_view platform) {
  for (const auto& [name, backend] : kPlatforms) {
    if (name == platform) return backend;
  }
  return {};
}

}  // namespace braid
