#include "mediapipe_graph/inference_ports.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "mediapipe/ovms_calculators.pb.h"

namespace braid {
namespace {

using Options = ::mediapipe::OpenVINOInferenceCalculatorOptions;
using Names = google::protobuf::Map<std::string, std::string>;
using OrderList = google::protobuf::RepeatedPtrField<std::string>;

struct TagPrefix {
  std::string_view text;
  InferencePort::Form form;
  bool many;
  bool served;
};

// In the order of comparison with tags.
constexpr std::array kPrefixes = {
    TagPrefix{"OVTENSORS", InferencePort::Form::kOv, true, true},
    TagPrefix{"OVTENSOR", InferencePort::Form::kOv, false, true},
    TagPrefix{"TENSORS", InferencePort::Form::kMedia, true, true},
    TagPrefix{"TENSOR", InferencePort::Form::kMedia, false, true},
    TagPrefix{"TFTENSORS", InferencePort::Form::kTf, true, true},
    TagPrefix{"TFTENSOR", InferencePort::Form::kTf, false, true},
    TagPrefix{"TFLITE_TENSORS", InferencePort::Form::kTf, true, false},
    TagPrefix{"TFLITE_TENSOR", InferencePort::Form::kTf, false, false},
};
constexpr TagPrefix kAnyTag{"", InferencePort::Form::kOv, false, true};

const TagPrefix& PrefixOf(std::string_view tag) {
  const auto* at = std::find_if(kPrefixes.begin(), kPrefixes.end(),
                                [tag](const TagPrefix& prefix) { return tag.starts_with(prefix.text); });
  return at == kPrefixes.end() ? kAnyTag : *at;
}

// One direction of a node, and its faults.
class Side {
 public:
  Side(std::string_view direction, const graph::Ports& ports, const Names& names, const OrderList& order,
       std::string& faults)
      : direction_(direction), ports_(ports), names_(names), order_(order), faults_(faults) {}

  std::vector<InferencePort> Read() {
    CheckOptions();
    std::vector<InferencePort> read;
    for (const graph::Port& port : ports_) read.push_back(ReadPort(port));
    return read;
  }

 private:
  void Fault(const std::string& text) { faults_.append(faults_.empty() ? "" : "\n").append(text); }
  std::string MapName() const { return std::string("tag_to_").append(direction_).append("_tensor_names"); }
  std::string ListName() const { return std::string(direction_).append("_order_list"); }

  void CheckOptions() {
    const auto many = [](const graph::Port& port) { return PrefixOf(port.tag).many; };
    const bool vectors = std::any_of(ports_.begin(), ports_.end(), many);
    if (!names_.empty() && !order_.empty()) Fault(MapName() + " and " + ListName() + " are both set");
    if (!order_.empty() && !vectors) {
      Fault(ListName() + " is set, but no " + std::string(direction_) +
            " stream carries a vector (OVTENSORS, TENSORS, TFTENSORS)");
    }
    for (const auto& [tag, name] : names_) {
      const bool used = std::any_of(ports_.begin(), ports_.end(), [&tag = tag](const graph::Port& port) {
        return port.tag == tag || (!tag.empty() && PrefixOf(tag).text == tag && port.tag.starts_with(tag));
      });
      if (!used) Fault(MapName() + " has the key '" + tag + "', which is not the tag of a stream");
    }
  }

  InferencePort ReadPort(const graph::Port& port) {
    const TagPrefix& prefix = PrefixOf(port.tag);
    const std::string stream = std::string(direction_).append("_stream '").append(port.name).append("'");
    if (!prefix.served) Fault(stream + ": streams tagged " + std::string(prefix.text) + " are not supported");
    InferencePort read{prefix.form, prefix.many, {}};
    if (prefix.many) {
      if (order_.empty()) Fault(stream + " carries a vector, but " + ListName() + " is not set");
      read.names.assign(order_.begin(), order_.end());
      return read;
    }
    if (port.index > 0) {
      Fault(stream + " repeats a tag; each stream of single tensors needs its own tag");
    }
    const auto named = names_.find(port.tag);
    read.names.push_back(named != names_.end() ? named->second : port.tag);
    return read;
  }

