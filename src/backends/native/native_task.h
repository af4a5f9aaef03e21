// What a native worker is to do (NativeTask), and what it answers (NativeAnswer), as texts of LoadMessage::model_config and
// LoadedMessage::auto_completed_config. See ipc/native_messages.h.
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
    kConfigModel,   // load a model of a config.json, then run its executions
    kTritonModel,   // load a model of a Triton repository, then run its executions
    kTritonConfig,  // complete its configuration, and end
    kExtension,     // see whether the extension can be used, and end
    kNodeLibrary,   // see whether the library of custom nodes can be used, and end
    kNode,          // run a custom node: the calls of its execute
    kImages,        // decode images
    kCalculators,   // run calls of a library of calculators
  };
  Kind kind = Kind::kConfigModel;
  // OpenVinoBackend::Options.
  std::string cache_directory = {};
  std::string cpu_extension = {};
  bool smaller_types = true;
  // The model: those of OpenVinoBackend::Load(), or of Create() and AutoComplete().
  OvmsModelConfig ovms_config = {};
  inference::ModelConfig triton_config = {};
  std::string model_path = {};
  std::string version_path = {};
  std::string model_file = {};
  int64_t version = 1;
  // The library of custom nodes, and the node: those of CustomNodeLibrary::Open() and CodeFor(). Of kImages the path alone,
  // which is that of ImageCodec's library; of kCalculators the first two.
  std::string library_name = {};
  std::string library_path = {};
  std::string node = {};
  std::vector<std::pair<std::string, std::string>> params = {};
  // Of kNode, kImages and kCalculators: how many calls run at once, from 1 to kMostNativeCalls.
  uint32_t most_calls = 1;
};
inline constexpr uint32_t kMostNativeCalls = 1024;

std::string EncodeTask(const NativeTask& task);
// Errors: INVALID_ARGUMENT.
Result<NativeTask> DecodeTask(std::string_view text);

struct NativeAnswer {
  // Why the task could not be done; the rest is empty then.
  Status status = {};
  // kConfigModel: OpenVinoBackend::LoadedModel::info, with its configuration.
  ServableInfo info = {};
  // kTritonConfig: the completed one.
  inference::ModelConfig config = {};
  // kNode: what the node takes and gives; of type kInvalid where it does not say.
  std::vector<TensorSpec> node_inputs = {};
  std::vector<TensorSpec> node_outputs = {};
  // kCalculators: their names.
  std::vector<std::string> calculators = {};
};

std::string EncodeAnswer(const NativeAnswer& answer);
// A worker is not trusted: all numbers are checked, but not what the model's own words (names, shapes) say. Errors:
// INVALID_ARGUMENT.
Result<NativeAnswer> DecodeAnswer(std::string_view text);

// The status that a worker says, with its fault. Errors: a fault that there is not, as INTERNAL.
Status StatusOf(StatusCode code, uint8_t fault, std::string_view text);

}  // namespace braid
