#include "pipeline/dag_structure.h"

#include <utility>

#include "base/check.h"
#include "serving/structure_parts.h"

namespace braid {
namespace {

size_t CountEdges(const Dag& dag) {
  size_t edges = dag.outputs().size();
  for (const Dag::Node& node : dag.nodes()) edges += node.inputs.size();
  return edges;
}

// The source of a tensor: a node of the structure, and the port's name there.
struct Source {
  uint32_t node = 0;
  std::string port;
  uint32_t gathered = 0;
};

std::vector<Source> TensorSources(const Dag& dag) {
  std::vector<Source> sources(dag.tensors().size());
  for (const uint32_t tensor : dag.inputs()) sources[tensor].port = dag.tensors()[tensor].name;
  for (uint32_t node = 0; node < dag.nodes().size(); ++node) {
    for (const Dag::Port& port : dag.nodes()[node].outputs) {
      sources[port.tensor] = {.node = node + 1, .port = port.name};
    }
  }
  for (const Dag::Gather& gather : dag.gathers()) {
    sources[gather.to] = sources[gather.from];
    sources[gather.to].gathered = static_cast<uint32_t>(gather.indexes.size());
  }
  return sources;
}

}  // namespace

DagStructure::DagStructure(const Dag& dag, Words words) : counters_(dag.nodes().size() + 2, CountEdges(dag)) {
  BRAID_CHECK(words.nodes.size() == dag.nodes().size());
  BRAID_CHECK(words.aliases.empty() || words.aliases.size() == CountEdges(dag));
  std::vector<std::string> names;
  for (const StructureNode& node : words.nodes) names.push_back(node.name);
  MakeNodeNamesUnique(names);

  plain_.nodes.push_back(RequestNode(std::move(words.request_note)));
  for (size_t i = 0; i < words.nodes.size(); ++i) {
    plain_.nodes.push_back(std::move(words.nodes[i]));
    plain_.nodes.back().name = std::move(names[i]);
  }
  plain_.nodes.push_back(ResponseNode());

  const std::vector<Source> sources = TensorSources(dag);
  const auto add = [&](uint32_t tensor, size_t to, const std::string& port) {
    const Source& source = sources[tensor];
    const size_t edge = plain_.edges.size();
    plain_.edges.push_back({.from = source.node,
                            .to = static_cast<uint32_t>(to),
                            .from_port = words.aliases.empty() ? source.port : words.aliases[edge],
                            .to_port = port});
    gathered_.push_back(source.gathered);
  };
  for (size_t node = 0; node < dag.nodes().size(); ++node) {
    first_edges_.push_back(static_cast<uint32_t>(plain_.edges.size()));
    for (const Dag::Port& port : dag.nodes()[node].inputs) add(port.tensor, node + 1, port.name);
  }
  first_edges_.push_back(static_cast<uint32_t>(plain_.edges.size()));
  for (size_t i = 0; i < dag.outputs().size(); ++i) {
    add(dag.outputs()[i], dag.nodes().size() + 1, dag.output_names()[i]);
  }
}

ServableStructure DagStructure::Read() const {
  ServableStructure structure = plain_;
  for (size_t i = 0; i < structure.nodes.size(); ++i) ReadCounts(counters_, i, structure.nodes[i]);
  for (size_t i = 0; i < structure.edges.size(); ++i) structure.edges[i].passed = counters_.ReadPassed(i);
  return structure;
}

void DagStructure::NodeStarted(const Dag& dag, uint32_t node, const std::vector<Tensor>& inputs) {
  counters_.Started(node + 1);
  const std::vector<Dag::Port>& ports = dag.nodes()[node].inputs;
  // Optional inputs may be missing.
  size_t next = 0;
  for (size_t port = 0; port < ports.size() && next < inputs.size(); ++port) {
    if (inputs.size() < ports.size() && inputs[next].name != ports[port].name) continue;
    const size_t edge = first_edges_[node] + port;
    counters_.Passed(edge, PiecesOf(edge, inputs[next++]));
  }
}

void DagStructure::Responded(const std::vector<uint32_t>& outputs, const std::vector<Tensor>& tensors) {
  const size_t response = plain_.nodes.size() - 1;
  counters_.Started(response);
  counters_.Ended(response, false, 0);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t edge = first_edges_.back() + outputs[i];
    counters_.Passed(edge, PiecesOf(edge, tensors[i]));
  }
}

uint64_t DagStructure::PiecesOf(size_t edge, const Tensor& tensor) const {
  uint64_t pieces = 1;
  for (uint32_t i = 0; i < gathered_[edge]; ++i) pieces *= static_cast<uint64_t>(tensor.shape[i]);
  return pieces;
}

}  // namespace braid
