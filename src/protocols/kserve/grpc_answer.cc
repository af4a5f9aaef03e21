#include "protocols/kserve/grpc_answer.h"

#include "protocols/kserve/classification.h"

namespace braid {

namespace {

Status ApplyTo(const AnswerOptions& answer, Tensor& output) {
  for (const ClassificationWish& wish : answer.classifications) {
    if (output.name != wish.spec.name) continue;
    BRAID_ASSIGN_OR_RETURN(output, Classify(output, wish.k, answer.batching, &wish.spec));
  }
  for (const SharedOutput& shared : answer.shared_outputs) {
    if (output.name == shared.name) return PutOutput(shared.part, output);
  }
  return OkStatus();
}

}  // namespace

void ApplyAnswerOptions(const AnswerOptions& answer, InferenceResponse& response) {
  if (answer.classifications.empty() && answer.shared_outputs.empty()) return;
  if (!response.status.ok()) return;
  for (Tensor& output : response.outputs) {
    Status applied = ApplyTo(answer, output);
    if (applied.ok()) continue;
    response.status = std::move(applied);
    response.outputs.clear();
    return;
  }
}

}  // namespace braid
