#include "protocols/tfs/predict_response_writer.h"

#include <algorithm>
#include <cstring>

#include "protocols/tfs/data_types.h"
#include "protocols/tfs/sequence_output.h"
#include "serving/faults.h"
#include "tensor/bytes_elements.h"
#include "tensor/shared_bytes.h"
#include "tensorflow_serving.pb.h"

namespace braid {
namespace {

using tensorflow::TensorProto;
using tensorflow::TensorShapeProto;
using tensorflow::serving::ModelSpec;
using tensorflow::serving::PredictResponse;

constexpr uint32_t kMapKey = 1;
constexpr uint32_t kMapValue = 2;

size_t DimensionSize(int64_t dimension) { return 1 + VarintSize(static_cast<uint64_t>(dimension)); }

// Returns the size of string_val. Errors: the output ends inside an element.
Result<size_t> StringsSize(const std::string& name, const Buffer& data) {
  size_t size = 0;
  BytesElements elements(data.text());
  while (elements.Next()) size += TextFieldSize(elements.value());
  if (elements.truncated()) {
    return InternalError("output '" + name + "' ends inside a string element");
  }
  return size;
}

void WriteStrings(GrpcMessageBuilder& out, const Buffer& data) {
  BytesElements elements(data.text());
  while (elements.Next()) {
    const std::string_view text = elements.value();
    if (text.size() < kReferencedTensorBytes) {
      out.Text(TensorProto::kStringValFieldNumber, text);
    } else {
      const auto offset = static_cast<size_t>(text.data() - data.text().data());
      out.Bytes(TensorProto::kStringValFieldNumber, data.Slice(offset, text.size()));
    }
  }
}

// Writes one entry of the map up to its tensor's elements, which take `data_size` bytes and are written next.
void WriteHead(GrpcMessageBuilder& out, const Tensor& tensor, tensorflow::DataType dtype, size_t data_size) {
  size_t shape_size = 0;
  for (int64_t dimension : tensor.shape) shape_size += LengthDelimitedSize(DimensionSize(dimension));
  const size_t proto_size =
      1 + VarintSize(static_cast<uint64_t>(dtype)) + LengthDelimitedSize(shape_size) + data_size;
  out.Length(PredictResponse::kOutputsFieldNumber,
             TextFieldSize(tensor.name) + LengthDelimitedSize(proto_size));
  out.Text(kMapKey, tensor.name);
  out.Length(kMapValue, proto_size);
  out.Tag(TensorProto::kDtypeFieldNumber, WireType::kVarint);
  out.Varint(static_cast<uint64_t>(dtype));
  out.Length(TensorProto::kTensorShapeFieldNumber, shape_size);
  for (int64_t dimension : tensor.shape) {
    out.Length(TensorShapeProto::kDimFieldNumber, DimensionSize(dimension));
    out.Tag(TensorShapeProto::Dim::kSizeFieldNumber, WireType::kVarint);
    out.Varint(static_cast<uint64_t>(dimension));
  }
}

Status WriteOutput(GrpcMessageBuilder& out, const Tensor& tensor) {
  const tensorflow::DataType dtype = ToTensorFlow(tensor.type);
  if (dtype == tensorflow::DT_INVALID) {
    return FaultError(Fault::kUnsupportedSerializationPrecision, "output name: " + tensor.name);
  }
  const bool strings = tensor.type == DataType::kBytes;
  size_t data_size = 0;
  Buffer elements;
  if (strings) {
    BRAID_ASSIGN_OR_RETURN(elements, OutOfReach(tensor.data));
    BRAID_ASSIGN_OR_RETURN(data_size, StringsSize(tensor.name, elements));
  } else if (!tensor.data.empty()) {
    data_size = LengthDelimitedSize(tensor.data.size());
  }
  WriteHead(out, tensor, dtype, data_size);
  if (strings) {
    WriteStrings(out, elements);
  } else if (!tensor.data.empty()) {
    out.Bytes(TensorProto::kTensorContentFieldNumber, tensor.data);
  }
  return OkStatus();
}

// Writes one number into uint64_val. REQUIRES: IsSequenceId(tensor).
void WriteSequenceId(GrpcMessageBuilder& out, const Tensor& tensor) {
  constexpr size_t kTagSize = 2;  // of fields from 16 on
  uint64_t id = 0;
  std::memcpy(&id, tensor.data.data(), sizeof(id));
  const size_t size = VarintSize(id);
  WriteHead(out, tensor, tensorflow::DT_UINT64, kTagSize + VarintSize(size) + size);
  out.Length(TensorProto::kUint64ValFieldNumber, size);
  out.Varint(id);
}

bool PassesFilter(const std::vector<std::string>& filter, std::string_view output) {
  return filter.empty() || std::find(filter.begin(), filter.end(), output) != filter.end();
}

void WriteModelSpec(GrpcMessageBuilder& out, const InferenceResponse& response) {
  if (response.model_name.empty()) return;
  const auto version = static_cast<uint64_t>(response.model_version);
  const size_t version_size = 1 + VarintSize(version);
  out.Length(PredictResponse::kModelSpecFieldNumber,
             TextFieldSize(response.model_name) + LengthDelimitedSize(version_size));
  out.Text(ModelSpec::kNameFieldNumber, response.model_name);
  out.Length(ModelSpec::kVersionFieldNumber, version_size);
  out.Tag(1, WireType::kVarint);
  out.Varint(version);
}

}  // namespace

Result<EncodedMessage> EncodePredictResponse(const InferenceResponse& response,
                                             const PredictResponseForm& form) {
  GrpcMessageBuilder out;
  for (const Tensor& tensor : response.outputs) {
    if (form.stateful && IsSequenceId(tensor)) {
      WriteSequenceId(out, tensor);
    } else if (PassesFilter(form.filter, tensor.name)) {
      BRAID_RETURN_IF_ERROR(WriteOutput(out, tensor));
    }
  }
  WriteModelSpec(out, response);
  return out.Build();
}

}  // namespace braid
