#include "protocols/tfs/rest_predict_response.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "base/utf8.h"
#include "protocols/http/message.h"
#include "protocols/json/values.h"
#include "protocols/tfs/sequence_output.h"
#include "tensor/bytes_elements.h"
#include "tensor/half_float.h"
#include "tensor/shared_bytes.h"

namespace braid {
namespace {

constexpr std::string_view kIndent = "    ";
// Limit on empty arrays of arrays, for outputs without elements.
constexpr int64_t kMostEmptyArrays = 1 << 20;

Status WriteError(const Tensor& tensor, std::string_view text) {
  return InternalError("Response parsing to JSON error - " + std::string(text) +
                       "; output name: " + tensor.name);
}

void AppendBase64(std::string& out, std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    }
    for (size_t i = 0; i < 4; ++i) out += i <= count ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
}

void AppendText(std::string& out, std::string_view text) {
  if (IsUtf8(text)) {
    AppendJsonString(out, text);
    return;
  }
  out += "{\"b64\": \"";
  AppendBase64(out, text);
  out += "\"}";
}

template <class T>
void AppendNumber(std::string& out, T value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

// Writes the elements of one output in order, in the steps that the format needs.
class OutputWriter {
 public:
  // `bytes` are the tensor's. Those of strings must not change while this object reads them.
  OutputWriter(const Tensor& tensor, Buffer bytes, bool shared)
      : tensor_(tensor), bytes_(std::move(bytes)), strings_(bytes_.text()), shared_(shared) {}

  // Checks that the data matches type and shape.
  Status Check() const {
    const std::optional<int64_t> count = ElementCount(tensor_.shape);
    if (!count || tensor_.type == DataType::kInvalid) return WriteError(tensor_, "no such tensor");
    if (*count == 0) {
      int64_t arrays = 1;
      for (int64_t size : tensor_.shape) {
        if (size == 0) break;
        if (__builtin_mul_overflow(arrays, size, &arrays)) arrays = kMostEmptyArrays + 1;
        if (arrays > kMostEmptyArrays) return WriteError(tensor_, "too many empty arrays");
      }
    }
    if (tensor_.type == DataType::kBytes) {
      int64_t elements = 0;
      BytesElements strings(bytes_.text());
      while (strings.Next()) ++elements;
      if (strings.truncated() || elements != *count) return WriteError(tensor_, "broken strings");
    } else if (ByteSize(tensor_.type, tensor_.shape) != bytes_.size()) {
      return WriteError(tensor_, "wrong size");
    }
    return OkStatus();
  }

  const Tensor& tensor() const { return tensor_; }
  // Whether a single row belongs to each row of the other outputs.
  bool shared() const { return shared_; }

  void AppendRow(std::string& out) {
    if (shared_) offset_ = 0;
    Append(out, std::span(tensor_.shape).subspan(1));
  }

  // Appends the next elements as nested arrays; one element if there is no dimension.
  void Append(std::string& out, std::span<const int64_t> shape) {
    if (shape.size() <= 1) {
      if (shape.empty()) return AppendRun(out, 1);
      out += '[';
      AppendRun(out, shape[0]);
      out += ']';
      return;
    }
    out += '[';
    for (int64_t i = 0; i < shape[0]; ++i) {
      if (i != 0) out += ", ";
      Append(out, shape.subspan(1));
    }
    out += ']';
  }

 private:
  template <class T, class Write>
  void Run(std::string& out, int64_t count, Write write) {
    for (int64_t i = 0; i < count; ++i) {
      T value{};
      std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
      offset_ += sizeof(T);
      if (i != 0) out += ", ";
      write(out, value);
    }
  }
  template <class T>
  void Integers(std::string& out, int64_t count) {
    Run<T>(out, count, [](std::string& to, T value) { AppendNumber(to, value); });
  }

  void AppendRun(std::string& out, int64_t count) {
    switch (tensor_.type) {
      case DataType::kBool:
        return Run<uint8_t>(out, count,
                            [](std::string& to, uint8_t value) { to += value ? "true" : "false"; });
      case DataType::kUint8:
        return Integers<uint8_t>(out, count);
      case DataType::kUint16:
        return Integers<uint16_t>(out, count);
      case DataType::kUint32:
        return Integers<uint32_t>(out, count);
      case DataType::kUint64:
        return Integers<uint64_t>(out, count);
      case DataType::kInt8:
        return Integers<int8_t>(out, count);
      case DataType::kInt16:
        return Integers<int16_t>(out, count);
      case DataType::kInt32:
        return Integers<int32_t>(out, count);
      case DataType::kInt64:
        return Integers<int64_t>(out, count);
      case DataType::kFp16:
        return Run<uint16_t>(
            out, count, [](std::string& to, uint16_t bits) { AppendJsonNumber(to, FloatFromHalf(bits)); });
      case DataType::kBf16:
        return Run<uint16_t>(
            out, count, [](std::string& to, uint16_t bits) { AppendJsonNumber(to, FloatFromBf16(bits)); });
      case DataType::kFp32:
        return Run<float>(out, count, [](std::string& to, float value) { AppendJsonNumber(to, value); });
      case DataType::kFp64:
        return Run<double>(out, count, [](std::string& to, double value) { AppendJsonNumber(to, value); });
      case DataType::kBytes:
        for (int64_t i = 0; i < count && strings_.Next(); ++i) {
          if (i != 0) out += ", ";
          AppendText(out, strings_.value());
        }
        return;
      case DataType::kInvalid:
      case DataType::kCustom:
        return;
    }
  }

  const Tensor& tensor_;
  const Buffer bytes_;
  size_t offset_ = 0;
  BytesElements strings_;
  const bool shared_;
};

using Outputs = std::vector<OutputWriter>;

// Appends "\n" and `depth` levels of indentation.
void NewLine(std::string& out, int depth) {
  out += '\n';
  for (int i = 0; i < depth; ++i) out += kIndent;
}

void WriteColumns(std::string& out, Outputs& outputs) {
  out += "\"outputs\": ";
  if (outputs.size() == 1) return outputs[0].Append(out, outputs[0].tensor().shape);
  out += '{';
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i != 0) out += ',';
    NewLine(out, 2);
    AppendJsonString(out, outputs[i].tensor().name);
    out += ": ";
    outputs[i].Append(out, outputs[i].tensor().shape);
  }
  NewLine(out, 1);
  out += '}';
}

