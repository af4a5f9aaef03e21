#include "protocols/kserve/grpc/control_call.h"

#include <optional>
#include <string_view>

#include "protocols/grpc/method_call.h"
#include "protocols/kserve/grpc/service.h"

namespace braid {
namespace {

using Place = GrpcMethodPlace;
using Method = GrpcMethod<KserveGrpc>;

// Which model a request is about: "" for all of them, nothing for none.
using Model = std::optional<std::string_view>;
Model ModelOf(const google::protobuf::Message&) { return std::nullopt; }
Model ModelOf(const inference::ModelReadyRequest& request) { return request.name(); }
Model ModelOf(const inference::ModelMetadataRequest& request) { return request.name(); }
Model ModelOf(const inference::ModelConfigRequest& request) { return request.name(); }
Model ModelOf(const inference::ModelStatisticsRequest& request) { return request.name(); }
Model ModelOf(const inference::RepositoryIndexRequest&) { return ""; }
Model ModelOf(const inference::RepositoryModelLoadRequest& request) { return request.model_name(); }
Model ModelOf(const inference::RepositoryModelUnloadRequest& request) { return request.model_name(); }
Model ModelOf(const inference::TraceSettingRequest& request) { return request.model_name(); }
Model ModelOf(const inference::LogSettingsRequest&) { return ""; }

// Reads the message, and whether the client may have it answered.
template <class Request>
Status ReadPermitted(const Permit& permit, const GrpcMessage& message, Request& request) {
  BRAID_RETURN_IF_ERROR(ReadGrpcMessage(message, request));
  const Model model = ModelOf(request);
  return model ? permit.Check(*model) : OkStatus();
}

template <class Request, class Response>
Result<EncodedMessage> AnswerTyped(Status (GrpcControl::*method)(const Request&, Response&),
                                   GrpcControl& control, const Permit& permit, const GrpcMessage& message) {
  Request request;
  BRAID_RETURN_IF_ERROR(ReadPermitted(permit, message, request));
  Response response;
  BRAID_RETURN_IF_ERROR((control.*method)(request, response));
  return WriteGrpcMessage(response);
}

// The same for a method that asks for rights to more models.
template <class Request, class Response>
Result<EncodedMessage> AnswerTyped(Status (GrpcControl::*method)(const Permit&, const Request&, Response&),
                                   GrpcControl& control, const Permit& permit, const GrpcMessage& message) {
  Request request;
  BRAID_RETURN_IF_ERROR(ReadPermitted(permit, message, request));
  Response response;
  BRAID_RETURN_IF_ERROR((control.*method)(permit, request, response));
  return WriteGrpcMessage(response);
}

template <class Request, class Response>
void AnswerTypedLater(void (GrpcControl::*method)(const Request&, GrpcControl::Done<Response>),
                      GrpcControl& control, const Permit& permit, const GrpcMessage& message,
                      Method::Done done) {
  Request request;
  if (Status read = ReadPermitted(permit, message, request); !read.ok()) {
    done(std::move(read));
    return;
  }
  (control.*method)(request, [done = std::move(done)](Result<Response> response) {
    done(response.ok() ? WriteGrpcMessage(*response) : Result<EncodedMessage>(response.status()));
  });
}

template <auto Function>
Result<EncodedMessage> AnswerNow(KserveGrpc& kserve, const Permit& permit, const GrpcMessage& message) {
  return AnswerTyped(Function, kserve.control, permit, message);
}

template <auto Function>
void AnswerLater(KserveGrpc& kserve, const Permit& permit, const GrpcMessage& message, Method::Done done) {
  AnswerTypedLater(Function, kserve.control, permit, message, std::move(done));
}

// What is refused while the server starts or exits is so by GrpcControl, method by method.
template <auto Function>
constexpr Method LaterEntry(const char* path, Api api) {
  return Method{path, api, Place::kLater, false, nullptr, &AnswerLater<Function>};
}

template <auto Function>
constexpr Method Entry(const char* path, Api api, Place place) {
  return Method{path, api, place, false, &AnswerNow<Function>};
}

// Every method of the services but the two that infer.
constexpr Method kMethods[] = {
    Entry<&GrpcControl::ServerLive>("/inference.GRPCInferenceService/ServerLive", Api::kHealth,
                                    Place::kIoThread),
    LaterEntry<&GrpcControl::ServerReady>("/inference.GRPCInferenceService/ServerReady", Api::kHealth),
    LaterEntry<&GrpcControl::ModelReady>("/inference.GRPCInferenceService/ModelReady", Api::kHealth),
    LaterEntry<&GrpcControl::HealthCheck>("/grpc.health.v1.Health/Check", Api::kHealth),
    Entry<&GrpcControl::ServerMetadata>("/inference.GRPCInferenceService/ServerMetadata", Api::kMetadata,
                                        Place::kIoThread),
    Entry<&GrpcControl::ModelMetadata>("/inference.GRPCInferenceService/ModelMetadata", Api::kMetadata,
                                       Place::kTask),
    Entry<&GrpcControl::ModelConfig>("/inference.GRPCInferenceService/ModelConfig", Api::kModelConfig,
                                     Place::kTask),
    Entry<&GrpcControl::ModelStatistics>("/inference.GRPCInferenceService/ModelStatistics", Api::kStatistics,
                                         Place::kTask),
    Entry<&GrpcControl::RepositoryIndex>("/inference.GRPCInferenceService/RepositoryIndex",
                                         Api::kModelRepository, Place::kTask),
    Entry<&GrpcControl::RepositoryModelLoad>("/inference.GRPCInferenceService/RepositoryModelLoad",
                                             Api::kModelRepository, Place::kPool),
    Entry<&GrpcControl::RepositoryModelUnload>("/inference.GRPCInferenceService/RepositoryModelUnload",
                                               Api::kModelRepository, Place::kPool),
    Entry<&GrpcControl::SystemSharedMemoryStatus>("/inference.GRPCInferenceService/SystemSharedMemoryStatus",
                                                  Api::kSharedMemory, Place::kIoThread),
    Entry<&GrpcControl::SystemSharedMemoryRegister>(
        "/inference.GRPCInferenceService/SystemSharedMemoryRegister", Api::kSharedMemory, Place::kIoThread),
    Entry<&GrpcControl::SystemSharedMemoryUnregister>(
        "/inference.GRPCInferenceService/SystemSharedMemoryUnregister", Api::kSharedMemory, Place::kIoThread),
    Entry<&GrpcControl::CudaSharedMemoryStatus>("/inference.GRPCInferenceService/CudaSharedMemoryStatus",
                                                Api::kSharedMemory, Place::kIoThread),
    Entry<&GrpcControl::CudaSharedMemoryRegister>("/inference.GRPCInferenceService/CudaSharedMemoryRegister",
                                                  Api::kSharedMemory, Place::kTask),
    Entry<&GrpcControl::CudaSharedMemoryUnregister>(
        "/inference.GRPCInferenceService/CudaSharedMemoryUnregister", Api::kSharedMemory, Place::kTask),
    Entry<&GrpcControl::TraceSetting>("/inference.GRPCInferenceService/TraceSetting", Api::kTrace,
                                      Place::kIoThread),
    Entry<&GrpcControl::LogSettings>("/inference.GRPCInferenceService/LogSettings", Api::kLogging,
                                     Place::kIoThread),
};

}  // namespace

std::vector<GrpcRoute> ControlRoutes(KserveGrpc& kserve) {
  std::vector<GrpcRoute> routes;
  for (const Method& method : kMethods) routes.push_back(MethodRoute(kserve, &kserve.loads, method));
  return routes;
}

}  // namespace braid
