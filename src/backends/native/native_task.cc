#include "backends/native/native_task.h"

#include <map>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ipc/wire.h"
#include "serving/faults.h"

namespace braid {
namespace {

constexpr auto kLastFault = static_cast<uint8_t>(Fault::kRestContentsFieldNotEmpty);
// Instances of one model; OpenVinoRuntime makes no more.
constexpr int kMostInstances = 1024;

template <class T>
constexpr bool kIsNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

// Writes and reads by one list of fields for each type: Fields(archive, value) below.
class TextWriter {
 public:
  template <class... T>
  void operator()(T&... values) {
    (Put(values), ...);
  }
  std::string text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  void Put(bool value) { out_.Put(static_cast<uint8_t>(value ? 1 : 0)); }
  template <class T>
  requires(kIsNumber<T> || std::is_enum_v<T>) void Put(T value) { out_.Put(value); }
  void Put(const std::string& text) { out_.PutText(text); }
  template <class A, class B>
  void Put(const std::pair<A, B>& pair) {
    Put(pair.first);
    Put(pair.second);
  }
  template <class T>
  void Put(const std::optional<T>& value) {
    Put(value.has_value());
    if (value) Put(*value);
  }
  template <class... T>
  void Put(const std::variant<T...>& value) {
    Put(static_cast<uint8_t>(value.index()));
    std::visit([this](const auto& one) { this->Put(one); }, value);
  }
  template <class List>
  requires requires(const List& list) { list.begin(), list.size(); }
  void Put(const List& list) {
    Put(static_cast<uint32_t>(list.size()));
    for (const auto& one : list) Put(one);
  }
  template <class T>
  requires requires(TextWriter& writer, T& value) { Fields(writer, value); }
  void Put(const T& value) { Fields(*this, const_cast<T&>(value)); }

  std::vector<std::byte> bytes_;
  WireWriter out_{bytes_};
};

class TextReader {
 public:
  explicit TextReader(std::string_view text) : in_(std::as_bytes(std::span(text))) {}

  template <class... T>
  void operator()(T&... values) {
    (Get(values), ...);
  }
  bool complete() const { return in_.ok() && in_.at_end(); }
  void Require(bool condition) {
    if (!condition) in_.Fail();
  }

 private:
  void Get(bool& value) {
    const auto flag = in_.Get<uint8_t>();
    Require(flag <= 1);
    value = flag == 1;
  }
  template <class T>
  requires(kIsNumber<T> || std::is_enum_v<T>) void Get(T& value) { value = in_.Get<T>(); }
  void Get(std::string& text) { text = in_.GetText(); }
  template <class A, class B>
  void Get(std::pair<A, B>& pair) {
    Get(const_cast<std::remove_const_t<A>&>(pair.first));
    Get(pair.second);
  }
  template <class T>
  void Get(std::optional<T>& value) {
    bool there = false;
    Get(there);
    if (there) Get(value.emplace());
  }
  template <class... T>
  void Get(std::variant<T...>& value) {
    const auto index = in_.Get<uint8_t>();
    Require(index < sizeof...(T));
    uint8_t at = 0;
    (void)((at++ == index && (Get(value.template emplace<T>()), true)) || ...);
  }
  template <class K, class V>
  void Get(std::map<K, V>& map) {
    const uint32_t count = in_.GetCount(2);
    for (uint32_t i = 0; i < count && in_.ok(); ++i) {
      std::pair<K, V> entry;
      Get(entry);
      map.insert(std::move(entry));
    }
  }
  template <class List>
  requires requires(List& list) { list.emplace_back(), list.clear(); }
  void Get(List& list) {
    const uint32_t count = in_.GetCount(1);
    list.clear();
    for (uint32_t i = 0; i < count && in_.ok(); ++i) Get(list.emplace_back());
  }
  template <class T>
  requires requires(TextReader& reader, T& value) { Fields(reader, value); }
  void Get(T& value) { Fields(*this, value); }