Status WriteRows(std::string& out, Outputs& outputs) {
  std::optional<int64_t> rows;
  for (const OutputWriter& output : outputs) {
    const Shape& shape = output.tensor().shape;
    if (shape.empty()) return WriteError(output.tensor(), "the output has no rows");
    if (output.shared()) continue;
    if (!rows) rows = shape[0];
    if (shape[0] != *rows) return WriteError(output.tensor(), "outputs have different numbers of rows");
  }
  const int64_t count = rows.value_or(outputs.empty() ? 0 : 1);
  out += "\"predictions\": [";
  for (int64_t row = 0; row < count; ++row) {
    if (row != 0) out += ',';
    NewLine(out, 2);
    if (outputs.size() == 1) {
      outputs[0].AppendRow(out);
      continue;
    }
    out += '{';
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (i != 0) out += ',';
      NewLine(out, 3);
      AppendJsonString(out, outputs[i].tensor().name);
      out += ": ";
      outputs[i].AppendRow(out);
    }
    NewLine(out, 2);
    out += '}';
  }
  NewLine(out, 1);
  out += ']';
  return OkStatus();
}

}  // namespace

Result<std::string> WriteRestPredictResponse(const InferenceResponse& response, TfsFormat format,
                                             bool stateful) {
  Outputs outputs;
  size_t bytes = 0;
  for (const Tensor& tensor : response.outputs) {
    Buffer shown = tensor.data;
    if (tensor.type == DataType::kBytes) {
      BRAID_ASSIGN_OR_RETURN(shown, OutOfReach(shown));
    }
    outputs.emplace_back(tensor, std::move(shown), stateful && IsSequenceId(tensor));
    BRAID_RETURN_IF_ERROR(outputs.back().Check());
    bytes += tensor.data.size();
  }
  std::string out;
  out.reserve(256 + bytes * 2);
  out += '{';
  NewLine(out, 1);
  if (format == TfsFormat::kRow) {
    BRAID_RETURN_IF_ERROR(WriteRows(out, outputs));
  } else {
    WriteColumns(out, outputs);
  }
  out += "\n}\n";
  return out;
}

}  // namespace braid
