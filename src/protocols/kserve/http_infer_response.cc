#include "protocols/kserve/http_infer_response.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "protocols/kserve/classification.h"
#include "protocols/kserve/http_parameters.h"
#include "serving/ovms_status.h"
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
  // A reader that looks at the text alone should see that this is no integer.
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

void AppendParameters(std::string& out, const Parameters& parameters) {
  out += '{';
  bool first = true;
  for (const auto& [name, value] : parameters) {
    if (!first) out += ',';
    first = false;
    AppendJsonString(out, name);
    out += ':';
    AppendParameterValue(out, value);
  }
  out += '}';
}

bool IsBinary(const HttpOutputFormat& format, const std::string& name) {
  const HttpOutputChoice* choice = format.Find(name);
  return choice != nullptr ? choice->binary : format.binary_default;
}

}  // namespace

Status AppendTensorValues(std::string& out, const Tensor& tensor) {
  // The outputs of graphs are what user code says they are.
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

const HttpOutputChoice* HttpOutputFormat::Find(std::string_view name) const {
  for (const HttpOutputChoice& choice : choices) {
    if (choice.name == name) return &choice;
  }
  return nullptr;
}

void PutOutputs(const HttpOutputFormat& format, InferenceResponse& response) {
  if (!response.status.ok()) return;
  for (Tensor& output : response.outputs) {
    const HttpOutputChoice* choice = format.Find(output.name);
    if (choice == nullptr || !choice->part.region) continue;
    Status put = PutOutput(choice->part, output);
    if (put.ok()) continue;
    response.status = std::move(put);
    response.outputs.clear();
    return;
  }
}

size_t JsonOutputBytes(const InferenceResponse& response, const HttpOutputFormat& format) {
  size_t bytes = 0;
  for (const Tensor& output : response.outputs) {
    if (!IsBinary(format, output.name)) bytes += output.data.size();
  }
  return bytes;
}

Result<HttpResponse> WriteInferResponse(std::string_view id, InferenceResponse response,
                                        const HttpOutputFormat& format) {
  HttpResponse out;
  std::string& json = out.body;
  json.reserve(256);
  json += '{';
  if (!id.empty()) {
    json += "\"id\":";
    AppendJsonString(json, id);
    json += ',';
  }
  json += "\"model_name\":";
  AppendJsonString(json, response.model_name);
  json += ",\"model_version\":\"";
  AppendInteger(json, response.model_version);
  json += '"';
  if (!response.parameters.empty()) {
    json += ",\"parameters\":";
    AppendParameters(json, response.parameters);
  }
  json += ",\"outputs\":[";
  bool has_binary = false;
  bool first = true;
  for (Tensor& output : response.outputs) {
    const HttpOutputChoice* choice = format.Find(output.name);
    Tensor tensor = std::move(output);
    if (choice != nullptr && choice->classification > 0) {
      const TensorSpec* spec = choice->spec.name.empty() ? nullptr : &choice->spec;
      BRAID_ASSIGN_OR_RETURN(tensor, Classify(tensor, choice->classification, format.batching, spec));
    }
    if (!first) json += ',';
    first = false;
    json += "{\"name\":";
    AppendJsonString(json, tensor.name);
    json += ",\"datatype\":";
    AppendJsonString(json, TypeName(tensor));
    json += ",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      if (i != 0) json += ',';
      AppendInteger(json, tensor.shape[i]);
    }
    if (choice != nullptr && choice->part.region) {
      json += "],\"parameters\":{\"shared_memory_region\":";
      AppendJsonString(json, choice->part.region->info().name);
      json += ",\"shared_memory_byte_size\":";
      AppendInteger(json, choice->part.byte_size);
      if (choice->part.offset != 0) {
        json += ",\"shared_memory_offset\":";
        AppendInteger(json, choice->part.offset);
      }
      json += "}}";
    } else if (choice != nullptr ? choice->binary : format.binary_default) {
      has_binary = true;
      json += "],\"parameters\":{\"binary_data_size\":";
      AppendInteger(json, tensor.data.size());
      json += "}}";
      if (!tensor.data.empty()) out.tail.push_back(std::move(tensor.data));
    } else {
      json += "],\"data\":[";
      Status appended = AppendTensorValues(json, tensor);
      if (format.dialect == Dialect::kOvms && appended.code() == StatusCode::kInvalidArgument) {
        return OvmsError(OvmsCode::kRestUnsupportedPrecision, appended.message() + " " + tensor.name);
      }
      if (format.dialect == Dialect::kOvms && !appended.ok()) {
        return OvmsError(OvmsCode::kInternalError, appended.message());
      }
      BRAID_RETURN_IF_ERROR(appended);
      json += "]}";
    }
  }
  json += "]}";
  if (has_binary) {
    out.content_type = "application/octet-stream";
    out.headers.emplace_back("Inference-Header-Content-Length", std::to_string(json.size()));
  } else {
    out.content_type = kJsonType;
  }
  return out;
}

}  // namespace braid
