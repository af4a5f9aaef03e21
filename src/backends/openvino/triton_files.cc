#include "backends/openvino/triton_files.h"

#include <filesystem>
#include <initializer_list>
#include <system_error>

namespace braid {
namespace {

bool Exists(const std::string& path) {
  std::error_code fault;
  return std::filesystem::exists(path, fault);
}

std::string FirstOf(const std::string& version_path, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (Exists(version_path + "/" + name)) return name;
  }
  return *names.begin();
}

}  // namespace

Status CheckTritonBackend(const inference::ModelConfig& config) {
  const std::string who = "model '" + config.name() + "': ";
  if (config.backend() == "pytorch") {
    return UnsupportedError(
        who +
        "TorchScript models are not supported: export the model to ONNX (torch.onnx.export) or "
        "to OpenVINO IR (openvino.convert_model), and set backend to 'openvino'");
  }
  if (config.backend() == "tensorrt") {
    return UnsupportedError(who +
                            "TensorRT plans are not supported: serve the plan's source ONNX file, or convert "
                            "it to OpenVINO IR (openvino.convert_model), and set backend to 'openvino'");
  }
  return OkStatus();
}

std::string DefaultTritonFile(const inference::ModelConfig& config, const std::string& version_path) {
  if (config.backend() == "onnxruntime") return "model.onnx";
  if (config.backend() == "tflite") return "model.tflite";
  if (config.backend() == "tensorflow") {
    if (config.platform() == "tensorflow_graphdef") return "model.graphdef";
    if (config.platform() == "tensorflow_savedmodel") return "model.savedmodel";
    return FirstOf(version_path, {"model.savedmodel", "model.graphdef"});
  }
  return FirstOf(version_path, {"model.xml", "model.onnx", "model.savedmodel", "model.graphdef",
                                "model.tflite", "model.pdmodel", "model.json"});
}

}  // namespace braid
