// The mapping between the streams of an OpenVINOInferenceCalculator and the tensors of its servable.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "graph/calculator.h"
#include "graph/packet.h"
#include "mediapipe_graph/graph_packets.h"
#include "serving/servable.h"

namespace braid {

// The mapping of one stream.
struct InferencePort {
  enum class Form : unsigned char { kOv, kMedia, kTf };
  Form form = Form::kOv;
  // Its packets have a vector of tensors instead of one.
  bool many = false;
  // The servable's names for the tensors, in order. A stream of single tensors has one name; "" stands for
  // the servable's only tensor.
  std::vector<std::string> names;

  graph::PortType type() const;
};

struct InferencePorts {
  std::vector<InferencePort> inputs;
  std::vector<InferencePort> outputs;

  // Reads the tags and options of a node. Errors: INVALID_ARGUMENT with all faults, one per line.
  static Result<InferencePorts> Create(const graph::Contract& contract);

  // Appends the tensors of `packet`, which came to `port`, to `tensors`, under the servable's names. Errors:
  // INTERNAL when the numbers of tensors and names differ.
  static Status TakeInputs(const InferencePort& port, const graph::Packet& packet, const ServableInfo& info,
                           std::vector<Tensor>& tensors);
  // Makes the packet for `port` from a servable's response. Errors: INTERNAL when an output is missing.
  static Result<graph::Packet> MakeOutput(const InferencePort& port, const std::vector<Tensor>& tensors,
                                          graph::Timestamp at);
  // Returns the outputs to request; empty requests all.
  std::vector<std::string> WantedOutputs() const;
};

}  // namespace braid
