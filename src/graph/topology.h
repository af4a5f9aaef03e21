// Topology: a graph as it was loaded: validated, immutable, shared by all its runs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/calculator.h"
#include "graph/registry.h"

namespace braid::graph {

// Parses a graph.pbtxt: protobuf's text format in the spellings that users write (see docs/graphs.md), with
// the types of options that the registry's calculators have. Errors: INVALID_ARGUMENT, with line and column.
Result<::mediapipe::CalculatorGraphConfig> ParseGraphConfig(std::string_view text);

class Topology {
 public:
  // Checks everything that can be checked without a run: names, indices, producers, types, cycles, handlers
  // and their options, executors, contracts. `provided_side_packets` are those that the run will get beside
  // the graph's own input_side_packets. Errors: INVALID_ARGUMENT with all faults, one a line.
  static Result<std::shared_ptr<const Topology>> Create(
      ::mediapipe::CalculatorGraphConfig config, std::shared_ptr<const CalculatorRegistry> registry,
      const std::vector<std::string>& provided_side_packets = {});
  ~Topology();
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  const ::mediapipe::CalculatorGraphConfig& config() const;
  // Of the graph itself, in the order of the configuration.
  const std::vector<Port>& inputs() const;
  const std::vector<Port>& outputs() const;
  const std::vector<Port>& input_side_packets() const;
  const std::vector<Port>& output_side_packets() const;

  // What the contracts say of the stream behind a graph's input (the type its consumers take) or output;
  // nothing when any value is right.
  std::optional<ValueType> input_type(int input) const;
  std::optional<ValueType> output_type(int output) const;

  int node_count() const;
  const Contract& contract(int node) const;
  // The full name of its calculator, as it is registered.
  const std::string& calculator(int node) const;
  // Which nodes read the output stream `name`, and whether it is an output of the graph.
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
