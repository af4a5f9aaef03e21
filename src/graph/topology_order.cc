#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "graph/port_names.h"
#include "graph/topology_checks.h"

namespace braid::graph {
namespace {

// Calls `visit` for each node that reads an output of `node`; `back` if it reads it over a back edge.
template <class Visit>
void EachConsumer(const Topology::Parts& parts, int node, Visit visit) {
  for (const int stream : parts.nodes[static_cast<size_t>(node)].outputs) {
    if (stream < 0) continue;
    for (const TopologyStream::Reader& reader : parts.streams[static_cast<size_t>(stream)].readers) {
      const TopologyNode& consumer = parts.nodes[static_cast<size_t>(reader.node)];
      visit(reader.node, consumer.back_edges[static_cast<size_t>(reader.input)]);
    }
  }
}

// Returns the nodes that streams reach from `from`, including back edges.
std::vector<bool> Reachable(const Topology::Parts& parts, int from) {
  std::vector<bool> reached(parts.nodes.size());
  std::vector<int> open{from};
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    EachConsumer(parts, node, [&](int consumer, bool) {
      if (reached[static_cast<size_t>(consumer)]) return;
      reached[static_cast<size_t>(consumer)] = true;
      open.push_back(consumer);
    });
  }
  return reached;
}

}  // namespace

void OrderNodes(Topology::Parts& parts, Faults& faults) {
  // The number of streams and side packets for which each node still waits.
  std::vector<int> waits(parts.nodes.size());
  std::vector<std::vector<int>> side_consumers(parts.nodes.size());
  for (size_t i = 0; i < parts.nodes.size(); ++i) {
    const int index = static_cast<int>(i);
    EachConsumer(parts, index, [&](int consumer, bool back) {
      if (!back) ++waits[static_cast<size_t>(consumer)];
    });
    for (const int side_packet : parts.nodes[i].input_side_packets) {
      const int producer =
          side_packet < 0 ? -1 : parts.side_packets[static_cast<size_t>(side_packet)].producer;
      if (producer < 0) continue;
      side_consumers[static_cast<size_t>(producer)].push_back(index);
      ++waits[i];
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < parts.nodes.size(); ++i) {
    if (waits[i] == 0) ready.push(static_cast<int>(i));
  }
  parts.order.clear();
  const auto settle = [&](int consumer) {
    if (--waits[static_cast<size_t>(consumer)] == 0) ready.push(consumer);
  };
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    parts.nodes[static_cast<size_t>(node)].rank = static_cast<int>(parts.order.size());
    parts.order.push_back(node);
    EachConsumer(parts, node, [&](int consumer, bool back) {
      if (!back) settle(consumer);
    });
    for (const int consumer : side_consumers[static_cast<size_t>(node)]) settle(consumer);
  }
  if (parts.order.size() < parts.nodes.size()) {
    std::string text = "the graph has a cycle among or before these nodes:";
    for (size_t i = 0; i < parts.nodes.size(); ++i) {
      if (waits[i] > 0) text += " '" + parts.nodes[i].contract.node_name() + "'";
    }
    faults.push_back(text +
                     "; the input that closes it must be marked by input_stream_info { tag_index: "
                     "\"TAG:INDEX\" back_edge: true }");
  }
  for (size_t i = 0; i < parts.nodes.size(); ++i) {
    TopologyNode& node = parts.nodes[i];
    const std::vector<bool> reached = Reachable(parts, static_cast<int>(i));
    // In a cycle, bounds with a positive offset would grow forever.
    const std::optional<int64_t> offset = node.contract.timestamp_offset();
    node.passes_bounds = offset && !(*offset > 0 && reached[i]);
  }
}

}  // namespace braid::graph
