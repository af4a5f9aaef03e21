#include "mediapipe_graph/calculator_messages.h"

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "mediapipe_graph/plugin_packets.h"
#include "tensor/shared_bytes.h"

namespace braid {
namespace {

void WriteTensor(const Tensor& tensor, CalculatorTensor& message, std::vector<Tensor>& tensors) {
  message.set_name(tensor.name);
  message.set_datatype(std::string(TypeName(tensor)));
  message.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
  if (tensor.data.size() == 0) return;
  Tensor& bytes = tensors.emplace_back();
  bytes.type = DataType::kUint8;
  bytes.shape = {static_cast<int64_t>(tensor.data.size())};
  bytes.data = tensor.data;
  message.set_place(static_cast<uint32_t>(tensors.size() - 1));
}

void WriteParameters(const Parameters& parameters, CalculatorRequest& message) {
  for (const auto& [name, value] : parameters) {
    CalculatorParameter& parameter = *message.add_parameters();
    parameter.set_name(name);
    std::visit(
        [&parameter](const auto& one) {
          using T = std::decay_t<decltype(one)>;
          if constexpr (std::is_same_v<T, bool>) {
            parameter.set_flag(one);
          } else if constexpr (std::is_same_v<T, int64_t>) {
            parameter.set_integer(one);
          } else if constexpr (std::is_same_v<T, uint64_t>) {
            parameter.set_natural(one);
          } else if constexpr (std::is_same_v<T, double>) {
            parameter.set_number(one);
          } else {
            parameter.set_text(one);
          }
        },
        value);
  }
}

Result<ParameterValue> ReadParameter(const CalculatorParameter& message) {
  switch (message.value_case()) {
    case CalculatorParameter::kFlag:
      return ParameterValue(message.flag());
    case CalculatorParameter::kInteger:
      return ParameterValue(static_cast<int64_t>(message.integer()));
    case CalculatorParameter::kNatural:
      return ParameterValue(static_cast<uint64_t>(message.natural()));
    case CalculatorParameter::kNumber:
      return ParameterValue(message.number());
    case CalculatorParameter::kText:
      return ParameterValue(message.text());
    default:
      return InvalidArgumentError("a parameter without a value");
  }
}

Status ReadParts(const CalculatorRequest& message, std::span<const Tensor> tensors, Parameters& parameters,
                 std::vector<Tensor>& read) {
  for (const CalculatorParameter& parameter : message.parameters()) {
    BRAID_ASSIGN_OR_RETURN(ParameterValue value, ReadParameter(parameter));
    parameters.emplace_back(parameter.name(), std::move(value));
  }
  for (const CalculatorTensor& each : message.tensors()) {
    BRAID_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(each, tensors));
    read.push_back(std::move(tensor));
  }
  return OkStatus();
}

}  // namespace

Tensor MessageTensor(const google::protobuf::MessageLite& message) {
  const std::string text = message.SerializeAsString();
  Tensor tensor;
  tensor.type = DataType::kUint8;
  tensor.shape = {static_cast<int64_t>(text.size())};
  tensor.data = CopyToHeap(std::as_bytes(std::span(text)));
  return tensor;
}

Status ReadMessageTensor(std::span<const Tensor> tensors, google::protobuf::MessageLite& message) {
  if (tensors.empty()) return InvalidArgumentError("no message");
  BRAID_ASSIGN_OR_RETURN(const Buffer bytes, OutOfReach(tensors[0].data));
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidArgumentError("malformed message");
  }
  return OkStatus();
}

void WritePacket(const graph::Packet& packet, CalculatorPacket& message, std::vector<Tensor>& tensors) {
  message.set_timestamp(packet.timestamp().value());
  if (const auto* flag = packet.GetIf<bool>()) {
    message.set_flag(*flag);
  } else if (const auto* integer = packet.GetIf<int64_t>()) {
    message.set_integer(*integer);
  } else if (const auto* text = packet.GetIf<std::string>()) {
    message.set_text(*text);
  } else if (const auto* tensor = packet.GetIf<OvTensor>()) {
    WriteTensor(tensor->tensor, *message.mutable_tensor(), tensors);
  } else if (const auto* python = packet.GetIf<PythonTensor>()) {
    WriteTensor(
        python->value.tensor,
        python->value.has_bytes ? *message.mutable_python_tensor() : *message.mutable_object_of_python(),
        tensors);
  } else if (const auto* request = packet.GetIf<GraphRequest>()) {
    message.mutable_request()->set_id(request->id);
    WriteParameters(request->parameters, *message.mutable_request());
    for (const Tensor& each : request->inputs)
      WriteTensor(each, *message.mutable_request()->add_tensors(), tensors);
  } else if (const auto* response = packet.GetIf<GraphResponse>()) {
    WriteParameters(response->parameters, *message.mutable_response());
    for (const Tensor& each : response->outputs) {
      WriteTensor(each, *message.mutable_response()->add_tensors(), tensors);
    }
  } else {
    message.set_other(true);
  }
}

Result<Tensor> ReadTensor(const CalculatorTensor& message, std::span<const Tensor> tensors) {
  Tensor tensor;
  tensor.name = message.name();
  tensor.shape.assign(message.shape().begin(), message.shape().end());
  for (const int64_t dimension : tensor.shape) {
    if (dimension < 0) return InvalidArgumentError("a tensor with a negative dimension");
  }
  if (message.place() >= tensors.size()) return InvalidArgumentError("a tensor without its bytes");
  if (message.place() > 0) tensor.data = tensors[message.place()].data;
  const auto type = DataTypeFromWireName(message.datatype());
  if (!type && message.datatype().empty()) return InvalidArgumentError("a tensor without a type");
  tensor.type = type.value_or(DataType::kCustom);
  if (!type) tensor.custom_type = message.datatype();
  if (type == DataType::kBytes) {
    BRAID_ASSIGN_OR_RETURN(tensor.data, OutOfReach(tensor.data));
  }
  return tensor;
}

Result<GraphRequest> ReadRequest(const CalculatorRequest& message, std::span<const Tensor> tensors) {
  GraphRequest request;
  request.id = message.id();
  BRAID_RETURN_IF_ERROR(ReadParts(message, tensors, request.parameters, request.inputs));
  return request;
}

Result<GraphResponse> ReadResponse(const CalculatorRequest& message, std::span<const Tensor> tensors) {
  GraphResponse response;
  BRAID_RETURN_IF_ERROR(ReadParts(message, tensors, response.parameters, response.outputs));
  return response;
}

}  // namespace braid
