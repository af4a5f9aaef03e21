#include "protocols/tfs/control_call.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include "base/guard.h"
#include "protocols/kserve/grpc_unary_call.h"
#include "protocols/tfs/lookup.h"
#include "protocols/tfs/model_documents.h"
#include "serving/ovms_status.h"

namespace braid {
namespace {

using namespace tensorflow::serving;  // NOLINT: the messages of this protocol
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
  if (!request.has_model_spec()) return OvmsError(OvmsCode::kModelSpecMissing);
  if (request.metadata_field_size() != 1 || request.metadata_field(0) != "signature_def") {
    return OvmsError(OvmsCode::kInvalidSignatureDef, "metadata_field must be exactly [signature_def]");
  }
  BRAID_ASSIGN_OR_RETURN(const int64_t version, VersionOf(request.model_spec()));
  BRAID_ASSIGN_OR_RETURN(const auto servable, catalog.Find(request.model_spec().name(), version));
  if (servable->info().kind == ServableKind::kGraph) return OvmsError(OvmsCode::kModelNameMissing);
  response = ModelMetadata(servable->info());
  CountCall(*servable, ApiMethod::kGetModelMetadata);
  return OkStatus();
}

Status AnswerStatus(const Catalog& catalog, const GetModelStatusRequest& request,
                    GetModelStatusResponse& response) {
  if (!request.has_model_spec()) return OvmsError(OvmsCode::kModelSpecMissing);
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

struct ControlMethod {
  Api api;
  bool looks_at_catalog;  // answered on the control thread, since it may take a while
  void (*request)(TfsRawServices&, grpc::ServerContext*, grpc::ByteBuffer*, Writer*,
                  grpc::ServerCompletionQueue*, void* tag);
  // Reads the message, answers it, writes the answer.
  Status (*answer)(const Catalog& catalog, grpc::ByteBuffer& message, grpc::ByteBuffer& response);
};

template <auto Service, auto Method>
void Ask(TfsRawServices& services, grpc::ServerContext* context, grpc::ByteBuffer* message, Writer* writer,
         grpc::ServerCompletionQueue* cq, void* tag) {
  ((services.*Service).*Method)(context, message, writer, cq, cq, tag);
}

template <class Request, class Response>
Status AnswerTyped(Status (*method)(const Catalog&, const Request&, Response&), const Catalog& catalog,
                   grpc::ByteBuffer& message, grpc::ByteBuffer& to) {
  Request request;
  // A message without any field comes as a buffer without slices, which gRPC's own reader refuses.
  if (message.Length() > 0 && !grpc::SerializationTraits<Request>::Deserialize(&message, &request).ok()) {
    return InvalidArgumentError("failed to parse the request: malformed " + request.GetDescriptor()->name());
  }
  Response response;
  BRAID_RETURN_IF_ERROR(method(catalog, request, response));
  bool own = false;
  if (!grpc::SerializationTraits<Response>::Serialize(response, &to, &own).ok()) {
    return InternalError("failed to write the response");
  }
  return OkStatus();
}

template <auto Method>
Status Answer(const Catalog& catalog, grpc::ByteBuffer& message, grpc::ByteBuffer& response) {
  return AnswerTyped(Method, catalog, message, response);
}

template <auto Method, auto Handler>
constexpr ControlMethod Prediction(Api api, bool looks_at_catalog) {
  return {api, looks_at_catalog, &Ask<&TfsRawServices::prediction, Method>, &Answer<Handler>};
}

template <auto Method, auto Handler>
constexpr ControlMethod Model(Api api, bool looks_at_catalog) {
  return {api, looks_at_catalog, &Ask<&TfsRawServices::model, Method>, &Answer<Handler>};
}

constexpr ControlMethod kMethods[] = {
    Prediction<&TfsPredictionService::RequestGetModelMetadata, &AnswerMetadata>(Api::kMetadata, true),
    Prediction<&TfsPredictionService::RequestClassify,
               &NotServed<ClassificationRequest, ClassificationResponse>>(Api::kInference, false),
    Prediction<&TfsPredictionService::RequestRegress, &NotServed<RegressionRequest, RegressionResponse>>(
        Api::kInference, false),
    Prediction<&TfsPredictionService::RequestMultiInference,
               &NotServed<MultiInferenceRequest, MultiInferenceResponse>>(Api::kInference, false),
    Model<&TfsModelService::RequestGetModelStatus, &AnswerStatus>(Api::kMetadata, true),
    Model<&TfsModelService::RequestHandleReloadConfigRequest, &AnswerReload>(Api::kModelRepository, false),
};

class TfsControlCall final : public GrpcUnaryCall {
 public:
  static void Arm(GrpcQueue& queue, TfsRawServices& services, const ControlMethod& method) {
    (new TfsControlCall(queue, services, method))->WaitForClient();
  }

 private:
  TfsControlCall(GrpcQueue& queue, TfsRawServices& services, const ControlMethod& method)
      : GrpcUnaryCall(queue, method.api), services_(services), method_(method) {}

  void AskForClient(grpc::ServerContext* context, grpc::ByteBuffer* message, Writer* writer,
                    grpc::ServerCompletionQueue* cq, void* tag) override {
    method_.request(services_, context, message, writer, cq, tag);
  }
  void ArmNext() override { Arm(queue(), services_, method_); }
  Status CheckServing() override { return queue().state().CheckServing(); }

  void Handle() override {
    // The message moves along: gRPC's side of the call may end while a task still reads it.
    request_.Swap(&message());
    const Catalog& catalog = queue().state().context.catalog;
    if (!method_.looks_at_catalog) {
      Work(catalog);
      return;
    }
    // The task's share in the call, which goes with the task even when the task is never run.
    AddReference();
    std::shared_ptr<TfsControlCall> share(this, [](TfsControlCall* call) { call->DropReference(); });
    if (!queue().state().tasks.Submit([share, &catalog] { share->Work(catalog); })) {
      FinishWithError(UnavailableError("too many control requests are waiting"));
    }
  }

  // REQUIRES: a reference is held, or on the queue's thread.
  void Work(const Catalog& catalog) {
    if (!open()) return;
    grpc::ByteBuffer response;
    const Status status = Guarded([&] { return method_.answer(catalog, request_, response); });
    if (status.ok()) {
      Finish(response);
    } else {
      FinishWithError(status);
    }
  }

  TfsRawServices& services_;
  const ControlMethod& method_;
  grpc::ByteBuffer request_;
};

}  // namespace

void ArmTfsControlCalls(GrpcQueue& queue, TfsRawServices& services) {
  for (const ControlMethod& method : kMethods) {
    for (int i = 0; i < kArmedCalls; ++i) TfsControlCall::Arm(queue, services, method);
  }
}

}  // namespace braid
