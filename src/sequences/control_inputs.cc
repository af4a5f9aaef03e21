#include "sequences/control_inputs.h"

#include <cstring>
#include <limits>

#include "model_config.pb.h"

namespace braid {
namespace {

using ConfigControl = inference::ModelSequenceBatching::Control;

template <class T>
Buffer BytesOf(T value) {
  return CopyToHeap(std::as_bytes(std::span<const T, 1>(&value, 1)));
}

Buffer TextElement(std::string_view text) {
  std::string bytes(sizeof(uint32_t), '\0');
  const auto length = static_cast<uint32_t>(text.size());
  std::memcpy(bytes.data(), &length, sizeof(length));
  bytes.append(text);
  return CopyToHeap(std::as_bytes(std::span(bytes)));
}

// Returns the largest id that fits into the type of a CORRID tensor.
uint64_t LargestId(DataType type) {
  switch (type) {
    case DataType::kInt64:
      return std::numeric_limits<int64_t>::max();
    case DataType::kUint32:
      return std::numeric_limits<uint32_t>::max();
    case DataType::kInt32:
      return std::numeric_limits<int32_t>::max();
    default:
      return std::numeric_limits<uint64_t>::max();
  }
}

Buffer IdBytes(DataType type, uint64_t id) {
  if (ElementSize(type) == sizeof(uint32_t)) return BytesOf(static_cast<uint32_t>(id));
  return BytesOf(id);
}

}  // namespace

ControlInputs::ControlInputs(const inference::ModelConfig& config) : model_name_(config.name()) {
  const Shape shape = config.max_batch_size() > 0 ? Shape{1, 1} : Shape{1};
  for (const auto& input : config.sequence_batching().control_input()) {
    for (const ConfigControl& control : input.control()) {
      Control& made = controls_.emplace_back();
      made.tensor.name = input.name();
      made.tensor.shape = shape;
      if (control.kind() == ConfigControl::CONTROL_SEQUENCE_CORRID) {
        made.kind = Kind::kId;
        made.tensor.type = static_cast<DataType>(control.data_type());
        id_type_ = made.tensor.type;
        id_name_ = input.name();
        no_id_ = id_type_ == DataType::kBytes ? TextElement("") : IdBytes(id_type_, 0);
        continue;
      }
      made.kind = control.kind() == ConfigControl::CONTROL_SEQUENCE_START   ? Kind::kStart
                  : control.kind() == ConfigControl::CONTROL_SEQUENCE_READY ? Kind::kReady
                                                                            : Kind::kEnd;
      if (control.int32_false_true_size() == 2) {
        made.tensor.type = DataType::kInt32;
        made.tensor.data = BytesOf(control.int32_false_true(0));
        made.when_set = BytesOf(control.int32_false_true(1));
      } else if (control.fp32_false_true_size() == 2) {
        made.tensor.type = DataType::kFp32;
        made.tensor.data = BytesOf(control.fp32_false_true(0));
        made.when_set = BytesOf(control.fp32_false_true(1));
      } else {
        BRAID_CHECK(control.bool_false_true_size() == 2);
        made.tensor.type = DataType::kBool;
        made.tensor.data = BytesOf(control.bool_false_true(0));
        made.when_set = BytesOf(control.bool_false_true(1));
      }
    }
  }
}

Result<Buffer> ControlInputs::EncodeId(const CorrelationId& id) const {
  if (id_type_ == DataType::kInvalid) return Buffer();
  const auto* number = std::get_if<uint64_t>(&id);
  if (id_type_ == DataType::kBytes) {
    return TextElement(number != nullptr ? std::to_string(*number) : std::get<std::string>(id));
  }
  const std::string tensor = "control input '" + id_name_ + "' of model '" + model_name_ +
                             "' has data type " + std::string(ConfigName(id_type_));
  if (number == nullptr) {
    return InvalidArgumentError("sequence id '" + std::get<std::string>(id) +
                                "' must be an integer: " + tensor);
  }
  if (*number > LargestId(id_type_)) {
    return InvalidArgumentError("sequence id " + std::to_string(*number) + " is too large: " + tensor);
  }
  return IdBytes(id_type_, *number);
}

void ControlInputs::Append(const Flags& flags, const Buffer& id, std::vector<Tensor>& inputs) const {
  for (const Control& control : controls_) {
    Tensor& tensor = inputs.emplace_back(control.tensor);
    switch (control.kind) {
      case Kind::kStart:
        if (flags.start) tensor.data = control.when_set;
        break;
      case Kind::kEnd:
        if (flags.end) tensor.data = control.when_set;
        break;
      case Kind::kReady:
        if (flags.ready) tensor.data = control.when_set;
        break;
      case Kind::kId:
        tensor.data = id;
        break;
    }
  }
}

}  // namespace braid
