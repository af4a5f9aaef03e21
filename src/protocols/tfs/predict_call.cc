#include "protocols/tfs/predict_call.h"

#include "protocols/grpc/thread.h"
#include "protocols/inference/request_headers.h"
#include "protocols/tfs/lookup.h"
#include "protocols/tfs/predict_request_builder.h"
#include "serving/faults.h"

namespace braid {

TfsPredictCall::TfsPredictCall(Setup setup, ProtocolContext& context)
    : GrpcInference(std::move(setup), context.tracer), context_(context) {}

Status TfsPredictCall::Read(WireSegments segments, InferenceRequest& request) {
  ParsedPredictRequest parsed;
  BRAID_RETURN_IF_ERROR(ParsePredictRequest(segments, parsed));
  if (!parsed.model.present) return FaultError(Fault::kModelSpecMissing);
  BRAID_RETURN_IF_ERROR(authorization().Check(parsed.model.name));
  BRAID_ASSIGN_OR_RETURN(request.model_version, CatalogVersion(parsed.model.version));
  request.model_name = std::move(parsed.model.name);
  BRAID_ASSIGN_OR_RETURN(request.servable,
                         FindForPredict(thread().catalog(), request.model_name, request.model_version));
  request.api = ApiCall{ApiProtocol::kTensorFlowServing, ApiInterface::kGrpc, ApiMethod::kPredict};
  BRAID_RETURN_IF_ERROR(context_.grpc_headers.Append(head(), request.parameters));
  Servable& servable = request.servable->get();
  form_.stateful = servable.info().stateful.has_value();
  form_.filter = parsed.output_filter;
  BRAID_ASSIGN_OR_RETURN(const auto sequence_header, SequenceHeader(servable.info(), head()));
  return BuildPredictRequest(segments, parsed, servable, sequence_header, request);
}

}  // namespace braid
