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
// With LOOPBACK on both sides the code may be a generator. List k is output at the time of the input plus k.
// The next list is requested when the LOOPBACK packet, a bool, has come round. A node takes no further input
// while its generator has more items.
#pragma once

#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "graph/calculator.h"

namespace braid {

class PythonNodes;

class PythonExecutorCalculator final : public graph::Calculator {
 public:
  // ListPythonNodes() checks names and options, not this function.
  static Status FillContract(graph::Contract& contract);

  Status Open(graph::Context& context) override;
  Status Process(graph::Context& context) override;
  Status Close(graph::Context& context) override;
  void Cancel() override;

 private:
  class Execution;

  // The execution may have ended.
  std::shared_ptr<Execution> last_execution() const;

  // Its code, set by Open().
  std::shared_ptr<PythonNodes> nodes_;
  size_t node_ = 0;
  uint64_t session_ = 0;

  mutable Mutex mutex_;  // a leaf lock
  // Set by the graph's thread, read by Cancel().
  std::shared_ptr<Execution> execution_ BRAID_GUARDED_BY(mutex_);  // shared with its call
};

}  // namespace braid
