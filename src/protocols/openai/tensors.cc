#include "protocols/openai/tensors.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/utf8.h"
#include "tensor/bytes_elements.h"

namespace braid {
namespace {

constexpr size_t kMostShownBytes = 80;

Status WrongValue(const TensorSpec& spec, std::string_view expected, const Json& value) {
  return InvalidArgumentError("'" + spec.name + "' must be " + std::string(expected) +
                              " for the model's input of that name, but it is " +
                              Shortened(DumpJson(value), kMostShownBytes));
}

template <class T>
void Append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <class T>
bool AppendInteger(const Json& value, std::string& out) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<T>::max())) return false;
    Append(out, static_cast<T>(number));
    return true;
  }
  const auto number = value.get<int64_t>();
  if (std::is_unsigned_v<T> || number < static_cast<int64_t>(std::numeric_limits<T>::min())) return false;
  Append(out, static_cast<T>(number));
  return true;
}

template <class T>
bool AppendFloat(const Json& value, std::string& out) {
  if (!value.is_number()) return false;
  Append(out, static_cast<T>(value.get<double>()));
  return true;
}

bool AppendBool(const Json& value, std::string& out) {
  if (!value.is_boolean()) return false;
  Append(out, value.get<bool>());
  return true;
}

struct ElementRule {
  DataType type;
  bool (*append)(const Json& value, std::string& out);
  std::string_view expected;
};
constexpr ElementRule kElements[] = {
    {DataType::kBool, AppendBool, "true or false"},
    {DataType::kUint8, AppendInteger<uint8_t>, "an integer of UINT8"},
    {DataType::kUint16, AppendInteger<uint16_t>, "an integer of UINT16"},
    {DataType::kUint32, AppendInteger<uint32_t>, "an integer of UINT32"},
    {DataType::kUint64, AppendInteger<uint64_t>, "an integer of UINT64"},
    {DataType::kInt8, AppendInteger<int8_t>, "an integer of INT8"},
    {DataType::kInt16, AppendInteger<int16_t>, "an integer of INT16"},
    {DataType::kInt32, AppendInteger<int32_t>, "an integer of INT32"},
    {DataType::kInt64, AppendInteger<int64_t>, "an integer of INT64"},
    {DataType::kFp32, AppendFloat<float>, "a number"},
    {DataType::kFp64, AppendFloat<double>, "a number"},
};

Result<Tensor> TensorOf(std::string_view name, DataType type, const Shape& shape, std::string_view bytes,
                        BufferAllocator& allocator) {
  Tensor tensor;
  tensor.name = name;
  tensor.type = type;
  tensor.shape = shape;
  if (bytes.empty()) return tensor;
  BRAID_ASSIGN_OR_RETURN(tensor.data, allocator.Allocate(bytes.size()));
  std::memcpy(tensor.data.mutable_data(), bytes.data(), bytes.size());
  return tensor;
}

Status Misfit(const TensorSpec& spec, size_t count) {
  return InvalidArgumentError("'" + spec.name + "' has " + std::to_string(count) +
                              " values, which do not fit the shape " + ShapeToString(spec.shape) +
                              " of the model's input");
}

// Returns the elements as integers; nullopt for other types.
std::optional<std::vector<int64_t>> Integers(const Tensor& tensor) {
  const auto read = [&tensor]<class T>(T) {
    std::vector<int64_t> values(tensor.data.size() / sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) {
      T value;
      std::memcpy(&value, tensor.data.data() + i * sizeof(T), sizeof(T));
      values[i] = static_cast<int64_t>(+value);
    }
    return values;
  };
  switch (tensor.type) {
    case DataType::kUint8:
      return read(uint8_t{});
    case DataType::kUint16:
      return read(uint16_t{});
    case DataType::kUint32:
      return read(uint32_t{});
    case DataType::kUint64:
      return read(uint64_t{});
    case DataType::kInt8:
      return read(int8_t{});
    case DataType::kInt16:
      return read(int16_t{});
    case DataType::kInt32:
      return read(int32_t{});
    case DataType::kInt64:
      return read(int64_t{});
    default:
      return std::nullopt;
  }
}

Status WrongOutput(std::string_view name, std::string_view expected, const Tensor& tensor) {
  return InternalError("the model's output '" + std::string(name) + "' must be " + std::string(expected) +
                       ", but it is " + std::string(TypeName(tensor)) + " " + ShapeToString(tensor.shape));
}

const ParameterValue* ParameterOf(const InferenceResponse& response, std::string_view name) {
  const auto found = std::find_if(response.parameters.begin(), response.parameters.end(),
                                  [name](const auto& parameter) { return parameter.first == name; });
  return found == response.parameters.end() ? nullptr : &found->second;
}

}  // namespace

