// Topology::Create(): makes the tables from a configuration. It continues after a fault, so that a user sees
// all faults at once. Unconnected ports stay at -1, and later steps skip them.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/nearest_name.h"
#include "graph/node_names.h"
#include "graph/port_names.h"
#include "graph/topology_checks.h"

namespace braid::graph {

std::string NodeText(const TopologyNode& node) {
  return std::string("node '").append(node.contract.node_name()).append("'");
}

std::string PortText(std::string_view kind, const Port& port) {
  std::string text(kind);
  text += " '";
  if (!port.tag.empty()) text.append(port.tag).append(":");
  if (port.index > 0) text.append(std::to_string(port.index)).append(":");
  return text.append(port.name).append("'");
}

std::vector<std::string> NodeNames(const ::mediapipe::CalculatorGraphConfig& config) {
  std::map<std::string, int> uses;
  std::vector<std::string> names;
  for (const NodeConfig& node : config.node()) {
    names.push_back(node.name().empty() ? node.calculator() : node.name());
    ++uses[names.back()];
  }
  std::map<std::string, int> numbers;
  for (std::string& name : names) {
    const int number = ++numbers[name];
    if (uses[name] > 1) name.append("_").append(std::to_string(number));
  }
  return names;
}

namespace {

class Builder {
 public:
  Builder(::mediapipe::CalculatorGraphConfig config, std::shared_ptr<const CalculatorRegistry> registry)
      : parts_(std::make_unique<Topology::Parts>()) {
    parts_->config = std::move(config);
    parts_->registry = std::move(registry);
  }

  Result<std::unique_ptr<const Topology::Parts>> Build(const std::vector<std::string>& provided) {
    const ::mediapipe::CalculatorGraphConfig& config = parts_->config;
    if (config.max_queue_size() != 0) parts_->max_queue_size = config.max_queue_size();
    parts_->inputs = ParsePorts(config.input_stream(), "input_stream of the graph", faults_);
    parts_->outputs = ParsePorts(config.output_stream(), "output_stream of the graph", faults_);
    parts_->input_side_packets =
        ParsePorts(config.input_side_packet(), "input_side_packet of the graph", faults_);
    parts_->output_side_packets =
        ParsePorts(config.output_side_packet(), "output_side_packet of the graph", faults_);
    if (config.node().empty()) faults_.emplace_back("the graph has no node");

    const std::vector<std::string> names = NodeNames(config);
    for (int i = 0; i < config.node_size(); ++i) AddNode(names[static_cast<size_t>(i)], config.node(i));
    AddProducers(provided);
    AddConsumers();
    for (TopologyNode& node : parts_->nodes) MarkBackEdges(node);
    OrderNodes(*parts_, faults_);
    ResolveTypes(*parts_, faults_);
    PlanHandlers();
    CheckSettings(*parts_, faults_);
    if (!faults_.empty()) return InvalidArgumentError(FaultsText());
    return std::unique_ptr<const Topology::Parts>(std::move(parts_));
  }

 private:
  void AddNode(const std::string& name, const NodeConfig& config) {
    const std::string where = "node '" + name + "': ";
    Ports inputs = SortPorts(ParsePorts(config.input_stream(), where + "input_stream", faults_));
    Ports outputs = SortPorts(ParsePorts(config.output_stream(), where + "output_stream", faults_));
    Ports side_inputs =
        SortPorts(ParsePorts(config.input_side_packet(), where + "input_side_packet", faults_));
    Ports side_outputs =
        SortPorts(ParsePorts(config.output_side_packet(), where + "output_side_packet", faults_));
    Contract contract(name, config, std::move(inputs), std::move(outputs), std::move(side_inputs),
                      std::move(side_outputs));
    const CalculatorKind* kind = parts_->registry->Find(config.calculator());
    if (kind == nullptr) {
      std::string fault = where + "calculator '" + config.calculator() + "' is not known";
      const std::string nearest = parts_->registry->Nearest(config.calculator());
      if (!nearest.empty()) fault += "; did you mean '" + nearest + "'?";
      faults_.push_back(std::move(fault));
    } else if (const Status status = kind->fill_contract(contract); !status.ok()) {
      faults_.push_back(where + status.message());
      kind = nullptr;  // later steps do not report its missing types
    }
    TopologyNode node(std::move(contract), kind);
    node.calculator = parts_->registry->FullName(config.calculator());
    node.inputs.assign(static_cast<size_t>(node.contract.inputs().size()), -1);
    node.outputs.assign(static_cast<size_t>(node.contract.outputs().size()), -1);
    node.input_side_packets.assign(static_cast<size_t>(node.contract.input_side_packets().size()), -1);
    node.output_side_packets.assign(static_cast<size_t>(node.contract.output_side_packets().size()), -1);
    node.back_edges.assign(node.inputs.size(), false);
    node.first_input = parts_->input_count;
    parts_->input_count += static_cast<int>(node.inputs.size());
    if (kind != nullptr) {
      CheckTyped(node, "input_stream", node.contract.inputs(), node.contract.input_types());
      CheckTyped(node, "output_stream", node.contract.outputs(), node.contract.output_types());
      CheckTyped(node, "input_side_packet", node.contract.input_side_packets(),
                 node.contract.input_side_packet_types());
      CheckTyped(node, "output_side_packet", node.contract.output_side_packets(),
                 node.contract.output_side_packet_types());
    }
    parts_->nodes.push_back(std::move(node));
  }

