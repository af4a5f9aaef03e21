#include "serving/request_check_ovms.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/utf8.h"
#include "serving/faults.h"
#include "tensor/bytes_elements.h"

namespace braid {
namespace {

std::string ForInput(std::string text, std::string_view input) {
  return text.append("; input name: ").append(Shortened(input));
}

Status Mismatch(Fault code, const std::string& expected, const std::string& actual, std::string_view input) {
  return FaultError(code, ForInput("Expected: " + expected + "; Actual: " + actual, input));
}

std::string ShapeText(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ',';
    text += std::to_string(shape[i]);
  }
  return text + ")";
}

// Returns the sizes allowed for the dimension at `index`.
DimensionRange RangeOf(const TensorSpec& spec, size_t index) {
  if (spec.shape[index] >= 0) return {spec.shape[index], spec.shape[index]};
  return index < spec.ranges.size() ? spec.ranges[index] : DimensionRange{};
}

bool Contains(const DimensionRange& range, int64_t size) {
  return size >= range.min && (range.max < 0 || size <= range.max);
}

// "10", "[1~8]", or "-1" for any size.
std::string RangeText(const DimensionRange& range) {
  if (range.max >= 0 && range.min == range.max) return std::to_string(range.max);
  if (range.max < 0 && range.min <= 1) return "-1";
  std::string text = "[";
  text.append(std::to_string(range.min)).append("~").append(std::to_string(range.max)).append("]");
  return text;
}

std::string SpecText(const TensorSpec& spec) {
  std::string text = "(";
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    if (i != 0) text += ',';
    text += RangeText(RangeOf(spec, i));
  }
  return text + ")";
}

// Returns the batch dimension: the layout's N, or the first dimension if there is no layout.
std::optional<size_t> BatchDimension(const TensorSpec& spec) {
  if (spec.shape.empty()) return std::nullopt;
  const std::string_view layout = spec.layout;
  if (layout.empty()) return 0;
  const size_t n = layout.find('N');
  if (n == std::string_view::npos) return std::nullopt;
  const size_t dots = layout.find("...");
  if (dots == std::string_view::npos || n < dots) {
    return n < spec.shape.size() ? std::optional(n) : std::nullopt;
  }
  const size_t from_end = layout.size() - n;
  return from_end <= spec.shape.size() ? std::optional(spec.shape.size() - from_end) : std::nullopt;
}

Status CheckShape(const TensorSpec& spec, const Tensor& input) {
  if (input.shape.size() != spec.shape.size()) {
    return Mismatch(Fault::kInvalidNoOfShapeDimensions, SpecText(spec), ShapeText(input.shape), spec.name);
  }
  const std::optional<size_t> batch = BatchDimension(spec);
  if (batch && !Contains(RangeOf(spec, *batch), input.shape[*batch])) {
    return Mismatch(Fault::kInvalidBatchSize, RangeText(RangeOf(spec, *batch)),
                    std::to_string(input.shape[*batch]), spec.name);
  }
  for (size_t i = 0; i < input.shape.size(); ++i) {
    if (!Contains(RangeOf(spec, i), input.shape[i])) {
      return Mismatch(Fault::kInvalidShape, SpecText(spec), ShapeText(input.shape), spec.name);
    }
  }
  return OkStatus();
}

// Accepts BYTES if `images` is set.
Status CheckSpec(const TensorSpec& spec, const Tensor& input, bool images, ApiProtocol protocol) {
  if (std::any_of(input.shape.begin(), input.shape.end(), [](int64_t size) { return size < 0; })) {
    return FaultError(
        Fault::kInvalidShape,
        ForInput("Negative or zero dimension size is not acceptable: " + ShapeText(input.shape), spec.name));
  }
  // Pipeline inputs that no node uses accept any tensor.
  if (spec.type == DataType::kInvalid) return OkStatus();
  if (images && input.type == DataType::kBytes) return OkStatus();
  if (input.type != spec.type) return OvmsPrecisionError(spec, PrecisionName(input.type, protocol), protocol);
  return CheckShape(spec, input);
}

Status CheckStrings(const Tensor& input, int64_t expected) {
  BytesElements elements(input.data.text());
  uint64_t count = 0;
  while (elements.Next()) ++count;
  if (elements.truncated()) {
    return FaultError(Fault::kInvalidInputFormat,
                      ForInput("string element " + std::to_string(count) + " is cut off", input.name));
  }
  if (count != static_cast<uint64_t>(expected)) return OvmsValueCountError(expected, count, input.name);
  return OkStatus();
}

Status CheckBytes(const Tensor& input) {
  if (input.type == DataType::kBytes) {
    const std::optional<int64_t> count = ElementCount(input.shape);
    if (count) return CheckStrings(input, *count);
  } else if (const std::optional<size_t> bytes = ByteSize(input.type, input.shape)) {
    if (*bytes == input.data.size()) return OkStatus();
    return Mismatch(Fault::kInvalidContentSize, std::to_string(*bytes) + " bytes",
                    std::to_string(input.data.size()) + " bytes", input.name);
  }
  return FaultError(
      Fault::kInvalidContentSize,
      ForInput("Provided shape and datatype declare too large buffer: " + ShapeText(input.shape),
               input.name));
}

