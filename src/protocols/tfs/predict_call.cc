#include "protocols/tfs/predict_call.h"

#include "protocols/grpc/queue.h"
#include "protocols/inference/request_headers.h"
#include "protocols/tfs/lookup.h"
#include "protocols/tfs/predict_request_builder.h"
#include "serving/faults.h"

namespace braid {

TfsPredictCall::TfsPredictCall(TfsQueue& queue)
    : GrpcInference(queue.queue, queue.context.tracer, queue.idle), tfs_(queue) {}

void TfsPredictCall::Arm(TfsQueue& queue) {
  GrpcInference* call = queue.idle.Take();
  if (call == nullptr) call = new TfsPredictCall(queue);
  call->WaitForClient();
}

void TfsPredictCall::AskForClient(grpc::ServerContext* context, grpc::ByteBuffer* message, Writer* writer,
                                  grpc::ServerCompletionQueue* cq, void* tag) {
  tfs_.services.prediction.RequestPredict(context, message, writer, cq, cq, tag);
}

Status TfsPredictCall::Read(WireSegments segments, InferenceRequest& request) {
  ParsedPredictRequest parsed;
  BRAID_RETURN_IF_ERROR(ParsePredictRequest(segments, parsed));
  if (!parsed.model.present) return FaultError(Fault::kModelSpecMissing);
  BRAID_ASSIGN_OR_RETURN(request.model_version, CatalogVersion(parsed.model.version));
  BRAID_ASSIGN_OR_RETURN(request.servable,
                         FindForPredict(queue().catalog(), parsed.model.name, request.model_version));
  request.api = ApiCall{ApiProtocol::kTensorFlowServing, ApiInterface::kGrpc, ApiMethod::kPredict};
  request.model_name = std::move(parsed.model.name);
  BRAID_RETURN_IF_ERROR(tfs_.context.grpc_headers.Append(context(), request.parameters));
  Servable& servable = request.servable->get();
  form_.stateful = servable.info().stateful.has_value();
  form_.filter = parsed.output_filter;
  BRAID_ASSIGN_OR_RETURN(const auto sequence_header, SequenceHeader(servable.info(), context()));
  return BuildPredictRequest(segments, parsed, servable, sequence_header, request);
}

}  // namespace braid
