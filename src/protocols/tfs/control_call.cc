#include "protocols/tfs/control_call.h"

#include "protocols/grpc/method_call.h"
#include "protocols/inference/context.h"
#include "protocols/tfs/lookup.h"
#include "protocols/tfs/model_documents.h"
#include "protocols/tfs/tfs_services.h"
#include "serving/faults.h"

namespace braid {
namespace {

using namespace tensorflow::serving;  // NOLINT: the messages of this protocol
using Place = GrpcMethodPlace;
using Method = GrpcMethod<TfsServices>;

void CountGrpcCall(Servable& servable, ApiMethod method) {
  servable.api_counters().Count({ApiProtocol::kTensorFlowServing, ApiInterface::kGrpc, method}, true);
}

// Labels are ignored and select the default version.
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
  CountGrpcCall(*servable, ApiMethod::kGetModelMetadata);
  return OkStatus();
}

Status AnswerStatus(const Catalog& catalog, const GetModelStatusRequest& request,
                    GetModelStatusResponse& response) {
  if (!request.has_model_spec()) return FaultError(Fault::kModelSpecMissing);
  BRAID_ASSIGN_OR_RETURN(const int64_t version, VersionOf(request.model_spec()));
  BRAID_ASSIGN_OR_RETURN(response, ModelStatus(catalog, request.model_spec().name(), version));
  if (auto servable = catalog.Find(request.model_spec().name(), version); servable.ok()) {
    CountGrpcCall(**servable, ApiMethod::kGetModelStatus);
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
  return UnsupportedError(name + " is not supported; use Predict");
}

template <class Request, class Response>
Result<EncodedMessage> AnswerTyped(Status (*function)(const Catalog&, const Request&, Response&),
                                   const Catalog& catalog, const Authorization& authorization,
                                   const GrpcMessage& message) {
  Request request;
  BRAID_RETURN_IF_ERROR(ReadGrpcMessage(message, request));
  if constexpr (requires { request.model_spec(); }) {
    BRAID_RETURN_IF_ERROR(authorization.Check(request.model_spec().name()));
  }
  Response response;
  BRAID_RETURN_IF_ERROR(function(catalog, request, response));
  return WriteGrpcMessage(response);
}

template <auto Function>
Result<EncodedMessage> Answer(TfsServices& tfs, const Authorization& authorization,
                              const GrpcMessage& message) {
  return AnswerTyped(Function, tfs.context().catalog, authorization, message);
}

template <auto Function>
constexpr Method Entry(const char* path, Api api, Place place) {
  return {path, api, place, true, &Answer<Function>};
}

template <class Request>
std::string NameIn(const GrpcMessage& message) {
  Request request;
  return ReadGrpcMessage(message, request).ok() ? request.model_spec().name() : "";
}

// The entry of a method that describes a model, which is loaded if it is not.
template <auto Function, class Request>
constexpr Method DescribingEntry(const char* path) {
  Method method = Entry<Function>(path, Api::kMetadata, Place::kTask);
  method.model = &NameIn<Request>;
  return method;
}

constexpr Method kMethods[] = {
    DescribingEntry<&AnswerMetadata, GetModelMetadataRequest>(
        "/tensorflow.serving.PredictionService/GetModelMetadata"),
    Entry<&NotServed<ClassificationRequest, ClassificationResponse>>(
        "/tensorflow.serving.PredictionService/Classify", Api::kInference, Place::kIoThread),
    Entry<&NotServed<RegressionRequest, RegressionResponse>>("/tensorflow.serving.PredictionService/Regress",
                                                             Api::kInference, Place::kIoThread),
    Entry<&NotServed<MultiInferenceRequest, MultiInferenceResponse>>(
        "/tensorflow.serving.PredictionService/MultiInference", Api::kInference, Place::kIoThread),
    DescribingEntry<&AnswerStatus, GetModelStatusRequest>("/tensorflow.serving.ModelService/GetModelStatus"),
    Entry<&AnswerReload>("/tensorflow.serving.ModelService/HandleReloadConfigRequest", Api::kModelRepository,
                         Place::kIoThread),
};

}  // namespace

std::vector<GrpcRoute> TfsControlRoutes(TfsServices& tfs) {
  std::vector<GrpcRoute> routes;
  for (const Method& method : kMethods) routes.push_back(MethodRoute<TfsServices>(tfs, nullptr, method));
  return routes;
}

}  // namespace braid
