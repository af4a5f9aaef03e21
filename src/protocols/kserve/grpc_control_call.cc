#include "protocols/kserve/grpc_control_call.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include "base/guard.h"
#include "protocols/kserve/grpc_unary_call.h"

namespace braid {
namespace {

using Writer = GrpcUnaryCall::Writer;

// Where a method runs.
enum class Place : uint8_t {
  kQueue,  // on the queue's thread: answers at once, whatever else goes on
  kTask,   // on the control thread: takes a while
  kLoad,   // on the threads for loads: blocks
  kLater,  // begins on the queue's thread, and is answered from anywhere
};

// Takes the answer of a method that is answered later; any thread.
using AnswerDone = std::function<void(Result<grpc::ByteBuffer>)>;

struct ControlMethod {
  Api api;
  Place place;
  // Asks gRPC for the next call.
  void (*request)(GrpcServices&, grpc::ServerContext*, grpc::ByteBuffer*, Writer*,
                  grpc::ServerCompletionQueue*, void* tag);
  // Reads the message, answers it, writes the answer.
  Status (*answer)(GrpcControl& control, grpc::ByteBuffer& message, grpc::ByteBuffer& response);
  // The same for kLater, in place of `answer`.
  void (*answer_later)(GrpcControl& control, grpc::ByteBuffer& message, AnswerDone done) = nullptr;
};

template <auto Method>
void RequestInference(GrpcServices& services, grpc::ServerContext* context, grpc::ByteBuffer* message,
                      Writer* writer, grpc::ServerCompletionQueue* cq, void* tag) {
  (services.inference.*Method)(context, message, writer, cq, cq, tag);
}

void RequestHealthCheck(GrpcServices& services, grpc::ServerContext* context, grpc::ByteBuffer* message,
                        Writer* writer, grpc::ServerCompletionQueue* cq, void* tag) {
  services.health.RequestCheck(context, message, writer, cq, cq, tag);
}

template <class Request>
Status Read(grpc::ByteBuffer& message, Request& request) {
  // A message without any field comes as a buffer without slices, which gRPC's own reader refuses.
  if (message.Length() > 0 && !grpc::SerializationTraits<Request>::Deserialize(&message, &request).ok()) {
    return InvalidArgumentError("failed to parse the request: malformed " + request.GetDescriptor()->name());
  }
  return OkStatus();
}

template <class Response>
Status Write(const Response& response, grpc::ByteBuffer& to) {
  bool own = false;
  if (!grpc::SerializationTraits<Response>::Serialize(response, &to, &own).ok()) {
    return InternalError("failed to write the response");
  }
  return OkStatus();
}

template <class Request, class Response>
Status AnswerTyped(Status (GrpcControl::*method)(const Request&, Response&), GrpcControl& control,
                   grpc::ByteBuffer& message, grpc::ByteBuffer& to) {
  Request request;
  BRAID_RETURN_IF_ERROR(Read(message, request));
  Response response;
  BRAID_RETURN_IF_ERROR((control.*method)(request, response));
  return Write(response, to);
}

template <class Request, class Response>
void AnswerTypedLater(void (GrpcControl::*method)(const Request&, GrpcControl::Done<Response>),
                      GrpcControl& control, grpc::ByteBuffer& message, AnswerDone done) {
  Request request;
  if (Status read = Read(message, request); !read.ok()) {
    done(std::move(read));
    return;
  }
  (control.*method)(request, [done = std::move(done)](Result<Response> response) {
    grpc::ByteBuffer to;
    Status status = Guarded([&] {
      BRAID_RETURN_IF_ERROR(response.status());
      return Write(*response, to);
    });
    done(status.ok() ? Result<grpc::ByteBuffer>(std::move(to)) : Result<grpc::ByteBuffer>(std::move(status)));
  });
}

template <auto Method>
Status Answer(GrpcControl& control, grpc::ByteBuffer& message, grpc::ByteBuffer& response) {
  return AnswerTyped(Method, control, message, response);
}

template <auto Method>
void AnswerLater(GrpcControl& control, grpc::ByteBuffer& message, AnswerDone done) {
  AnswerTypedLater(Method, control, message, std::move(done));
}

template <auto Request, auto Method>
constexpr ControlMethod LaterEntry(Api api) {
  return ControlMethod{api, Place::kLater, &RequestInference<Request>, nullptr, &AnswerLater<Method>};
}

template <auto Request, auto Method>
constexpr ControlMethod Entry(Api api, Place place) {
  return ControlMethod{api, place, &RequestInference<Request>, &Answer<Method>};
}

using Service = GrpcInferenceService;

// Every method of the services but the two that infer.
constexpr ControlMethod kMethods[] = {
    Entry<&Service::RequestServerLive, &GrpcControl::ServerLive>(Api::kHealth, Place::kQueue),
    LaterEntry<&Service::RequestServerReady, &GrpcControl::ServerReady>(Api::kHealth),
    LaterEntry<&Service::RequestModelReady, &GrpcControl::ModelReady>(Api::kHealth),
    {Api::kHealth, Place::kLater, &RequestHealthCheck, nullptr, &AnswerLater<&GrpcControl::HealthCheck>},
    Entry<&Service::RequestServerMetadata, &GrpcControl::ServerMetadata>(Api::kMetadata, Place::kQueue),
    Entry<&Service::RequestModelMetadata, &GrpcControl::ModelMetadata>(Api::kMetadata, Place::kTask),
    Entry<&Service::RequestModelConfig, &GrpcControl::ModelConfig>(Api::kModelConfig, Place::kTask),
    Entry<&Service::RequestModelStatistics, &GrpcControl::ModelStatistics>(Api::kStatistics, Place::kTask),
    Entry<&Service::RequestRepositoryIndex, &GrpcControl::RepositoryIndex>(Api::kModelRepository,
                                                                           Place::kTask),
    Entry<&Service::RequestRepositoryModelLoad, &GrpcControl::RepositoryModelLoad>(Api::kModelRepository,
                                                                                   Place::kLoad),
    Entry<&Service::RequestRepositoryModelUnload, &GrpcControl::RepositoryModelUnload>(Api::kModelRepository,
                                                                                       Place::kLoad),
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

class GrpcControlCall final : public GrpcUnaryCall {
 public:
  GrpcControlCall(GrpcQueue& queue, const ControlMethod& method)
      : GrpcUnaryCall(queue, method.api), method_(method) {}

  static void Arm(GrpcQueue& queue, const ControlMethod& method) {
    (new GrpcControlCall(queue, method))->WaitForClient();
  }

 private:
  void AskForClient(grpc::ServerContext* context, grpc::ByteBuffer* message, Writer* writer,
                    grpc::ServerCompletionQueue* cq, void* tag) override {
    method_.request(queue().state().services, context, message, writer, cq, tag);
  }
  void ArmNext() override { Arm(queue(), method_); }

  void Handle() override {
    GrpcServerState& state = queue().state();
    // The message moves along: gRPC's side of the call may end while a task still reads it.
    request_.Swap(&message());
    if (method_.place == Place::kQueue) {
      Work(state.control);
      return;
    }
    // The task's share in the call, which goes with the task even when the task is never run.
    AddReference();
    std::shared_ptr<GrpcControlCall> share(this, [](GrpcControlCall* call) { call->DropReference(); });
    if (method_.place == Place::kLater) {
      method_.answer_later(state.control, request_, [share](Result<grpc::ByteBuffer> response) {
        if (response.ok()) {
          share->Finish(*response);
        } else {
          share->FinishWithError(response.status());
        }
      });
      return;
    }
    ControlPool& pool = method_.place == Place::kLoad ? state.loads : state.tasks;
    if (!pool.Submit([share, &state] { share->Work(state.control); })) {
      FinishWithError(UnavailableError("too many control requests are waiting"));
    }
  }

  // REQUIRES: a reference is held, or on the queue's thread.
  void Work(GrpcControl& control) {
    // A client that has gone while its call waited does not get a model loaded any more.
    if (!open()) return;
    grpc::ByteBuffer response;
    const Status status = Guarded([&] { return method_.answer(control, request_, response); });
    if (status.ok()) {
      Finish(response);
    } else {
      FinishWithError(status);
    }
  }

  const ControlMethod& method_;
  grpc::ByteBuffer request_;
};

}  // namespace

void ArmControlCalls(GrpcQueue& queue) {
  for (const ControlMethod& method : kMethods) GrpcControlCall::Arm(queue, method);
}

}  // namespace braid
