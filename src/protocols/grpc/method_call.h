// Unary methods that a plain function answers, from message to message: a protocol's table of them says which
// API each belongs to, where it runs, and what answers it.
//
//   constexpr GrpcMethod<Protocol> kMethods[] = {
//       {Api::kHealth, GrpcMethodPlace::kQueue, false, &Ask<...>, &AnswerMethod<&Live>}};
//   for (const auto& method : kMethods) GrpcMethodCall<Protocol>::Arm(queue, protocol, pool, method);
//
// `Protocol` is what the functions get; it outlives the server.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>

#include <functional>
#include <memory>

#include "base/guard.h"
#include "protocols/grpc/queue.h"
#include "protocols/grpc/unary_call.h"

namespace braid {

// Where a method runs.
enum class GrpcMethodPlace : uint8_t {
  kQueue,  // on the queue's thread: answers at once, whatever else goes on
  kTask,   // on the server's thread for what takes a while
  kPool,   // on the protocol's own threads: blocks
  kLater,  // begins on the queue's thread, and is answered from anywhere
};

template <class Protocol>
struct GrpcMethod {
  // Takes the answer of a method that is answered later; any thread.
  using Done = std::function<void(Result<grpc::ByteBuffer>)>;

  Api api;
  GrpcMethodPlace place;
  // Whether it is refused while the server starts or exits.
  bool needs_serving;
  // Asks gRPC for the next call.
  void (*request)(Protocol&, grpc::ServerContext*, grpc::ByteBuffer*, GrpcUnaryCall::Writer*,
                  grpc::ServerCompletionQueue*, void* tag);
  // Reads the message, answers it, writes the answer.
  Status (*answer)(Protocol&, grpc::ByteBuffer& message, grpc::ByteBuffer& response);
  // The same for kLater, in place of `answer`.
  void (*answer_later)(Protocol&, grpc::ByteBuffer& message, Done done) = nullptr;
};

// Errors: INVALID_ARGUMENT for bytes that are no such message.
template <class Request>
Status ReadGrpcMessage(grpc::ByteBuffer& message, Request& request) {
  // A message without any field comes as a buffer without slices, which gRPC's own reader refuses.
  if (message.Length() > 0 && !grpc::SerializationTraits<Request>::Deserialize(&message, &request).ok()) {
    return InvalidArgumentError("failed to parse the request: malformed " + request.GetDescriptor()->name());
  }
  return OkStatus();
}

template <class Response>
Status WriteGrpcMessage(const Response& response, grpc::ByteBuffer& to) {
  bool own = false;
  if (grpc::SerializationTraits<Response>::Serialize(response, &to, &own).ok()) return OkStatus();
  return InternalError("failed to write the response");
}

template <class Protocol>
class GrpcMethodCall final : public GrpcUnaryCall {
 public:
  using Method = GrpcMethod<Protocol>;

  // Makes one more call wait for a client. On the queue's thread. `pool` is for kPool; null where no method
  // is such a one.
  static void Arm(GrpcQueue& queue, Protocol& protocol, ControlPool* pool, const Method& method) {
    (new GrpcMethodCall(queue, protocol, pool, method))->WaitForClient();
  }

 private:
  GrpcMethodCall(GrpcQueue& queue, Protocol& protocol, ControlPool* pool, const Method& method)
      : GrpcUnaryCall(queue, method.api), protocol_(protocol), pool_(pool), method_(method) {}

  void AskForClient(grpc::ServerContext* context, grpc::ByteBuffer* message, Writer* writer,
                    grpc::ServerCompletionQueue* cq, void* tag) override {
    method_.request(protocol_, context, message, writer, cq, tag);
  }
  void ArmNext() override { Arm(queue(), protocol_, pool_, method_); }
  Status CheckServing() override {
    return method_.needs_serving ? queue().state().CheckServing() : OkStatus();
  }

  void Handle() override {
    // The message moves along: gRPC's side of the call may end while a task still reads it.
    request_.Swap(&message());
    if (method_.place == GrpcMethodPlace::kQueue) {
      Work();
      return;
    }
    // The task's share in the call, which goes with the task even when the task is never run.
    AddReference();
    std::shared_ptr<GrpcMethodCall> share(this, [](GrpcMethodCall* call) { call->DropReference(); });
    if (method_.place == GrpcMethodPlace::kLater) {
      method_.answer_later(protocol_, request_, [share](Result<grpc::ByteBuffer> response) {
        if (response.ok()) {
          share->Finish(*response);
        } else {
          share->FinishWithError(response.status());
        }
      });
      return;
    }
    ControlPool& pool = method_.place == GrpcMethodPlace::kPool ? *pool_ : queue().state().tasks;
    if (!pool.Submit([share] { share->Work(); })) {
      FinishWithError(UnavailableError("too many control requests are waiting"));
    }
  }

  // REQUIRES: a reference is held, or on the queue's thread.
  void Work() {
    // A client that has gone while its call waited does not get a model loaded any more.
    if (!open()) return;
    grpc::ByteBuffer response;
    const Status status = Guarded([&] { return method_.answer(protocol_, request_, response); });
    if (status.ok()) {
      Finish(response);
    } else {
      FinishWithError(status);
    }
  }

  Protocol& protocol_;
  ControlPool* const pool_;
  const Method& method_;
  grpc::ByteBuffer request_;
};

}  // namespace braid
