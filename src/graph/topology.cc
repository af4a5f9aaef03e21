#include "graph/topology.h"

#include <utility>

#include "graph/topology_parts.h"

namespace braid::graph {

Topology::Topology(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Topology::~Topology() = default;

const ::mediapipe::CalculatorGraphConfig& Topology::config() const { return parts_->config; }
const std::vector<Port>& Topology::inputs() const { return parts_->inputs; }
const std::vector<Port>& Topology::outputs() const { return parts_->outputs; }
const std::vector<Port>& Topology::input_side_packets() const { return parts_->input_side_packets; }
const std::vector<Port>& Topology::output_side_packets() const { return parts_->output_side_packets; }

std::optional<ValueType> Topology::input_type(int input) const {
  return parts_->streams[static_cast<size_t>(parts_->input_streams.at(static_cast<size_t>(input)))].type;
}

std::optional<ValueType> Topology::output_type(int output) const {
  return parts_->streams[static_cast<size_t>(parts_->output_streams.at(static_cast<size_t>(output)))].type;
}

int Topology::node_count() const { return static_cast<int>(parts_->nodes.size()); }

const Contract& Topology::contract(int node) const {
  return parts_->nodes.at(static_cast<size_t>(node)).contract;
}

const std::string& Topology::calculator(int node) const {
  return parts_->nodes.at(static_cast<size_t>(node)).calculator;
}

Topology::Readers Topology::readers(std::string_view stream) const {
  Readers readers;
  for (const TopologyStream& known : parts_->streams) {
    if (known.name != stream) continue;
    for (const TopologyStream::Reader& reader : known.readers) readers.nodes.push_back(reader.node);
    readers.graph_output = known.graph_output >= 0;
  }
  return readers;
}

}  // namespace braid::graph
