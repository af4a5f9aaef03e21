// How the streams of an OpenVINOInferenceCalculator and the tensors of the servable that it asks belong
// together.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "graph/calculator.h"
#include "graph/packet.h"
#include "mediapipe_graph/graph_packets.h"
#include "serving/servable.h"

namespace braid {

// One stream.
struct InferencePort {
  enum class Form : unsigned char { kOv, kMedia, kTf };
  Form form = Form::kOv;
  // Its packets have a vector of tensors; else one.
  bool many = false;
  // What the servable calls them, in order; one for a stream of single tensors, where "" is the only one that
  // the servable has.
  std::vector<std::string> names;

  graph::PortType type() const;
};

struct InferencePorts {
  std::vector<InferencePort> inputs;
  std::vector<InferencePort> outputs;

  // Reads tags and options of a node. Errors: INVALID_ARGUMENT with all faults, one a line.
  static Result<InferencePorts> Create(const graph::Contract& contract);

  // The tensors in `packet`, which came to `port`, are put behind `tensors` under the servable's names.
  // Errors: INTERNAL when they are not as many as names.
  static Status TakeInputs(const InferencePort& port, const graph::Packet& packet, const ServableInfo& info,
                           std::vector<Tensor>& tensors);
  // The packet for `port` of what a servable has answered. Errors: INTERNAL when an output is missing.
  static Result<graph::Packet> MakeOutput(const InferencePort& port, const std::vector<Tensor>& tensors,
                                          graph::Timestamp at);
  // Which outputs to ask for; none: all.
  std::vector<std::string> WantedOutputs() const;
};

}  // namespace braid
