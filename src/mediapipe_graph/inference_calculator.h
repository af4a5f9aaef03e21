// OpenVINOInferenceCalculator: sends its input tensors to the servable of a session for inference.
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
// Its requests have the sequence of the message in process (see graph_sequences.h). No thread waits for the
// answer, and tensors are passed on as handles.
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
  // Errors: INTERNAL, with the servable's text.
  Status Process(graph::Context& context) override;
  void Cancel() override;

 private:
  std::shared_ptr<const InferencePorts> ports_;  // shared with the pending request

  Mutex mutex_;
  // Of the pending request, and shared with it.
  std::shared_ptr<Cancellation> cancellation_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
