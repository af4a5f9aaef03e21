#include "protocols/kserve/grpc_answer.h"

#include "protocols/kserve/classification.h"

namespace braid {

void ApplyAnswerOptions(const AnswerOptions& answer, InferenceResponse& response) {
  if (answer.classifications.empty() || !response.status.ok()) return;
  for (const ClassificationWish& wish : answer.classifications) {
    for (Tensor& output : response.outputs) {
      if (output.name != wish.spec.name) continue;
      Result<Tensor> classes = Classify(output, wish.k, answer.batching, &wish.spec);
      if (!classes.ok()) {
        response.status = classes.status();
        response.outputs.clear();
        return;
      }
      output = std::move(*classes);
    }
  }
}

}  // namespace braid
