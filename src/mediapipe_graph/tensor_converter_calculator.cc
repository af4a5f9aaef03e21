#include "mediapipe_graph/tensor_converter_calculator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "mediapipe/ovms_calculators.pb.h"
#include "mediapipe_graph/graph_packets.h"

namespace braid {
namespace {

using ConverterOptions = ::mediapipe::PyTensorOvTensorConverterCalculatorOptions;
constexpr std::string_view kOv = "OVTENSOR";
constexpr std::string_view kPython = "OVMS_PY_TENSOR";

std::optional<std::string_view> Suffix(std::string_view tag) {
  if (tag.starts_with(kOv)) return tag.substr(kOv.size());
  if (tag.starts_with(kPython)) return tag.substr(kPython.size());
  return std::nullopt;
}

// BYTES and users' own types have no type on the other side.
bool Converts(DataType type) { return ElementSize(type) > 0; }

Result<Tensor> ToPython(const Tensor& from, const std::string& name) {
  if (!Converts(from.type)) {
    return InvalidArgumentError(std::string("Undefined precision in input tensor: ").append(TypeName(from)));
  }
  Tensor tensor = from;
  tensor.name = name;
  return tensor;
}

Result<Tensor> ToOv(const NodeTensor& from) {
  const Tensor& tensor = from.tensor;
  if (!Converts(tensor.type)) {
    return InvalidArgumentError(
        std::string("Undefined precision in input python tensor: ").append(TypeName(tensor)));
  }
  for (const int64_t size : tensor.shape) {
    if (size < 0) {
      return InvalidArgumentError("dimension negative during conversion: " + std::to_string(size));
    }
  }
  if (!from.has_bytes) {
    return InternalError(
        std::string("the node did not send the bytes of tensor '").append(tensor.name).append("'"));
  }
  const auto expected = ByteSize(tensor.type, tensor.shape);
  if (expected != tensor.data.size()) {
    return InvalidArgumentError("python buffer size: " + std::to_string(tensor.data.size()) +
                                "; OV tensor size: " + (expected ? std::to_string(*expected) : "too large") +
                                "; mismatch");
  }
  return tensor;
}

}  // namespace

Result<std::vector<TensorConverterCalculator::Pair>> TensorConverterCalculator::FindPairs(
    const graph::Contract& contract) {
  const graph::Ports& inputs = contract.inputs();
  const graph::Ports& outputs = contract.outputs();
  if (inputs.size() == 0 || inputs.size() != outputs.size()) {
    return InvalidArgumentError("it needs as many inputs as outputs, at least one; found " +
                                std::to_string(inputs.size()) + " and " + std::to_string(outputs.size()));
  }
  const auto output_for = [&outputs](const graph::Port& input) {
    for (int i = 0; i < outputs.size(); ++i) {
      if (Suffix(outputs[i].tag) == Suffix(input.tag) && outputs[i].index == input.index) return i;
    }
    return -1;
  };
  std::vector<Pair> pairs;
  for (int input = 0; input < inputs.size(); ++input) {
    if (!Suffix(inputs[input].tag) || !Suffix(outputs[input].tag)) {
      return InvalidArgumentError("tags must begin with OVTENSOR or OVMS_PY_TENSOR");
    }
    pairs.push_back({input, output_for(inputs[input]), inputs[input].tag.starts_with(kOv), {}});
  }
  std::vector<int> used;
  for (const Pair& pair : pairs) used.push_back(pair.output);
  std::sort(used.begin(), used.end());
  const bool by_suffix = used.front() >= 0 && std::adjacent_find(used.begin(), used.end()) == used.end();

  const auto options = contract.FindOptions<ConverterOptions>();
  for (Pair& pair : pairs) {
    if (!by_suffix) pair.output = pair.input;
    const std::string& tag = outputs[pair.output].tag;
    if (tag.starts_with(kPython) != pair.to_python) {
      return InvalidArgumentError("one of input '" + inputs[pair.input].name + "' and output '" +
                                  outputs[pair.output].name + "' must be OVTENSOR, the other OVMS_PY_TENSOR");
    }
    if (!pair.to_python) continue;
    const auto* names = options ? &options->tag_to_output_tensor_names() : nullptr;
    if (names == nullptr || !names->contains(tag)) {
      return InvalidArgumentError("tag_to_output_tensor_names has no key '" + tag +
                                  "' with the name of the output tensor");
    }
    pair.name = names->at(tag);
  }
  return pairs;
}

Status TensorConverterCalculator::FillContract(graph::Contract& contract) {
  BRAID_ASSIGN_OR_RETURN(const std::vector<Pair> pairs, FindPairs(contract));
  for (const Pair& pair : pairs) {
    const auto ov = graph::PortType::Of<OvTensor>();
    const auto python = graph::PortType::Of<PythonTensor>();
    contract.SetInput(pair.input, pair.to_python ? ov : python);
    contract.SetOutput(pair.output, pair.to_python ? python : ov);
  }
  contract.SetTimestampOffset(0);
  contract.SetQuick();
  return OkStatus();
}

Status TensorConverterCalculator::Open(graph::Context& context) {
  BRAID_ASSIGN_OR_RETURN(pairs_, FindPairs(context.contract()));
  return OkStatus();
}

Status TensorConverterCalculator::Process(graph::Context& context) {
  for (const Pair& pair : pairs_) {
    const graph::Packet& packet = context.Input(pair.input);
    if (packet.empty()) {
      // Other streams of the node may have a packet at this time.
      if (pairs_.size() > 1) continue;
      return InvalidArgumentError("the input packet is empty");
    }
    if (pair.to_python) {
      BRAID_ASSIGN_OR_RETURN(Tensor tensor, ToPython(packet.Get<OvTensor>().tensor, pair.name));
      context.Output(pair.output,
                     graph::Packet::Of(PythonTensor{NodeTensor{std::move(tensor), true, nullptr}},
                                       context.input_timestamp()));
    } else {
      BRAID_ASSIGN_OR_RETURN(Tensor tensor, ToOv(packet.Get<PythonTensor>().value));
      context.Output(pair.output, graph::Packet::Of(OvTensor{std::move(tensor)}, context.input_timestamp()));
    }
  }
  return OkStatus();
}

}  // namespace braid
