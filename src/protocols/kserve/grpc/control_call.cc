#include "protocols/kserve/grpc/control_call.h"

#include "protocols/grpc/method_call.h"
#include "protocols/kserve/grpc/service.h"

namespace braid {
namespace {

using Place = GrpcMethodPlace;
using Method = GrpcMethod<KserveGrpc>;
using Writer = GrpcUnaryCall::Writer;

template <auto Ask>
void RequestInference(KserveGrpc& kserve, grpc::ServerContext* context, grpc::ByteBuffer* message,
                      Writer* writer, grpc::ServerCompletionQueue* cq, void* tag) {
  (kserve.services.inference.*Ask)(context, message, writer, cq, cq, tag);
}

void RequestHealthCheck(KserveGrpc& kserve, grpc::ServerContext* context, grpc::ByteBuffer* message,
                        Writer* writer, grpc::ServerCompletionQueue* cq, void* tag) {
  kserve.services.health.RequestCheck(context, message, writer, cq, cq, tag);
}

template <class Request, class Response>
Status AnswerTyped(Status (GrpcControl::*method)(const Request&, Response&), GrpcControl& control,
                   grpc::ByteBuffer& message, grpc::ByteBuffer& to) {
  Request request;
  BRAID_RETURN_IF_ERROR(ReadGrpcMessage(message, request));
  Response response;
  BRAID_RETURN_IF_ERROR((control.*method)(request, response));
  return WriteGrpcMessage(response, to);
}

template <class Request, class Response>
void AnswerTypedLater(void (GrpcControl::*method)(const Request&, GrpcControl::Done<Response>),
                      GrpcControl& control, grpc::ByteBuffer& message, Method::Done done) {
  Request request;
  if (Status read = ReadGrpcMessage(message, request); !read.ok()) {
    done(std::move(read));
    return;
  }
  (control.*method)(request, [done = std::move(done)](Result<Response> response) {
    grpc::ByteBuffer to;
    Status status = Guarded([&] {
      BRAID_RETURN_IF_ERROR(response.status());
      return WriteGrpcMessage(*response, to);
    });
    done(status.ok() ? Result<grpc::ByteBuffer>(to) : Result<grpc::ByteBuffer>(std::move(status)));
  });
}

template <auto Function>
Status Answer(KserveGrpc& kserve, grpc::ByteBuffer& message, grpc::ByteBuffer& response) {
  return AnswerTyped(Function, kserve.control, message, response);
}

template <auto Function>
void AnswerLater(KserveGrpc& kserve, grpc::ByteBuffer& message, Method::Done done) {
  AnswerTypedLater(Function, kserve.control, message, std::move(done));
}

// What is refused while the server starts or exits is so by GrpcControl, method by method.
template <auto Ask, auto Function>
constexpr Method LaterEntry(Api api) {
  return Method{api, Place::kLater, false, &RequestInference<Ask>, nullptr, &AnswerLater<Function>};
}

template <auto Ask, auto Function>
constexpr Method Entry(Api api, Place place) {
  return Method{api, place, false, &RequestInference<Ask>, &Answer<Function>};
}

using Service = GrpcInferenceService;

// Every method of the services but the two that infer.
constexpr Method kMethods[] = {
    Entry<&Service::RequestServerLive, &GrpcControl::ServerLive>(Api::kHealth, Place::kQueue),
    LaterEntry<&Service::RequestServerReady, &GrpcControl::ServerReady>(Api::kHealth),
    LaterEntry<&Service::RequestModelReady, &GrpcControl::ModelReady>(Api::kHealth),
    {Api::kHealth, Place::kLater, false, &RequestHealthCheck, nullptr,
     &AnswerLater<&GrpcControl::HealthCheck>},
    Entry<&Service::RequestServerMetadata, &GrpcControl::ServerMetadata>(Api::kMetadata, Place::kQueue),
    Entry<&Service::RequestModelMetadata, &GrpcControl::ModelMetadata>(Api::kMetadata, Place::kTask),
    Entry<&Service::RequestModelConfig, &GrpcControl::ModelConfig>(Api::kModelConfig, Place::kTask),
    Entry<&Service::RequestModelStatistics, &GrpcControl::ModelStatistics>(Api::kStatistics, Place::kTask),
    Entry<&Service::RequestRepositoryIndex, &GrpcControl::RepositoryIndex>(Api::kModelRepository,
                                                                           Place::kTask),
    Entry<&Service::RequestRepositoryModelLoad, &GrpcControl::RepositoryModelLoad>(Api::kModelRepository,
                                                                                   Place::kPool),
    Entry<&Service::RequestRepositoryModelUnload, &GrpcControl::RepositoryModelUnload>(Api::kModelRepository,
                                                                                       Place::kPool),
    Entry<&Service::RequestSystemSharedMemoryStatus, &GrpcControl::SystemSharedMemoryStatus>(
        Api::kSharedMemory, Place::kQueue),
    Entry<&Service::RequestSystemSharedMemoryRegister, &GrpcControl::SystemSharedMemoryRegister>(
        Api::kSharedMemory, Place::kQueue),
    Entry<&Service::RequestSystemSharedMemoryUnregister, &GrpcControl::SystemSharedMemoryUnregister>(
        Api::kSharedMemory, Place::kQueue),
    Entry<&Service::RequestCudaSharedMemoryStatus, &GrpcControl::CudaSharedMemoryStatus>(Api::kSharedMemory,
                                                                                         Place::kQueue),
    Entry<&Service::RequestCudaSharedMemoryRegister, &GrpcControl::CudaSharedMemoryRegister>(
        Api::kSharedMemory, Place::kQueue),
    Entry<&Service::RequestCudaSharedMemoryUnregister, &GrpcControl::CudaSharedMemoryUnregister>(
        Api::kSharedMemory, Place::kQueue),
    Entry<&Service::RequestTraceSetting, &GrpcControl::TraceSetting>(Api::kTrace, Place::kQueue),
    Entry<&Service::RequestLogSettings, &GrpcControl::LogSettings>(Api::kLogging, Place::kQueue),
};

}  // namespace

void ArmControlCalls(KserveQueue& queue) {
  for (const Method& method : kMethods) {
    GrpcMethodCall<KserveGrpc>::Arm(queue.queue, queue.kserve, &queue.kserve.loads, method);
  }
}

}  // namespace braid
