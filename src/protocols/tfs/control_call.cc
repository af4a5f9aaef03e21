#include "protocols/tfs/control_call.h"

#include "protocols/grpc/method_call.h"
#include "protocols/inference/context.h"
#include "protocols/tfs/lookup.h"
#include "protocols/tfs/model_documents.h"
#include "protocols/tfs/raw_services.h"
#include "protocols/tfs/tfs_services.h"
#include "serving/faults.h"

namespace braid {
namespace {

using namespace tensorflow::serving;  // NOLINT: the messages of this protocol
using Place = GrpcMethodPlace;
using Method = GrpcMethod<TfsServices>;
using Writer = GrpcUnaryCall::Writer;

// How many calls of each method wait for a client.
constexpr int kArmedCalls = 2;

void CountCall(Servable& servable, ApiMethod method) {
  servable.api_counters().Count({ApiProtocol::kTensorFlowServing, ApiInterface::kGrpc, method}, true);
}

// Labels are not told apart: they stand for the default version.
Result<int64_t> VersionOf(const ModelSpec& spec) {
  return CatalogVersion(spec.has_version() ? spec.version().value() : 0);
}

Status AnswerMetadata(const Catalog& catalog, const GetModelMetadataRequest& request,
                      GetModelMetadataResponse& response) {
  if (!request.has_model_spec()) return FaultError(Fault::kModelSpecMissing);
  if (request.metadata_field_size() != 1 || request.metadata_field(0) != "signature_def") {
    return FaultError(Fault::kInvalidSignatureDef, "metadata_field must be exactly [signature_def]");
  }
  BRAID_ASSIGN_OR_RETURN(const int64_t version, VersionOf(request.model_spec()));
  BRAID_ASSIGN_OR_RETURN(const auto servable, catalog.Find(request.model_spec().name(), version));
  if (servable->info().kind == ServableKind::kGraph) return FaultError(Fault::kModelNameMissing);
  response = ModelMetadata(servable->info());
  CountCall(*servable, ApiMethod::kGetModelMetadata);
  return OkStatus();
}

Status AnswerStatus(const Catalog& catalog, const GetModelStatusRequest& request,
                    GetModelStatusResponse& response) {
  if (!request.has_model_spec()) return FaultError(Fault::kModelSpecMissing);
  BRAID_ASSIGN_OR_RETURN(const int64_t version, VersionOf(request.model_spec()));
  BRAID_ASSIGN_OR_RETURN(response, ModelStatus(catalog, request.model_spec().name(), version));
  if (auto servable = catalog.Find(request.model_spec().name(), version); servable.ok()) {
    CountCall(**servable, ApiMethod::kGetModelStatus);
  }
  return OkStatus();
}

Status AnswerReload(const Catalog&, const ReloadConfigRequest&, ReloadConfigResponse& response) {
  response.mutable_status()->set_error_code(tensorflow::error::OK);
  return OkStatus();
}

template <class Request, class Response>
Status NotServed(const Catalog&, const Request& request, Response&) {
  const std::string& name = request.GetDescriptor()->name();
  return UnsupportedError(name + " is not supported: Predict is what this server answers");
}

template <auto Service, auto Ask>
void RequestMethod(TfsServices& tfs, grpc::ServerContext* context, grpc::ByteBuffer* message, Writer* writer,
                   grpc::ServerCompletionQueue* cq, void* tag) {
  ((tfs.services().*Service).*Ask)(context, message, writer, cq, cq, tag);
}

template <class Request, class Response>
Status AnswerTyped(Status (*function)(const Catalog&, const Request&, Response&), const Catalog& catalog,
                   grpc::ByteBuffer& message, grpc::ByteBuffer& to) {
  Request request;
  BRAID_RETURN_IF_ERROR(ReadGrpcMessage(message, request));
  Response response;
  BRAID_RETURN_IF_ERROR(function(catalog, request, response));
  return WriteGrpcMessage(response, to);
}

template <auto Function>
Status Answer(TfsServices& tfs, grpc::ByteBuffer& message, grpc::ByteBuffer& response) {
  return AnswerTyped(Function, tfs.context().catalog, message, response);
}

template <auto Ask, auto Function>
constexpr Method Prediction(Api api, Place place) {
  return {api, place, true, &RequestMethod<&TfsRawServices::prediction, Ask>, &Answer<Function>};
}

template <auto Ask, auto Function>
constexpr Method Model(Api api, Place place) {
  return {api, place, true, &RequestMethod<&TfsRawServices::model, Ask>, &Answer<Function>};
}

constexpr Method kMethods[] = {
    Prediction<&TfsPredictionService::RequestGetModelMetadata, &AnswerMetadata>(Api::kMetadata, Place::kTask),
    Prediction<&TfsPredictionService::RequestClassify,
               &NotServed<ClassificationRequest, ClassificationResponse>>(Api::kInference, Place::kQueue),
    Prediction<&TfsPredictionService::RequestRegress, &NotServed<RegressionRequest, RegressionResponse>>(
        Api::kInference, Place::kQueue),
    Prediction<&TfsPredictionService::RequestMultiInference,
               &NotServed<MultiInferenceRequest, MultiInferenceResponse>>(Api::kInference, Place::kQueue),
    Model<&TfsModelService::RequestGetModelStatus, &AnswerStatus>(Api::kMetadata, Place::kTask),
    Model<&TfsModelService::RequestHandleReloadConfigRequest, &AnswerReload>(Api::kModelRepository,
                                                                             Place::kQueue),
};

}  // namespace

void ArmTfsControlCalls(GrpcQueue& queue, TfsServices& tfs) {
  for (const Method& method : kMethods) {
    for (int i = 0; i < kArmedCalls; ++i) GrpcMethodCall<TfsServices>::Arm(queue, tfs, nullptr, method);
  }
}

}  // namespace braid
