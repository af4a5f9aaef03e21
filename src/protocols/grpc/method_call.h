// GrpcMethod: a unary method that a plain function answers, from message to message. A protocol's table lists
// its methods: the API of each, the thread that runs it, and its function. The function asks the
// authorization about the model that the message names.
//
//   constexpr GrpcMethod<Protocol> kMethods[] = {
//       {"/package.Service/Live", Api::kHealth, GrpcMethodPlace::kIoThread, false, &AnswerMethod<&Live>}};
//   for (const auto& method : kMethods) routes.push_back(MethodRoute(protocol, pool, method));
//
// The functions get the `Protocol`, which outlives the server.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/guard.h"
#include "protocols/grpc/protocol.h"
#include "protocols/grpc/thread.h"
#include "protocols/grpc/unary_call.h"
#include "serving/faults.h"

namespace braid {

// The thread that runs a method.
enum class GrpcMethodPlace : uint8_t {
  kIoThread,  // the I/O thread; answers at once, under any load
  kTask,      // the server's thread for longer tasks
  kPool,      // the protocol's own threads; may block
  kLater,     // begins on the I/O thread and answers later, on any thread
};

template <class Protocol>
struct GrpcMethod {
  // Receives the result of a method that answers later. Any thread.
  using Done = std::function<void(Result<EncodedMessage>)>;

  const char* path;
  Api api;
  GrpcMethodPlace place;
  // Whether the method is refused while the server starts or exits.
  bool needs_serving;
  // Reads the message and returns the encoded response.
  Result<EncodedMessage> (*answer)(Protocol&, const Authorization& authorization, const GrpcMessage& message);
  // The same for kLater, instead of `answer`.
  void (*answer_later)(Protocol&, const Authorization& authorization, const GrpcMessage& message,
                       Done done) = nullptr;
  // The model that the message names, for methods that fail with Fault::kLoadsOnDemand; else null.
  std::string (*model)(const GrpcMessage& message) = nullptr;
};

// Parses a message. Errors: INVALID_ARGUMENT for invalid bytes.
template <class Request>
Status ReadGrpcMessage(const GrpcMessage& message, Request& request) {
  std::string whole;
  std::string_view bytes;
  if (message.segments().size() == 1) {
    bytes = message.segments().front();
  } else {
    whole.reserve(message.size());
    for (const std::string_view segment : message.segments()) whole += segment;
    bytes = whole;
  }
  if (request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return OkStatus();
  return InvalidArgumentError("failed to parse the request: malformed " + request.GetDescriptor()->name());
}

template <class Response>
Result<EncodedMessage> WriteGrpcMessage(const Response& response) {
  EncodedMessage message;
  message.text.assign(kGrpcPrefixBytes, '\0');
  message.begin = kGrpcPrefixBytes;
  if (!response.AppendToString(&message.text)) return InternalError("failed to write the response");
  message.size = message.text.size() - kGrpcPrefixBytes;
  return message;
}

template <class Protocol>
class GrpcMethodCall final : public GrpcUnaryCall {
 public:
  // `pool` runs methods of kPool; null if there are none.
  GrpcMethodCall(Setup setup, Protocol& protocol, ControlPool* pool, const GrpcMethod<Protocol>& method)
      : GrpcUnaryCall(std::move(setup)), protocol_(protocol), pool_(pool), method_(method) {}

 private:
  void Handle(GrpcMessage message) override {
    if (method_.needs_serving) {
      if (Status serving = thread().state().CheckServing(); !serving.ok()) {
        Finish(serving);
        return;
      }
    }
    message_ = std::move(message);
    Start();
  }
  void OnCancelled() override {}

  void Start() {
    const auto self = std::static_pointer_cast<GrpcMethodCall>(shared_from_this());
    switch (method_.place) {
      case GrpcMethodPlace::kIoThread:
        Work();
        return;
      case GrpcMethodPlace::kLater:
        method_.answer_later(protocol_, authorization(), message_,
                             [self](Result<EncodedMessage> answer) { self->Answer(std::move(answer)); });
        return;
      case GrpcMethodPlace::kTask:
      case GrpcMethodPlace::kPool: {
        ControlPool& pool = method_.place == GrpcMethodPlace::kPool ? *pool_ : thread().state().tasks;
        if (!pool.Submit([self] { self->Work(); }))
          Finish(UnavailableError("too many control requests are waiting"));
        return;
      }
    }
  }

  void Work() {
    // If the client has gone meanwhile, a load of a model is no longer wanted.
    if (!open()) return;
    Result<EncodedMessage> answer = InternalError("");
    const Status fault = Guarded([&] {
      answer = method_.answer(protocol_, authorization(), message_);
      return AfterLoad(answer.status());
    });
    if (fault.fault() == Fault::kLoadsOnDemand) return;
    Answer(fault.ok() ? std::move(answer) : Result<EncodedMessage>(fault));
  }

  // Has the model loaded if it is loaded on demand, and returns Fault::kLoadsOnDemand. Otherwise OK.
  Status AfterLoad(const Status& answer) {
    if (answer.fault() != Fault::kLoadsOnDemand || method_.model == nullptr) return OkStatus();
    if (awaits_since_ns_ == 0) awaits_since_ns_ = SteadyNowNs();
    LoadOnDemand(method_.model(message_), awaits_since_ns_, [this](const Status& loaded) {
      if (loaded.ok()) {
        Start();
      } else {
        Finish(loaded);
      }
    });
    return answer;
  }

  void Answer(Result<EncodedMessage> answer) {
    // The call lives until the client has taken the response.
    message_ = {};
    if (answer.ok()) {
      SendAndFinish(*std::move(answer));
    } else {
      Finish(answer.status());
    }
  }

  Protocol& protocol_;
  ControlPool* const pool_;
  const GrpcMethod<Protocol>& method_;
  GrpcMessage message_;
  int64_t awaits_since_ns_ = 0;  // see OnDemandLoader::Load(); 0: it did not wait
};

template <class Protocol>
GrpcRoute MethodRoute(Protocol& protocol, ControlPool* pool, const GrpcMethod<Protocol>& method) {
  return {method.path, method.api, [&protocol, pool, &method](GrpcThread&, GrpcCall::Setup setup) {
            return Result<std::shared_ptr<GrpcCall>>(
                std::make_shared<GrpcMethodCall<Protocol>>(std::move(setup), protocol, pool, method));
          }};
}

}  // namespace braid
