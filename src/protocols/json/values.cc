#include "protocols/json/values.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <variant>

#include "protocols/http/message.h"
#include "tensor/bytes_elements.h"
#include "tensor/shared_bytes.h"

namespace braid {
namespace {

template <class T>
void AppendInteger(std::string& out, T value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

template <class T>
void AppendFloat(std::string& out, T value) {
  if (std::isnan(value)) {
    out += "NaN";
    return;
  }
  if (std::isinf(value)) {
    out += value < 0 ? "-Infinity" : "Infinity";
    return;
  }
  char digits[40];
  const char* end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  const std::string_view text(digits, static_cast<size_t>(end - digits));
  out += text;
  // A reader of the text alone must see that this is not an integer.
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

template <class T, class Append>
void AppendValues(std::string& out, const Buffer& data, Append append) {
  const size_t count = data.size() / sizeof(T);
  out.reserve(out.size() + count * (sizeof(T) + 2));
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
    if (i != 0) out += ',';
    append(out, value);
  }
}

template <class T>
void AppendIntegers(std::string& out, const Buffer& data) {
  AppendValues<T>(out, data, [](std::string& text, T value) { AppendInteger(text, value); });
}

}  // namespace

Status AppendTensorValues(std::string& out, const Tensor& tensor) {
  // User code decides the outputs of graphs, so they are checked.
  if (ElementSize(tensor.type) > 0 && ByteSize(tensor.type, tensor.shape) != tensor.data.size()) {
    return InternalError("output '" + tensor.name + "' has " + std::to_string(tensor.data.size()) +
                         " bytes, which do not fit its datatype " + std::string(WireName(tensor.type)) +
                         " and shape " + ShapeToString(tensor.shape));
  }
  switch (tensor.type) {
    case DataType::kBool:
      AppendValues<uint8_t>(out, tensor.data,
                            [](std::string& text, uint8_t value) { text += value != 0 ? "true" : "false"; });
      return OkStatus();
    case DataType::kUint8:
      AppendIntegers<uint8_t>(out, tensor.data);
      return OkStatus();
    case DataType::kUint16:
      AppendIntegers<uint16_t>(out, tensor.data);
      return OkStatus();
    case DataType::kUint32:
      AppendIntegers<uint32_t>(out, tensor.data);
      return OkStatus();
    case DataType::kUint64:
      AppendIntegers<uint64_t>(out, tensor.data);
      return OkStatus();
    case DataType::kInt8:
      AppendIntegers<int8_t>(out, tensor.data);
      return OkStatus();
    case DataType::kInt16:
      AppendIntegers<int16_t>(out, tensor.data);
      return OkStatus();
    case DataType::kInt32:
      AppendIntegers<int32_t>(out, tensor.data);
      return OkStatus();
    case DataType::kInt64:
      AppendIntegers<int64_t>(out, tensor.data);
      return OkStatus();
    case DataType::kFp32:
      AppendValues<float>(out, tensor.data, AppendFloat<float>);
      return OkStatus();
    case DataType::kFp64:
      AppendValues<double>(out, tensor.data, AppendFloat<double>);
      return OkStatus();
    case DataType::kBytes: {
      BRAID_ASSIGN_OR_RETURN(const Buffer bytes, OutOfReach(tensor.data));
      BytesElements elements(bytes.text());
      bool first = true;
      while (elements.Next()) {
        if (!first) out += ',';
        first = false;
        AppendJsonString(out, elements.value());
      }
      if (elements.truncated()) {
        return InternalError("output '" + tensor.name + "' ends inside a string element");
      }
      return OkStatus();
    }
    case DataType::kFp16:
    case DataType::kBf16:
    case DataType::kCustom:
      return InvalidArgumentError(
          "sending " + std::string(TypeName(tensor)) +
          " data via JSON is not supported. Please use the binary data format for output");
    case DataType::kInvalid:
      break;
  }
  return InternalError("output '" + tensor.name + "' has no datatype");
}

void AppendJsonNumber(std::string& out, float value) { AppendFloat(out, value); }
void AppendJsonNumber(std::string& out, double value) { AppendFloat(out, value); }

void AppendParameterValue(std::string& out, const ParameterValue& value) {
  std::visit(
      [&out](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>) {
          out += v ? "true" : "false";
        } else if constexpr (std::is_same_v<T, std::string>) {
          AppendJsonString(out, v);
        } else if constexpr (std::is_same_v<T, double>) {
          AppendJsonNumber(out, v);
        } else {
          char digits[24];
          out.append(digits, std::to_chars(digits, digits + sizeof(digits), v).ptr);
        }
      },
      value);
}

}  // namespace braid