  WireReader in_;
};

template <class A>
void Fields(A& a, DimensionRange& range) {
  a(range.min, range.max);
}
template <class A>
void Fields(A& a, OvmsShape& shape) {
  a(shape.automatic, shape.dimensions);
}
template <class A>
void Fields(A& a, OvmsLayout& layout) {
  a(layout.tensor, layout.model);
}
template <class A>
void Fields(A& a, OvmsBatchSize& size) {
  a(size.automatic, size.size);
}
// What the worker needs of it: not the policy of versions, nor what makes the entry a graph's.
template <class A>
void Fields(A& a, OvmsModelConfig& config) {
  a(config.name, config.base_path, config.batch_size, config.shapes, config.layouts, config.nireq,
    config.target_device, config.plugin_config, config.allow_cache, config.precisions, config.mean,
    config.scale, config.color_format, config.stateful, config.idle_sequence_cleanup,
    config.low_latency_transformation, config.max_sequence_number, config.allow_in_pipelines);
}

template <class A>
void Fields(A& a, TensorSpec& spec) {
  a(spec.name, spec.type, spec.shape, spec.optional, spec.allow_ragged_batch, spec.labels, spec.model_shape,
    spec.ranges, spec.layout);
}
template <class A>
void Fields(A& a, StateSpec& state) {
  a(state.name, state.type, state.shape);
}
template <class A>
void Fields(A& a, StatefulSpec& stateful) {
  a(stateful.states, stateful.max_sequences, stateful.idle_cleanup, stateful.allow_in_pipelines);
}
template <class A>
void Fields(A& a, ServableInfo& info) {
  a(info.name, info.version, info.platform, info.inputs, info.outputs, info.max_batch_size,
    info.instance_count, info.stream_count, info.automatic_shape, info.stateful);
}

bool IsType(DataType type) { return static_cast<uint8_t>(type) <= static_cast<uint8_t>(DataType::kCustom); }

void CheckTensors(TextReader& in, const std::vector<TensorSpec>& tensors, bool typed) {
  for (const TensorSpec& tensor : tensors) {
    in.Require(IsType(tensor.type) && (!typed || tensor.type != DataType::kInvalid));
    in.Require(tensor.ranges.empty() || tensor.ranges.size() == tensor.shape.size());
  }
}

template <class A>
void Config(A& a, inference::ModelConfig& config) {
  std::string bytes = config.SerializeAsString();
  a(bytes);
  if constexpr (std::is_same_v<A, TextReader>) a.Require(config.ParseFromString(bytes));
}

template <class A>
void Fields(A& a, NativeTask& task) {
  a(task.kind, task.cache_directory, task.cpu_extension, task.smaller_types, task.ovms_config,
    task.model_path, task.version_path, task.model_file, task.version, task.library_name, task.library_path,
    task.node, task.params, task.most_calls);
  Config(a, task.triton_config);
}

}  // namespace

std::string EncodeTask(const NativeTask& task) {
  TextWriter out;
  out(task);
  return out.text();
}

Result<NativeTask> DecodeTask(std::string_view text) {
  TextReader in(text);
  NativeTask task;
  in(task);
  in.Require(static_cast<uint8_t>(task.kind) <= static_cast<uint8_t>(NativeTask::Kind::kCalculators));
  in.Require(task.most_calls >= 1 && task.most_calls <= kMostNativeCalls);
  if (!in.complete()) return InvalidArgumentError("the task of a native worker cannot be read");
  return task;
}

std::string EncodeAnswer(const NativeAnswer& answer) {
  TextWriter out;
  auto code = answer.status.code();
  auto fault = answer.status.fault();
  std::string message = answer.status.message();
  inference::ModelConfig config = answer.config;
  if (answer.info.config != nullptr) config = *answer.info.config;
  out(code, fault, message, answer.info, answer.node_inputs, answer.node_outputs, answer.calculators);
  Config(out, config);
  return out.text();
}

Result<NativeAnswer> DecodeAnswer(std::string_view text) {
  TextReader in(text);
  NativeAnswer answer;
  auto code = StatusCode::kOk;
  uint8_t fault = 0;
  std::string message;
  in(code, fault, message, answer.info, answer.node_inputs, answer.node_outputs, answer.calculators);
  Config(in, answer.config);
  in.Require(static_cast<uint8_t>(code) <= static_cast<uint8_t>(StatusCode::kPermissionDenied));
  CheckTensors(in, answer.info.inputs, true);
  CheckTensors(in, answer.info.outputs, true);
  CheckTensors(in, answer.node_inputs, false);
  CheckTensors(in, answer.node_outputs, false);
  in.Require(answer.info.instance_count > 0 && answer.info.instance_count <= kMostInstances);
  in.Require(answer.info.max_batch_size >= 0 && answer.info.stream_count >= 0);
  if (answer.info.stateful) {
    for (const StateSpec& state : answer.info.stateful->states) in.Require(IsType(state.type));
  }
  if (!in.complete()) return InvalidArgumentError("the native worker sent an answer that cannot be read");
  if (code != StatusCode::kOk) {
    answer.status = StatusOf(code, fault, message);
    return answer;
  }
  answer.info.config = std::make_shared<const inference::ModelConfig>(answer.config);
  return answer;
}

Status StatusOf(StatusCode code, uint8_t fault, std::string_view text) {
  if (code == StatusCode::kOk) return OkStatus();
  if (fault > kLastFault) return InternalError(std::string(text));
  return {code, std::string(text), static_cast<Fault>(fault)};
}

}  // namespace braid
