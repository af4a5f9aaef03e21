#include "backends/native/native_task.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ipc/message_codec.h"
#include "serving/faults.h"

namespace braid {

// --- What travels of the types that are more than their fields

// The worker needs neither the version policy nor the fields of graphs.
template <class Visit>
void Fields(const Visit& visit, OvmsModelConfig& config) {
  visit(config.name, config.base_path, config.batch_size, config.shapes, config.layouts, config.nireq,
        config.target_device, config.plugin_config, config.allow_cache, config.precisions, config.mean,
        config.scale, config.color_format, config.stateful, config.idle_sequence_cleanup,
        config.low_latency_transformation, config.max_sequence_number, config.allow_in_pipelines);
}

template <class Visit>
void Fields(const Visit& visit, ServableInfo& info) {
  visit(info.name, info.version, info.platform, info.inputs, info.outputs, info.max_batch_size,
        info.instance_count, info.stream_count, info.automatic_shape, info.stateful);
}

template <class Visit>
void Fields(const Visit& visit, NativeTask& task) {
  visit(task.kind, task.cache_directory, task.cpu_extension, task.smaller_types, task.ovms_config,
        task.model_path, task.version_path, task.model_file, task.version, task.library_name,
        task.library_path, task.node, task.params, task.most_calls);
}
constexpr NativeTask::Kind LastOf(NativeTask::Kind) { return NativeTask::Kind::kCalculators; }

namespace {

constexpr auto kLastFault = static_cast<uint8_t>(Fault::kRestContentsFieldNotEmpty);
// Instances of one model; OpenVinoRuntime has the same limit.
constexpr int kMostInstances = 1024;

template <class... T>
std::string EncodeText(const T&... values) {
  std::vector<std::byte> bytes;
  WireWriter out(bytes);
  (message_codec::Put(out, values), ...);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns false for a malformed text.
template <class... T>
bool DecodeText(std::string_view text, T&... values) {
  WireReader in(std::as_bytes(std::span(text)));
  (message_codec::Get(in, values), ...);
  return in.ok() && in.at_end();
}

bool AreTensors(const std::vector<TensorSpec>& tensors, bool typed) {
  return std::all_of(tensors.begin(), tensors.end(), [typed](const TensorSpec& tensor) {
    return (!typed || tensor.type != DataType::kInvalid) &&
           (tensor.ranges.empty() || tensor.ranges.size() == tensor.shape.size());
  });
}

bool IsInfo(const ServableInfo& info) {
  return AreTensors(info.inputs, true) && AreTensors(info.outputs, true) && info.instance_count > 0 &&
         info.instance_count <= kMostInstances && info.max_batch_size >= 0 && info.stream_count >= 0;
}

}  // namespace

std::string EncodeTask(const NativeTask& task) {
  return EncodeText(task, task.triton_config.SerializeAsString());
}

Result<NativeTask> DecodeTask(std::string_view text) {
  NativeTask task;
  std::string config;
  if (!DecodeText(text, task, config) || !task.triton_config.ParseFromString(config) || task.most_calls < 1 ||
      task.most_calls > kMostNativeCalls) {
    return InvalidArgumentError("malformed task for a native worker");
  }
  return task;
}

std::string EncodeAnswer(const NativeAnswer& answer) {
  const Status& status = answer.status;
  const inference::ModelConfig& config = answer.info.config != nullptr ? *answer.info.config : answer.config;
  return EncodeText(static_cast<uint8_t>(status.code()), static_cast<uint8_t>(status.fault()),
                    status.message(), answer.info, answer.node_inputs, answer.node_outputs,
                    answer.calculators, config.SerializeAsString());
}

Result<NativeAnswer> DecodeAnswer(std::string_view text) {
  NativeAnswer answer;
  uint8_t code = 0;
  uint8_t fault = 0;
  std::string message;
  std::string config;
  if (!DecodeText(text, code, fault, message, answer.info, answer.node_inputs, answer.node_outputs,
                  answer.calculators, config) ||
      code > static_cast<uint8_t>(StatusCode::kPermissionDenied) || !IsInfo(answer.info) ||
      !AreTensors(answer.node_inputs, false) || !AreTensors(answer.node_outputs, false) ||
      !answer.config.ParseFromString(config)) {
    return InvalidArgumentError("the native worker sent a malformed answer");
  }
  answer.status = StatusOf(static_cast<StatusCode>(code), fault, message);
  if (answer.status.ok()) answer.info.config = std::make_shared<const inference::ModelConfig>(answer.config);
  return answer;
}

Status StatusOf(StatusCode code, uint8_t fault, std::string_view text) {
  if (code == StatusCode::kOk) return OkStatus();
  if (fault > kLastFault) return InternalError(std::string(text));
  return {code, std::string(text), static_cast<Fault>(fault)};
}

}  // namespace braid