  const std::string_view direction_;
  const graph::Ports& ports_;
  const Names& names_;
  const OrderList& order_;
  std::string& faults_;
};

template <class Value>
void Append(const InferencePort& port, const graph::Packet& packet, std::vector<Tensor>& tensors) {
  if (!port.many) {
    tensors.push_back(packet.Get<Value>().tensor);
    return;
  }
  for (const Value& value : packet.Get<std::vector<Value>>()) tensors.push_back(value.tensor);
}

template <class Value>
graph::Packet Pack(bool many, std::vector<Tensor> tensors, graph::Timestamp at) {
  if (!many) return graph::Packet::Of(Value{std::move(tensors[0])}, at);
  std::vector<Value> values;
  values.reserve(tensors.size());
  for (Tensor& tensor : tensors) values.push_back(Value{std::move(tensor)});
  return graph::Packet::Of(std::move(values), at);
}

template <class Value>
graph::PortType TypeOf(bool many) {
  return many ? graph::PortType::Of<std::vector<Value>>() : graph::PortType::Of<Value>();
}

const Tensor* FindOutput(const std::vector<Tensor>& tensors, const std::string& name) {
  if (name.empty()) return tensors.size() == 1 ? tensors.data() : nullptr;
  const auto at =
      std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& one) { return one.name == name; });
  return at == tensors.end() ? nullptr : &*at;
}

Status MissingOutput(const std::vector<Tensor>& tensors, const std::string& name) {
  std::string text = name.empty() ? std::string("expected exactly one output")
                                  : std::string("output '").append(name).append("' is missing");
  text.append("; the outputs are:");
  for (const Tensor& tensor : tensors) text.append(" '").append(tensor.name).append("'");
  return InternalError(std::move(text));
}

}  // namespace

graph::PortType InferencePort::type() const {
  switch (form) {
    case Form::kOv:
      return TypeOf<OvTensor>(many);
    case Form::kMedia:
      return TypeOf<MediaTensor>(many);
    case Form::kTf:
      return TypeOf<TfTensor>(many);
  }
  return graph::PortType::Any();
}

Result<InferencePorts> InferencePorts::Create(const graph::Contract& contract) {
  std::string faults;
  if (contract.inputs().size() == 0) faults.append("it has no input_stream");
  if (contract.outputs().size() == 0)
    faults.append(faults.empty() ? "" : "\n").append("it has no output_stream");
  const Options options = contract.FindOptions<Options>().value_or(Options());
  InferencePorts ports;
  ports.inputs = Side("input", contract.inputs(), options.tag_to_input_tensor_names(),
                      options.input_order_list(), faults)
                     .Read();
  ports.outputs = Side("output", contract.outputs(), options.tag_to_output_tensor_names(),
                       options.output_order_list(), faults)
                      .Read();
  if (!faults.empty()) return InvalidArgumentError(std::move(faults));
  return ports;
}

Status InferencePorts::TakeInputs(const InferencePort& port, const graph::Packet& packet,
                                  const ServableInfo& info, std::vector<Tensor>& tensors) {
  const size_t before = tensors.size();
  switch (port.form) {
    case InferencePort::Form::kOv:
      Append<OvTensor>(port, packet, tensors);
      break;
    case InferencePort::Form::kMedia:
      Append<MediaTensor>(port, packet, tensors);
      break;
    case InferencePort::Form::kTf:
      Append<TfTensor>(port, packet, tensors);
      break;
  }
  const size_t count = tensors.size() - before;
  if (count != port.names.size()) {
    return InternalError("the input has " + std::to_string(count) + " tensors, but input_order_list has " +
                         std::to_string(port.names.size()) + " names");
  }
  for (size_t i = 0; i < count; ++i) {
    Tensor& tensor = tensors[before + i];
    tensor.name = port.names[i];
    if (!tensor.name.empty()) continue;
    if (info.inputs.size() != 1) {
      return InternalError("an input without a tag needs a servable with one input, but '" + info.name +
                           "' has " + std::to_string(info.inputs.size()));
    }
    tensor.name = info.inputs[0].name;
  }
  return OkStatus();
}

Result<graph::Packet> InferencePorts::MakeOutput(const InferencePort& port,
                                                 const std::vector<Tensor>& tensors, graph::Timestamp at) {
  std::vector<Tensor> wanted;
  wanted.reserve(port.names.size());
  for (const std::string& name : port.names) {
    const Tensor* tensor = FindOutput(tensors, name);
    if (tensor == nullptr) return MissingOutput(tensors, name);
    wanted.push_back(*tensor);
  }
  switch (port.form) {
    case InferencePort::Form::kOv:
      return Pack<OvTensor>(port.many, std::move(wanted), at);
    case InferencePort::Form::kMedia:
      return Pack<MediaTensor>(port.many, std::move(wanted), at);
    case InferencePort::Form::kTf:
      return Pack<TfTensor>(port.many, std::move(wanted), at);
  }
  return InternalError("unknown form of packets");
}

std::vector<std::string> InferencePorts::WantedOutputs() const {
  std::vector<std::string> wanted;
  for (const InferencePort& port : outputs) {
    for (const std::string& name : port.names) {
      if (name.empty()) return {};
      if (std::find(wanted.begin(), wanted.end(), name) == wanted.end()) wanted.push_back(name);
    }
  }
  return wanted;
}

}  // namespace braid
