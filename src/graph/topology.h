// Topology: a loaded graph: validated, immutable, shared by all its runs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/calculator.h"
#include "graph/registry.h"

namespace braid::graph {

// Parses a graph.pbtxt: protobuf's text format in all spellings that users write (see docs/graphs.md). It may
// contain the option types of the registry's calculators. Errors: INVALID_ARGUMENT, with line and column.
Result<::mediapipe::CalculatorGraphConfig> ParseGraphConfig(std::string_view text);

class Topology {
 public:
  // Checks everything that needs no run: names, indices, producers, types, cycles, handlers and their
  // options, executors, contracts. `provided_side_packets` are those that runs get in addition to the graph's
  // own input_side_packets. Errors: INVALID_ARGUMENT with all faults, one per line.
  static Result<std::shared_ptr<const Topology>> Create(
      ::mediapipe::CalculatorGraphConfig config, std::shared_ptr<const CalculatorRegistry> registry,
      const std::vector<std::string>& provided_side_packets = {});
  ~Topology();
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  const ::mediapipe::CalculatorGraphConfig& config() const;
  // The ports of the graph itself, in the order of the configuration.
  const std::vector<Port>& inputs() const;
  const std::vector<Port>& outputs() const;
  const std::vector<Port>& input_side_packets() const;
  const std::vector<Port>& output_side_packets() const;

  // Returns the type of a graph's input (the type that its consumers take) or output; nothing if it may be
  // any.
  std::optional<ValueType> input_type(int input) const;
  std::optional<ValueType> output_type(int output) const;

  int node_count() const;
  const Contract& contract(int node) const;
  // The full name of its calculator, as registered.
  const std::string& calculator(int node) const;
  // The nodes that read the output stream `name`, and whether it is an output of the graph.
  struct Readers {
    std::vector<int> nodes;
    bool graph_output = false;
  };
  Readers readers(std::string_view stream) const;

  struct Parts;  // see topology_parts.h
  const Parts& parts() const { return *parts_; }

 private:
  explicit Topology(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace braid::graph
