#include "mediapipe_graph/ovms_calculators.h"

#include "mediapipe_graph/inference_calculator.h"
#include "mediapipe_graph/python_executor_calculator.h"
#include "mediapipe_graph/python_node_resources.h"
#include "mediapipe_graph/session_calculator.h"
#include "mediapipe_graph/tensor_converter_calculator.h"

namespace braid {

void AddOvmsCalculators(graph::CalculatorRegistry& registry) {
  registry.Add<InferenceCalculator>("OpenVINOInferenceCalculator");
  registry.Add<SessionCalculator>(std::string(kSessionCalculator));
  registry.Add<TensorConverterCalculator>("PyTensorOvTensorConverterCalculator");
  registry.Add<PythonExecutorCalculator>(std::string(kPythonExecutorCalculator));
}

}  // namespace braid