  void CheckTyped(const TopologyNode& node, std::string_view kind, const Ports& ports,
                  const std::vector<std::optional<PortType>>& types) {
    for (int port = 0; port < ports.size(); ++port) {
      if (types[static_cast<size_t>(port)]) continue;
      faults_.push_back(NodeText(node) + ": " + node.calculator + " has no " + std::string(kind) + " " +
                        TagIndexText(ports[port]) + " ('" + ports[port].name + "')");
    }
  }

  // Adds a stream; returns -1 and adds a fault if the name exists.
  int AddStream(const std::string& name, const std::string& where) {
    const auto [at, added] = streams_.try_emplace(name, static_cast<int>(parts_->streams.size()));
    if (!added) {
      faults_.push_back(where + ": stream '" + name + "' already has a producer, " +
                        ProducerText(parts_->streams[static_cast<size_t>(at->second)].producer) +
                        "; each stream can have only one");
      return -1;
    }
    parts_->streams.emplace_back().name = name;
    return at->second;
  }

  int AddSidePacket(const std::string& name, const std::string& where) {
    const auto [at, added] = side_packets_.try_emplace(name, static_cast<int>(parts_->side_packets.size()));
    if (!added) {
      faults_.push_back(where + ": side packet '" + name + "' already has a producer, " +
                        ProducerText(parts_->side_packets[static_cast<size_t>(at->second)].producer) +
                        "; each side packet can have only one");
      return -1;
    }
    parts_->side_packets.emplace_back().name = name;
    return at->second;
  }

  std::string ProducerText(int node) const {
    return node < 0 ? "the graph" : NodeText(parts_->nodes[static_cast<size_t>(node)]);
  }

  void AddProducers(const std::vector<std::string>& provided) {
    for (size_t i = 0; i < parts_->inputs.size(); ++i) {
      const int stream = AddStream(parts_->inputs[i].name, "input_stream of the graph");
      parts_->input_streams.push_back(stream);
      if (stream >= 0) parts_->streams[static_cast<size_t>(stream)].graph_input = static_cast<int>(i);
    }
    std::set<std::string> given(provided.begin(), provided.end());
    for (const Port& port : parts_->input_side_packets) {
      AddSidePacket(port.name, "input_side_packet of the graph");
      given.erase(port.name);
    }
    for (const std::string& name : given) AddSidePacket(name, "a side packet that is provided");
    for (size_t i = 0; i < parts_->nodes.size(); ++i) {
      TopologyNode& node = parts_->nodes[i];
      for (size_t port = 0; port < node.outputs.size(); ++port) {
        const int stream = AddStream(node.contract.outputs()[static_cast<int>(port)].name, NodeText(node));
        node.outputs[port] = stream;
        if (stream >= 0) parts_->streams[static_cast<size_t>(stream)].producer = static_cast<int>(i);
      }
      for (size_t port = 0; port < node.output_side_packets.size(); ++port) {
        const int side_packet =
            AddSidePacket(node.contract.output_side_packets()[static_cast<int>(port)].name, NodeText(node));
        node.output_side_packets[port] = side_packet;
        if (side_packet >= 0) {
          parts_->side_packets[static_cast<size_t>(side_packet)].producer = static_cast<int>(i);
        }
      }
    }
  }

  int Find(const std::map<std::string, int>& known, const std::string& name, std::string_view kind,
           const std::string& where) {
    if (const auto found = known.find(name); found != known.end()) return found->second;
    NearestName nearest(name);
    for (const auto& [other, number] : known) nearest.Offer(other);
    std::string fault = where + ": " + std::string(kind) + " '" + name +
                        "' has no producer; expected an output of a node or an input of the graph";
    if (!nearest.name().empty()) fault += "; did you mean '" + nearest.name() + "'?";
    faults_.push_back(std::move(fault));
    return -1;
  }

