// OpenVINOInferenceCalculator: asks the servable of a session for inference, with the tensors of its inputs.
//
//   node {
//     calculator: "OpenVINOInferenceCalculator"
//     input_side_packet: "SESSION:session"
//     input_stream: "OVTENSOR:image"
//     output_stream: "OVTENSOR:scores"
//     node_options { [type.googleapis.com/mediapipe.OpenVINOInferenceCalculatorOptions] {
//       tag_to_input_tensor_names { key: "OVTENSOR" value: "data" }
//       tag_to_output_tensor_names { key: "OVTENSOR" value: "prob" } } }
//   }
//
// It carries the sequence of the message that it runs for (see graph_sequences.h) to the servable.
//
// No thread waits for the answer, and bytes go on by their handles.
#pragma once

#include <memory>

#include "base/mutex.h"
#include "base/status.h"
#include "graph/calculator.h"
#include "mediapipe_graph/inference_ports.h"
#include "serving/cancellation.h"

namespace braid {

class InferenceCalculator final : public graph::Calculator {
 public:
  static Status FillContract(graph::Contract& contract);

  Status Open(graph::Context& context) override;
  // Errors: INTERNAL, with what the servable says.
  Status Process(graph::Context& context) override;
  void Cancel() override;

 private:
  std::shared_ptr<const InferencePorts> ports_;  // shared with the request that is under way

  Mutex mutex_;
  // Of the request that is under way, and shared with it.
  std::shared_ptr<Cancellation> cancellation_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
