// PyTensorOvTensorConverterCalculator: converts between tensors of Python nodes and of models. Bytes are
// shared, not copied.
//
//   node {
//     calculator: "PyTensorOvTensorConverterCalculator"
//     input_stream: "OVTENSOR:in"
//     output_stream: "OVMS_PY_TENSOR:out"
//     node_options { [type.googleapis.com/mediapipe.PyTensorOvTensorConverterCalculatorOptions] {
//       tag_to_output_tensor_names { key: "OVMS_PY_TENSOR" value: "out" } } }
//   }
//
// A node may convert any number of streams, with as many inputs as outputs. OVTENSOR<suffix> and
// OVMS_PY_TENSOR<suffix> of the same suffix and index form a pair. If the suffixes of both sides differ, the
// pairs are in the order of the tags. Of each pair one is OVTENSOR and the other OVMS_PY_TENSOR. The map has
// the name of each new Python tensor, by the tag of its output.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "graph/calculator.h"

namespace braid {

class TensorConverterCalculator final : public graph::Calculator {
 public:
  static Status FillContract(graph::Contract& contract);

  Status Open(graph::Context& context) override;
  // Errors: INVALID_ARGUMENT for tensors without a type on the other side, or with a wrong number of bytes.
  Status Process(graph::Context& context) override;

 private:
  struct Pair {
    int input = 0;
    int output = 0;
    bool to_python = false;
    std::string name;  // of the Python tensor
  };
  static Result<std::vector<Pair>> FindPairs(const graph::Contract& contract);

  std::vector<Pair> pairs_;
};

}  // namespace braid
