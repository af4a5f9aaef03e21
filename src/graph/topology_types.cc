#include <numeric>
#include <string>
#include <vector>

#include "graph/topology_checks.h"

namespace braid::graph {
namespace {

// Sets of streams (or side packets) with the same values, since nodes pass them on, and each set's type if
// known. Sets are joined as trees ("union-find").
class TypeSets {
 public:
  explicit TypeSets(size_t count) : parents_(count), known_(count) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }

  // Joins the sets of a and b; returns false if their types differ.
  bool Join(int a, int b) {
    a = Root(a);
    b = Root(b);
    if (a == b) return true;
    Known& of_a = known_[static_cast<size_t>(a)];
    Known& of_b = known_[static_cast<size_t>(b)];
    if (of_a.type && of_b.type && !(*of_a.type == *of_b.type)) return false;
    if (!of_a.type) of_a = of_b;
    parents_[static_cast<size_t>(b)] = a;
    return true;
  }

  // Sets the type on behalf of `who`. Returns the text of the fault if the type is known to be another, else
  // "".
  std::string Set(int member, const ValueType& type, const std::string& who) {
    Known& known = known_[static_cast<size_t>(Root(member))];
    if (!known.type) known = {type, who};
    if (*known.type == type) return "";
    return who + " has type " + type.name() + ", but " + known.who + " has type " + known.type->name();
  }

  const std::optional<ValueType>& type(int member) { return known_[static_cast<size_t>(Root(member))].type; }
  const std::string& who(int member) { return known_[static_cast<size_t>(Root(member))].who; }

 private:
  struct Known {
    std::optional<ValueType> type;
    std::string who;
  };

  int Root(int member) {
    while (parents_[static_cast<size_t>(member)] != member) {
      int& parent = parents_[static_cast<size_t>(member)];
      parent = parents_[static_cast<size_t>(parent)];
      member = parent;
    }
    return member;
  }

  std::vector<int> parents_;
  std::vector<Known> known_;
};

// The ports of one kind of a node, with their types and connections.
struct NodePorts {
  std::string_view kind;
  const Ports& ports;
  const std::vector<std::optional<PortType>>& types;
  const std::vector<int>& members;
};

void SetValues(const TopologyNode& node, const NodePorts& side, TypeSets& sets, Faults& faults) {
  for (int port = 0; port < side.ports.size(); ++port) {
    const std::optional<PortType>& type = side.types[static_cast<size_t>(port)];
    const int member = side.members[static_cast<size_t>(port)];
    if (!type || member < 0 || type->kind() != PortType::Kind::kValue) continue;
    const std::string fault = sets.Set(member, *type->value_type(),
                                       PortText(side.kind, side.ports[port]) + " of " + NodeText(node));
    if (!fault.empty()) faults.push_back(fault);
  }
}

void JoinSame(const TopologyNode& node, const NodePorts& from, const NodePorts& side, TypeSets& sets,
              Faults& faults) {
  for (int port = 0; port < side.ports.size(); ++port) {
    const std::optional<PortType>& type = side.types[static_cast<size_t>(port)];
    const int member = side.members[static_cast<size_t>(port)];
    if (!type || member < 0 || type->kind() != PortType::Kind::kSameAsInput) continue;
    const int input = type->same_as();
    if (input < 0 || input >= from.ports.size()) {
      faults.push_back(NodeText(node) + ": " + PortText(side.kind, side.ports[port]) +
                       " must have the type of input " + std::to_string(input) + ", which does not exist");
      continue;
    }
    const int other = from.members[static_cast<size_t>(input)];
    if (other < 0 || sets.Join(other, member)) continue;
    faults.push_back(NodeText(node) + " passes values of " + PortText(from.kind, from.ports[input]) + " to " +
                     PortText(side.kind, side.ports[port]) + ", but " + sets.who(other) + " has type " +
                     sets.type(other)->name() + " and " + sets.who(member) + " has type " +
                     sets.type(member)->name());
  }
}

}  // namespace

void ResolveTypes(Topology::Parts& parts, Faults& faults) {
  TypeSets streams(parts.streams.size());
  TypeSets side_packets(parts.side_packets.size());
  for (const bool joining : {false, true}) {
    for (const TopologyNode& node : parts.nodes) {
      const Contract& contract = node.contract;
      const NodePorts inputs{"input stream", contract.inputs(), contract.input_types(), node.inputs};
      const NodePorts outputs{"output stream", contract.outputs(), contract.output_types(), node.outputs};
      const NodePorts inputs_beside{"input side packet", contract.input_side_packets(),
                                    contract.input_side_packet_types(), node.input_side_packets};
      const NodePorts outputs_beside{"output side packet", contract.output_side_packets(),
                                     contract.output_side_packet_types(), node.output_side_packets};
      if (joining) {
        JoinSame(node, inputs, inputs, streams, faults);
        JoinSame(node, inputs, outputs, streams, faults);
        JoinSame(node, inputs_beside, inputs_beside, side_packets, faults);
        JoinSame(node, inputs_beside, outputs_beside, side_packets, faults);
      } else {
        SetValues(node, outputs, streams, faults);
        SetValues(node, inputs, streams, faults);
        SetValues(node, outputs_beside, side_packets, faults);
        SetValues(node, inputs_beside, side_packets, faults);
      }
    }
  }
  for (size_t i = 0; i < parts.streams.size(); ++i) parts.streams[i].type = streams.type(static_cast<int>(i));
  for (size_t i = 0; i < parts.side_packets.size(); ++i) {
    parts.side_packets[i].type = side_packets.type(static_cast<int>(i));
  }
}

}  // namespace braid::graph
