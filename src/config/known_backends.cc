#include "config/known_backends.h"

#include <algorithm>
#include <utility>

#include "model_config.pb.h"

namespace braid {
namespace {

constexpr KnownBackend kBackends[] = {
    {.name = "python",
     .runner = "python",
     .kind = "Python model",
     .default_file = "model.py",
     .file_extension = ".py",
     .user_code = true},
    {.name = "openvino", .runner = "openvino", .kind = "OpenVINO model"},
    {.name = "onnxruntime", .runner = "openvino", .kind = "OpenVINO model"},
    {.name = "tensorflow", .runner = "openvino", .kind = "OpenVINO model"},
    {.name = "tensorrt", .runner = "openvino", .kind = "OpenVINO model"},
    {.name = "tflite", .runner = "openvino", .kind = "OpenVINO model"},
    {.name = "pytorch", .runner = "openvino", .kind = "OpenVINO model"},
};

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

std::span<const KnownBackend> KnownBackends() { return kBackends; }

const KnownBackend* FindKnownBackend(std::string_view name) {
  const auto* found = std::ranges::find(kBackends, name, &KnownBackend::name);
  return found == std::end(kBackends) ? nullptr : found;
}

bool RunsUserCode(std::string_view backend) {
  const KnownBackend* known = FindKnownBackend(backend);
  return known != nullptr && known->user_code;
}

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

std::vector<std::string_view> ModelFileNames() {
  std::vector<std::string_view> names;
  for (const auto& [file, backend] : kFiles) names.push_back(file);
  return names;
}

std::string_view BackendOfPlatform(std::string_view platform) {
  for (const auto& [name, backend] : kPlatforms) {
    if (name == platform) return backend;
  }
  return {};
}

std::string ModelFileOf(const inference::ModelConfig& config) {
  if (!config.default_model_filename().empty()) return config.default_model_filename();
  const KnownBackend* known = FindKnownBackend(config.backend());
  return known == nullptr ? "" : std::string(known->default_file);
}

}  // namespace braid