Result<Tensor> TextTensor(std::string_view name, const Shape& shape, std::span<const std::string> texts,
                          BufferAllocator& allocator) {
  Tensor tensor;
  tensor.name = name;
  tensor.type = DataType::kBytes;
  tensor.shape = shape;
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += sizeof(uint32_t) + text.size();
  if (bytes == 0) return tensor;
  BRAID_ASSIGN_OR_RETURN(tensor.data, allocator.Allocate(bytes));
  std::byte* out = tensor.data.mutable_data();
  for (const std::string& text : texts) {
    const auto size = static_cast<uint32_t>(text.size());
    std::memcpy(out, &size, sizeof(size));
    text.copy(reinterpret_cast<char*>(out) + sizeof(size), size);
    out += sizeof(size) + size;
  }
  return tensor;
}

Result<Tensor> InputOf(const TensorSpec& spec, const Json& value, bool batching, BufferAllocator& allocator) {
  Shape shape = spec.shape;
  if (spec.type == DataType::kBytes) {
    const auto make = [&](std::span<const std::string> texts) -> Result<Tensor> {
      if (!FitShape(shape, texts.size(), batching)) return Misfit(spec, texts.size());
      return TextTensor(spec.name, shape, texts, allocator);
    };
    const auto is_text = [](const Json& each) { return each.is_string(); };
    if (value.is_string()) return make({&value.get_ref<const std::string&>(), 1});
    if (value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), is_text))
      return make(value.get<std::vector<std::string>>());
    return make(std::vector<std::string>{DumpJson(value)});
  }
  const auto* rule = std::find_if(std::begin(kElements), std::end(kElements),
                                  [&spec](const ElementRule& each) { return each.type == spec.type; });
  if (rule == std::end(kElements)) {
    return InvalidArgumentError("'" + spec.name + "' cannot be given: the model's input has the datatype " +
                                std::string(WireName(spec.type)));
  }
  std::string bytes;
  const size_t count = value.is_array() ? value.size() : 1;
  if (value.is_array()) {
    for (const Json& each : value)
      if (!rule->append(each, bytes)) return WrongValue(spec, rule->expected, each);
  } else if (!rule->append(value, bytes)) {
    return WrongValue(spec, rule->expected, value);
  }
  if (!FitShape(shape, count, batching)) return Misfit(spec, count);
  return TensorOf(spec.name, spec.type, shape, bytes, allocator);
}

const Tensor* OutputOf(const InferenceResponse& response, std::string_view name) {
  const auto found = std::find_if(response.outputs.begin(), response.outputs.end(),
                                  [name](const Tensor& output) { return output.name == name; });
  return found == response.outputs.end() ? nullptr : &*found;
}

Result<std::optional<std::string>> TextOutput(const InferenceResponse& response, std::string_view name) {
  const Tensor* output = OutputOf(response, name);
  if (output == nullptr) {
    const ParameterValue* parameter = ParameterOf(response, name);
    const auto* text = parameter == nullptr ? nullptr : std::get_if<std::string>(parameter);
    return text == nullptr ? std::optional<std::string>() : std::optional<std::string>(*text);
  }
  BytesElements elements(output->data.text());
  if (output->type != DataType::kBytes || ElementCount(output->shape) != 1 || !elements.Next())
    return WrongOutput(name, "one text", *output);
  return std::optional<std::string>(elements.value());
}

Result<std::optional<int64_t>> SumOfOutput(const InferenceResponse& response, std::string_view name) {
  const Tensor* output = OutputOf(response, name);
  if (output == nullptr) {
    const ParameterValue* parameter = ParameterOf(response, name);
    if (parameter == nullptr) return std::optional<int64_t>();
    if (const auto* number = std::get_if<int64_t>(parameter)) return std::optional<int64_t>(*number);
    if (const auto* number = std::get_if<uint64_t>(parameter))
      return std::optional<int64_t>(static_cast<int64_t>(*number));
    return std::optional<int64_t>();
  }
  const auto values = Integers(*output);
  if (!values) return WrongOutput(name, "of an integer type", *output);
  if (values->empty()) return std::optional<int64_t>();
  int64_t sum = 0;
  for (const int64_t value : *values)
    sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(value));
  return std::optional<int64_t>(sum);
}

Result<std::optional<int64_t>> IntegerOutput(const InferenceResponse& response, std::string_view name) {
  const Tensor* output = OutputOf(response, name);
  if (output != nullptr && ElementCount(output->shape) != 1) return WrongOutput(name, "one integer", *output);
  return SumOfOutput(response, name);
}

}  // namespace braid
