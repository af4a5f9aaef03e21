// PythonExecutorCalculator: a node whose code is a class OvmsPythonModel in a Python file.
//
//   node {
//     name: "upper"
//     calculator: "PythonExecutorCalculator"
//     input_side_packet: "PYTHON_NODE_RESOURCES:py"
//     input_stream: "TEXT:text"
//     output_stream: "RESULT:upper"
//     node_options { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions] {
//       handler_path: "upper.py" } }
//   }
//
// With LOOPBACK on both sides the code may be a generator: list k goes out at the time of the input plus k,
// and the next one is asked for when the LOOPBACK packet, a bool, has come round. A node that works on one
// takes no further input.
#pragma once

#include <cstdint>
#include <memory>

#include "graph/calculator.h"

namespace braid {

class PythonExecutorCalculator final : public graph::Calculator {
 public:
  PythonExecutorCalculator();
  ~PythonExecutorCalculator() override;

  // Options and names are not looked at here, but by ListPythonNodes().
  static Status FillContract(graph::Contract& contract);

  Status Open(graph::Context& context) override;
  Status Process(graph::Context& context) override;
  Status Close(graph::Context& context) override;
  void Cancel() override;

 private:
  class Execution;

  uint64_t session_ = 0;
  size_t node_ = 0;
  std::shared_ptr<Execution> execution_;  // shared with its call
};

}  // namespace braid
