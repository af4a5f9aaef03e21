#include "mediapipe_graph/graph_structure.h"

#include <map>
#include <string>
#include <utility>

#include "mediapipe/ovms_calculators.pb.h"
#include "mediapipe_graph/python_node_resources.h"
#include "mediapipe_graph/session_calculator.h"
#include "serving/structure_parts.h"

namespace braid {
namespace {

// Returns the port as in the configuration: "name", "TAG:name" or "TAG:1:name".
std::string TextOf(const graph::Port& port) {
  std::string text;
  if (!port.tag.empty()) text.append(port.tag).append(":");
  if (!port.tag.empty() && port.index > 0) text.append(std::to_string(port.index)).append(":");
  return text.append(port.name);
}

size_t CountEdges(const graph::Topology& topology) {
  size_t edges = topology.outputs().size();
  for (int i = 0; i < topology.node_count(); ++i) {
    edges += static_cast<size_t>(topology.contract(i).inputs().size());
  }
  return edges;
}

bool HasStreams(const graph::Contract& contract) {
  return contract.inputs().size() > 0 || contract.outputs().size() > 0;
}

// Returns the nodes that name servables, by their side packets.
std::map<std::string, int> SessionsOf(const graph::Topology& topology) {
  std::map<std::string, int> sessions;
  for (int i = 0; i < topology.node_count(); ++i) {
    if (topology.calculator(i) != kSessionCalculator) continue;
    for (const graph::Port& packet : topology.contract(i).output_side_packets()) sessions[packet.name] = i;
  }
  return sessions;
}

StructureNode Describe(const graph::Topology& topology, int number,
                       const std::map<std::string, int>& sessions) {
  const graph::Contract& contract = topology.contract(number);
  StructureNode node;
  node.kind = StructureNodeKind::kCalculator;
  node.name = contract.node_name();
  node.runs = contract.config().calculator();
  if (topology.calculator(number) == kPythonExecutorCalculator) {
    node.kind = StructureNodeKind::kPython;
    const auto options = contract.FindOptions<::mediapipe::PythonExecutorCalculatorOptions>();
    if (options) node.runs = options->handler_path();
  }
  for (const graph::Port& packet : contract.input_side_packets()) {
    const auto session = sessions.find(packet.name);
    if (session == sessions.end()) continue;
    const auto servable = SessionServable(topology.contract(session->second));
    if (!servable.ok()) continue;
    node.kind = StructureNodeKind::kModel;
    node.runs = servable->name;
    node.version = servable->version;
    node.note = std::string(kSessionTag).append(":").append(packet.name);
  }
  return node;
}

}  // namespace

GraphStructure::GraphStructure(const graph::Topology& topology)
    : nodes_(static_cast<size_t>(topology.node_count())),
      counters_(std::make_shared<FlowCounters>(nodes_ + 2, CountEdges(topology))) {
  const std::map<std::string, int> sessions = SessionsOf(topology);
  plain_.nodes.push_back(RequestNode());
  counted_.push_back(nodes_);
  std::vector<uint32_t> shown(nodes_);  // by node of the topology: its number in `plain_`
  std::vector<std::string> names;
  for (int i = 0; i < topology.node_count(); ++i) {
    if (!HasStreams(topology.contract(i))) continue;
    shown[static_cast<size_t>(i)] = static_cast<uint32_t>(plain_.nodes.size());
    counted_.push_back(static_cast<size_t>(i));
    plain_.nodes.push_back(Describe(topology, i, sessions));
    names.push_back(plain_.nodes.back().name);
  }
  MakeNodeNamesUnique(names);
  for (size_t i = 0; i < names.size(); ++i) plain_.nodes[i + 1].name = std::move(names[i]);
  plain_.nodes.push_back(ResponseNode());
  counted_.push_back(nodes_ + 1);

  std::map<std::string, std::pair<uint32_t, std::string>> producers;  // by stream
  for (const graph::Port& input : topology.inputs()) producers[input.name] = {0, TextOf(input)};
  for (int i = 0; i < topology.node_count(); ++i) {
    for (const graph::Port& output : topology.contract(i).outputs()) {
      producers[output.name] = {shown[static_cast<size_t>(i)], TextOf(output)};
    }
  }
  const auto add = [&](const graph::Port& port, uint32_t to) {
    const auto& [from, from_port] = producers.at(port.name);
    plain_.edges.push_back({.from = from, .to = to, .from_port = from_port, .to_port = TextOf(port)});
  };
  // In the order of the runs' counters.
  for (int i = 0; i < topology.node_count(); ++i) {
    for (const graph::Port& input : topology.contract(i).inputs()) add(input, shown[static_cast<size_t>(i)]);
  }
  for (const graph::Port& output : topology.outputs()) {
    add(output, static_cast<uint32_t>(plain_.nodes.size() - 1));
  }
}

ServableStructure GraphStructure::Read() const {
  ServableStructure structure = plain_;
  for (size_t i = 0; i < structure.nodes.size(); ++i) {
    ReadCounts(*counters_, counted_[i], structure.nodes[i]);
  }
  for (size_t i = 0; i < structure.edges.size(); ++i) structure.edges[i].passed = counters_->ReadPassed(i);
  return structure;
}

}  // namespace braid
