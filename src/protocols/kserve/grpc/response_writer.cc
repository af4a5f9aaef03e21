#include "protocols/kserve/grpc/response_writer.h"

#include <bit>
#include <charconv>
#include <optional>
#include <string>

#include "base/utf8.h"
#include "protocols/grpc/message_builder.h"
#include "tensor/tensor.h"

namespace braid {
namespace {

// ModelInferResponse
constexpr uint32_t kModelName = 1;
constexpr uint32_t kModelVersion = 2;
constexpr uint32_t kId = 3;
constexpr uint32_t kParameters = 4;
constexpr uint32_t kOutputs = 5;
constexpr uint32_t kRawOutputContents = 6;
// InferOutputTensor
constexpr uint32_t kOutputName = 1;
constexpr uint32_t kOutputDatatype = 2;
constexpr uint32_t kOutputShape = 3;
// ModelStreamInferResponse
constexpr uint32_t kErrorMessage = 1;
constexpr uint32_t kInferResponse = 2;

constexpr std::string_view kFinalResponse = "triton_final_response";

// Writes one entry of map<string, InferParameter>.
void WriteParameter(GrpcMessageBuilder& out, std::string_view key, const ParameterValue& value) {
  const auto entry = [&](size_t value_size) {
    out.Length(kParameters, TextFieldSize(key) + 1 + VarintSize(value_size) + value_size);
    out.Text(1, key);
    out.Length(2, value_size);
  };
  if (const auto* flag = std::get_if<bool>(&value)) {
    entry(2);
    out.Tag(1, WireType::kVarint);
    out.Varint(*flag ? 1 : 0);
  } else if (const auto* number = std::get_if<int64_t>(&value)) {
    entry(1 + VarintSize(static_cast<uint64_t>(*number)));
    out.Tag(2, WireType::kVarint);
    out.Varint(static_cast<uint64_t>(*number));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    entry(TextFieldSize(*text));
    out.Text(3, *text);
  } else if (const auto* real = std::get_if<double>(&value)) {
    entry(9);
    out.Fixed64(4, std::bit_cast<uint64_t>(*real));
  } else if (const auto* unsigned_number = std::get_if<uint64_t>(&value)) {
    entry(1 + VarintSize(*unsigned_number));
    out.Tag(5, WireType::kVarint);
    out.Varint(*unsigned_number);
  }
}

void WriteHead(GrpcMessageBuilder& out, std::string_view id, const InferenceResponse& response) {
  if (!response.model_name.empty()) {
    out.Text(kModelName, response.model_name);
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof(digits), response.model_version).ptr;
    out.Text(kModelVersion, {digits, static_cast<size_t>(end - digits)});
  }
  out.OptionalText(kId, id);
}

// Returns the parameters with the place of an output in shared memory.
std::string RegionFields(const RegionPart& part) {
  GrpcMessageBuilder out;
  WriteParameter(out, "shared_memory_region", ParameterValue(part.region->info().name));
  WriteParameter(out, "shared_memory_byte_size", ParameterValue(static_cast<int64_t>(part.byte_size)));
  if (part.offset != 0) {
    WriteParameter(out, "shared_memory_offset", ParameterValue(static_cast<int64_t>(part.offset)));
  }
  return std::string(out.text());
}

void WriteOutput(GrpcMessageBuilder& out, const Tensor& tensor, const OutputPlan* plan) {
  std::string parameters;
  if (const OutputRequest* asked = plan != nullptr ? plan->Find(tensor.name) : nullptr) {
    if (asked->part.region) parameters = RegionFields(asked->part);
  }
  size_t shape_size = 0;
  for (int64_t dimension : tensor.shape) shape_size += VarintSize(static_cast<uint64_t>(dimension));
  const std::string_view datatype = TypeName(tensor);
  const size_t packed_size = tensor.shape.empty() ? 0 : 1 + VarintSize(shape_size) + shape_size;
  out.Length(kOutputs,
             TextFieldSize(tensor.name) + TextFieldSize(datatype) + packed_size + parameters.size());
  out.Text(kOutputName, tensor.name);
  out.Text(kOutputDatatype, datatype);
  if (!tensor.shape.empty()) {
    out.Length(kOutputShape, shape_size);
    for (int64_t dimension : tensor.shape) out.Varint(static_cast<uint64_t>(dimension));
  }
  out.Append(parameters);
}

void WriteResponse(GrpcMessageBuilder& out, std::string_view id, const InferenceResponse& response,
                   std::optional<bool> final, const OutputPlan* plan) {
  WriteHead(out, id, response);
  for (const auto& [key, value] : response.parameters) WriteParameter(out, key, value);
  if (final) WriteParameter(out, kFinalResponse, ParameterValue(*final));
  for (const Tensor& tensor : response.outputs) WriteOutput(out, tensor, plan);
  for (const Tensor& tensor : response.outputs) out.Bytes(kRawOutputContents, tensor.data);
}

}  // namespace

EncodedMessage EncodeUnaryResponse(std::string_view id, const InferenceResponse& response,
                                   const OutputPlan* plan) {
  GrpcMessageBuilder out;
  WriteResponse(out, id, response, std::nullopt, plan);
  return out.Build();
}

EncodedMessage EncodeStreamResponse(std::string_view id, const InferenceResponse& response,
                                    std::optional<bool> final, const OutputPlan* plan) {
  GrpcMessageBuilder out;
  WriteResponse(out, id, response, final, plan);
  out.Wrap({}, kInferResponse);
  return out.Build();
}

EncodedMessage EncodeStreamError(std::string_view id, std::string_view message,
                                 const InferenceResponse* response, bool final) {
  GrpcMessageBuilder out;
  if (response != nullptr) {
    WriteHead(out, id, *response);
    WriteParameter(out, kFinalResponse, ParameterValue(final));
  } else {
    out.OptionalText(kId, id);
  }
  GrpcMessageBuilder error;
  error.Text(kErrorMessage, ToUtf8(message));
  out.Wrap(error.text(), kInferResponse);
  return out.Build();
}

}  // namespace braid
