// The task of a native worker (NativeTask) and the worker's answer (NativeAnswer). They travel as text, in
// LoadMessage::model_config and LoadedMessage::auto_completed_config; see ipc/native_messages.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "config/ovms_config.h"
#include "model_config.pb.h"
#include "serving/servable.h"

namespace braid {

struct NativeTask {
  enum class Kind : uint8_t {
    kConfigModel,   // load a model of a config.json and run its executions
    kTritonModel,   // load a model of a Triton repository and run its executions
    kTritonConfig,  // complete a Triton configuration, and end
    kExtension,     // check the extension, and end
    kNodeLibrary,   // check the library of custom nodes, and end
    kNode,          // run the executions of a custom node
    kImages,        // decode images
    kCalculators,   // run calls of a calculator library
  };
  Kind kind = Kind::kConfigModel;
  // As in OpenVinoBackend::Options.
  std::string cache_directory = {};
  std::string cpu_extension = {};
  bool smaller_types = true;
  // The model: as for OpenVinoBackend::Load(), or for Create() and AutoComplete().
  OvmsModelConfig ovms_config = {};
  inference::ModelConfig triton_config = {};
  std::string model_path = {};
  std::string version_path = {};
  std::string model_file = {};
  int64_t version = 1;
  // The library of custom nodes, and the node: as for CustomNodeLibrary::Open() and CodeFor(). kImages uses
  // only library_path, for ImageCodec's library; kCalculators uses library_name and library_path.
  std::string library_name = {};
  std::string library_path = {};
  std::string node = {};
  std::vector<std::pair<std::string, std::string>> params = {};
  // kNode, kImages and kCalculators: the number of concurrent calls, from 1 to kMostNativeCalls.
  uint32_t most_calls = 1;
};
inline constexpr uint32_t kMostNativeCalls = 1024;

std::string EncodeTask(const NativeTask& task);
// Errors: INVALID_ARGUMENT.
Result<NativeTask> DecodeTask(std::string_view text);

struct NativeAnswer {
  // The error of the task; the other fields are then empty.
  Status status = {};
  // kConfigModel: OpenVinoBackend::LoadedModel::info, with its configuration.
  ServableInfo info = {};
  // kTritonConfig: the completed configuration.
  inference::ModelConfig config = {};
  // kNode: its inputs and outputs; of type kInvalid where the node declares none.
  std::vector<TensorSpec> node_inputs = {};
  std::vector<TensorSpec> node_outputs = {};
  // kCalculators: their names.
  std::vector<std::string> calculators = {};
};

std::string EncodeAnswer(const NativeAnswer& answer);
// Decodes the answer of a worker, which is not trusted. All numbers are checked, but not the model's own
// texts (names, shapes). Errors: INVALID_ARGUMENT.
Result<NativeAnswer> DecodeAnswer(std::string_view text);

// Returns the status that a worker reports, with its fault. An unknown fault becomes INTERNAL.
Status StatusOf(StatusCode code, uint8_t fault, std::string_view text);

}  // namespace braid
