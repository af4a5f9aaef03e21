#include "protocols/kserve/grpc/infer_call.h"

#include "protocols/inference/request_headers.h"
#include "protocols/kserve/grpc/response_writer.h"
#include "protocols/kserve/grpc/service.h"

namespace braid {

GrpcInferCall::GrpcInferCall(Setup setup, KserveThread& thread)
    : GrpcInference(std::move(setup), thread.context().tracer), kserve_(thread) {}

Status GrpcInferCall::Read(WireSegments segments, InferenceRequest& request) {
  ParsedRequest& parsed = kserve_.parsed;
  BRAID_RETURN_IF_ERROR(ParseInferRequest(segments, parsed));
  BRAID_RETURN_IF_ERROR(FindServable(kserve_, authorization(), ApiMethod::kModelInfer, request));
  Servable& servable = request.servable->get();
  if (servable.info().decoupled) {
    return UnsupportedError("ModelInfer RPC doesn't support models with decoupled transaction policy");
  }
  Parameters forwarded;
  BRAID_RETURN_IF_ERROR(kserve_.context().grpc_headers.Append(head(), forwarded));
  BRAID_ASSIGN_OR_RETURN(const std::string_view sequence, SequenceHeader(servable.info(), head()));
  return BuildInferenceRequest(segments, parsed, servable, {forwarded, sequence},
                               {*kserve_.context().client_memory, authorization(), servable.info().name},
                               request, answer_);
}

Result<EncodedMessage> GrpcInferCall::Write(InferenceResponse& response) {
  BRAID_RETURN_IF_ERROR(answer_.outputs.Apply(response.outputs));
  return EncodeUnaryResponse(answer_.request_id, response, &answer_.outputs);
}

}  // namespace braid
