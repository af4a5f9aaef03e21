// The parts of a Topology: tables that a run indexes by number.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/input_handler.h"
#include "graph/topology.h"

namespace braid::graph {

struct TopologyStream {
  struct Reader {
    int node = 0;
    int input = 0;
  };
  std::string name;
  int producer = -1;  // a node; -1: an input of the graph
  int graph_input = -1;
  int graph_output = -1;
  std::vector<Reader> readers;
  std::optional<ValueType> type;  // nothing: any value
  bool keeps_time = false;        // a consumer relies on the order of time
};

struct TopologySidePacket {
  std::string name;
  int producer = -1;  // a node; -1: the run's options
  bool required = false;
  std::optional<ValueType> type;
};

struct TopologyNode {
  TopologyNode(Contract given_contract, const CalculatorKind* given_kind)
      : contract(std::move(given_contract)), kind(given_kind) {}

  Contract contract;
  const CalculatorKind* kind;
  std::string calculator;
  // By port: numbers in Parts::streams and Parts::side_packets. A number is -1 only while a topology is
  // built.
  std::vector<int> inputs;
  std::vector<int> outputs;
  std::vector<int> input_side_packets;
  std::vector<int> output_side_packets;
  std::vector<bool> back_edges;  // by input
  std::shared_ptr<const InputHandlerPlan> handler;
  int first_input = 0;  // index of the node's first input among those of all nodes
  int rank = 0;         // its place in Parts::order
  // Outputs of an idle node are settled as far as its inputs are.
  bool passes_bounds = false;

  bool source() const { return inputs.empty(); }
};

struct Topology::Parts {
  ::mediapipe::CalculatorGraphConfig config;
  std::shared_ptr<const CalculatorRegistry> registry;  // shared with the loader of graphs
  std::vector<TopologyNode> nodes;
  std::vector<TopologyStream> streams;
  std::vector<TopologySidePacket> side_packets;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<Port> input_side_packets;
  std::vector<Port> output_side_packets;
  std::vector<int> input_streams;   // by input of the graph
  std::vector<int> output_streams;  // by output of the graph
  std::vector<int> order;           // nodes, producers before consumers
  int input_count = 0;              // of all nodes together
  int max_queue_size = 100;         // -1: no limit
};

}  // namespace braid::graph