  void AddConsumers() {
    for (size_t i = 0; i < parts_->nodes.size(); ++i) {
      TopologyNode& node = parts_->nodes[i];
      for (size_t port = 0; port < node.inputs.size(); ++port) {
        const std::string& name = node.contract.inputs()[static_cast<int>(port)].name;
        node.inputs[port] = Find(streams_, name, "input stream", NodeText(node));
        if (node.inputs[port] < 0) continue;
        parts_->streams[static_cast<size_t>(node.inputs[port])].readers.push_back(
            {static_cast<int>(i), static_cast<int>(port)});
      }
      for (size_t port = 0; port < node.input_side_packets.size(); ++port) {
        const std::string& name = node.contract.input_side_packets()[static_cast<int>(port)].name;
        const bool optional = node.contract.input_side_packet_optional(static_cast<int>(port));
        node.input_side_packets[port] = Find(side_packets_, name, "input side packet", NodeText(node));
        if (node.input_side_packets[port] < 0 || optional) continue;
        parts_->side_packets[static_cast<size_t>(node.input_side_packets[port])].required = true;
      }
    }
    for (size_t i = 0; i < parts_->outputs.size(); ++i) {
      const int stream = Find(streams_, parts_->outputs[i].name, "stream", "output_stream of the graph");
      parts_->output_streams.push_back(stream);
      if (stream < 0) continue;
      int& output = parts_->streams[static_cast<size_t>(stream)].graph_output;
      if (output >= 0) {
        faults_.push_back("output_stream of the graph: '" + parts_->outputs[i].name + "' is listed twice");
      }
      output = static_cast<int>(i);
    }
    for (const Port& port : parts_->output_side_packets) {
      Find(side_packets_, port.name, "side packet", "output_side_packet of the graph");
    }
  }

  void MarkBackEdges(TopologyNode& node) {
    std::set<int> seen;
    for (const ::mediapipe::InputStreamInfo& info : node.contract.config().input_stream_info()) {
      const std::string where =
          NodeText(node) + ": input_stream_info with tag_index '" + info.tag_index() + "'";
      const std::optional<TagIndex> tag_index = ParseTagIndex(info.tag_index());
      if (!tag_index) {
        faults_.push_back(where + ": expected 'TAG', 'TAG:INDEX' or ':INDEX'");
        continue;
      }
      const int input = node.contract.inputs().Find(tag_index->tag, tag_index->index);
      if (input < 0) {
        faults_.push_back(where + ": the node has no such input");
      } else if (!seen.insert(input).second) {
        faults_.push_back(where + ": duplicate entry for the input");
      } else {
        node.back_edges[static_cast<size_t>(input)] = info.back_edge();
      }
    }
  }

  void PlanHandlers() {
    for (TopologyNode& node : parts_->nodes) {
      const NodeConfig& config = node.contract.config();
      // The node's own, then the calculator's, then the graph's.
      const ::mediapipe::InputStreamHandlerConfig* handler = &config.input_stream_handler();
      std::string name = handler->input_stream_handler();
      if (!config.has_input_stream_handler()) {
        handler = &parts_->config.input_stream_handler();
        name = handler->input_stream_handler();
        if (node.contract.input_stream_handler()) name = *node.contract.input_stream_handler();
      }
      if (node.source()) continue;
      auto plan = PlanInputHandler(name, handler->options(), node.contract);
      if (!plan.ok()) {
        faults_.push_back(NodeText(node) + ": " + plan.status().message());
        continue;
      }
      node.handler = *std::move(plan);
      if (!node.handler->keeps_time()) continue;
      for (const int stream : node.inputs) {
        if (stream >= 0) parts_->streams[static_cast<size_t>(stream)].keeps_time = true;
      }
    }
    for (TopologyStream& stream : parts_->streams) stream.keeps_time |= stream.graph_output >= 0;
  }

  std::string FaultsText() const {
    std::string text = "The graph is not valid:";
    for (const std::string& fault : faults_) text += "\n" + fault;
    return text;
  }

  std::unique_ptr<Topology::Parts> parts_;
  Faults faults_;
  std::map<std::string, int> streams_;
  std::map<std::string, int> side_packets_;
};

}  // namespace

Result<std::shared_ptr<const Topology>> Topology::Create(
    ::mediapipe::CalculatorGraphConfig config, std::shared_ptr<const CalculatorRegistry> registry,
    const std::vector<std::string>& provided_side_packets) {
  BRAID_ASSIGN_OR_RETURN(std::unique_ptr<const Parts> parts,
                         Builder(std::move(config), std::move(registry)).Build(provided_side_packets));
  return std::shared_ptr<const Topology>(new Topology(std::move(parts)));
}

}  // namespace braid::graph