// Clients usually name tensors in the order of the metadata, so the search begins at the input's place there.
const Tensor* FindTensor(const InferenceRequest& request, std::string_view name, size_t hint) {
  if (hint < request.inputs.size() && request.inputs[hint].name == name) return &request.inputs[hint];
  const auto found = std::find_if(request.inputs.begin(), request.inputs.end(),
                                  [&](const Tensor& input) { return input.name == name; });
  return found == request.inputs.end() ? nullptr : &*found;
}

// Returns the error for an input that is unknown or occurs twice. REQUIRES: there is one.
Status UnexpectedInput(const ServableInfo& info, const InferenceRequest& request) {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const Tensor& input = request.inputs[i];
    if (info.FindInput(input.name) == nullptr) {
      return FaultError(Fault::kInvalidUnexpectedInput, Shortened(input.name) + " is unexpected");
    }
    if (FindTensor(request, input.name, 0) != &input) {
      return FaultError(Fault::kInvalidUnexpectedInput, input.name + " is given more than once");
    }
  }
  return OkStatus();
}

Status CheckInputs(const ServableInfo& info, const InferenceRequest& request, bool with_bytes) {
  BRAID_RETURN_IF_ERROR(CheckOvmsInputCount(info, request.inputs.size(), request.sequence_inputs));
  size_t found = 0;
  for (size_t i = 0; i < info.inputs.size(); ++i) {
    const TensorSpec& spec = info.inputs[i];
    const Tensor* input = FindTensor(request, spec.name, i);
    if (input == nullptr) {
      if (spec.optional) continue;
      return FaultError(Fault::kInvalidMissingInput, "Required input: " + spec.name);
    }
    ++found;
    const bool images = !with_bytes && TakesEncodedImages(spec, info.kind);
    BRAID_RETURN_IF_ERROR(CheckSpec(spec, *input, images, request.protocol()));
    if (with_bytes) BRAID_RETURN_IF_ERROR(CheckBytes(*input));
  }
  return found == request.inputs.size() ? OkStatus() : UnexpectedInput(info, request);
}

Status CheckOvmsOutputs(const ServableInfo& info, const InferenceRequest& request) {
  const auto& names = request.requested_outputs;
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (info.FindOutput(*name) == nullptr) {
      return InvalidArgumentError("requested output '" + Shortened(*name) + "' is not an output of '" +
                                  info.name + "'");
    }
    if (std::find(names.begin(), name, *name) != name) {
      return InvalidArgumentError("output '" + *name + "' is requested more than once");
    }
  }
  return OkStatus();
}

std::string_view TensorFlowPrecisionName(DataType type) {
  switch (type) {
    case DataType::kUint8:
      return "U8";
    case DataType::kUint16:
      return "U16";
    case DataType::kUint32:
      return "U32";
    case DataType::kUint64:
      return "U64";
    case DataType::kInt8:
      return "I8";
    case DataType::kInt16:
      return "I16";
    case DataType::kInt32:
      return "I32";
    case DataType::kInt64:
      return "I64";
    case DataType::kBytes:
      return "STRING";
    default:
      return WireName(type);
  }
}

}  // namespace

bool TakesEncodedImages(const TensorSpec& spec, ServableKind kind) {
  const size_t rank = spec.shape.size();
  return spec.type != DataType::kBytes && spec.type != DataType::kInvalid &&
         (rank == 4 || (rank == 5 && kind == ServableKind::kPipeline));
}

std::string_view PrecisionName(DataType type, ApiProtocol protocol) {
  return protocol == ApiProtocol::kTensorFlowServing ? TensorFlowPrecisionName(type) : WireName(type);
}

Status OvmsValueCountError(int64_t expected, uint64_t actual, std::string_view input) {
  return Mismatch(Fault::kInvalidValueCount, std::to_string(expected) + " values",
                  std::to_string(actual) + " values", input);
}

Status OvmsPrecisionError(const TensorSpec& spec, std::string_view actual, ApiProtocol protocol) {
  return Mismatch(Fault::kInvalidPrecision, std::string(PrecisionName(spec.type, protocol)),
                  std::string(actual), spec.name);
}

Status CheckOvmsInputCount(const ServableInfo& info, size_t count, size_t sequence_inputs) {
  const auto required = static_cast<size_t>(std::count_if(
      info.inputs.begin(), info.inputs.end(), [](const TensorSpec& spec) { return !spec.optional; }));
  if (count >= required && count <= info.inputs.size()) return OkStatus();
  return FaultError(Fault::kInvalidNoOfInputs, "Expected: " + std::to_string(required + sequence_inputs) +
                                                   "; Actual: " + std::to_string(count + sequence_inputs));
}

Status CheckOvmsTensors(const ServableInfo& info, const InferenceRequest& request) {
  return CheckInputs(info, request, false);
}

Status CheckOvmsRequest(const ServableInfo& info, InferenceRequest& request) {
  request.batch_size = 1;
  BRAID_RETURN_IF_ERROR(CheckInputs(info, request, true));
  return CheckOvmsOutputs(info, request);
}

}  // namespace braid
