// The service for gRPC's interoperability clients, on Braid's gRPC transport: `interop_server PORT`, on the
// loopback interface, until SIGTERM.
#include <cstdio>
#include <cstdlib>

#include <csignal>
#include <memory>

#include "base/clock.h"
#include "interop.pb.h"
#include "protocols/grpc/method_call.h"
#include "protocols/grpc/server.h"
#include "serving/testing/fake_control.h"

namespace braid {
namespace {

using grpc::testing::Empty;
using grpc::testing::SimpleRequest;
using grpc::testing::SimpleResponse;
using grpc::testing::StreamingInputCallRequest;
using grpc::testing::StreamingInputCallResponse;
using grpc::testing::StreamingOutputCallRequest;
using grpc::testing::StreamingOutputCallResponse;

Status Asked(const grpc::testing::EchoStatus& status) {
  if (status.code() == 0) return OkStatus();
  return {status.code() == 2 ? StatusCode::kUnknown : StatusCode::kInternal, status.message()};
}

template <class Request>
class TestCall : public GrpcCall {
 public:
  using GrpcCall::GrpcCall;

 protected:
  virtual Status Handle(const Request& request) = 0;
  template <class Response>
  Status Answer(const Response& response) {
    BRAID_ASSIGN_OR_RETURN(EncodedMessage message, WriteGrpcMessage(response));
    Send(std::move(message));
    return OkStatus();
  }
  void OnHalfClose() override { Finish(OkStatus()); }
  void OnCancelled() override {}

 private:
  void OnMessage(GrpcMessage message) final {
    Request request;
    Status taken = ReadGrpcMessage(message, request);
    if (taken.ok()) taken = Handle(request);
    if (!taken.ok()) Finish(taken);
  }
};

class EmptyCall final : public TestCall<Empty> {
 public:
  using TestCall::TestCall;

 private:
  Status Handle(const Empty& request) override {
    BRAID_RETURN_IF_ERROR(Answer(request));
    Finish(OkStatus());
    return OkStatus();
  }
};

class UnaryCall final : public TestCall<SimpleRequest> {
 public:
  using TestCall::TestCall;

 private:
  Status Handle(const SimpleRequest& request) override {
    BRAID_RETURN_IF_ERROR(Asked(request.response_status()));
    SimpleResponse response;
    response.mutable_payload()->set_body(std::string(static_cast<size_t>(request.response_size()), '\0'));
    BRAID_RETURN_IF_ERROR(Answer(response));
    Finish(OkStatus());
    return OkStatus();
  }
};

class StreamingInputCall final : public TestCall<StreamingInputCallRequest> {
 public:
  using TestCall::TestCall;

 private:
  Status Handle(const StreamingInputCallRequest& request) override {
    bytes_ += static_cast<int>(request.payload().body().size());
    RequestMessage();
    return OkStatus();
  }
  void OnHalfClose() override {
    StreamingInputCallResponse response;
    response.set_aggregated_payload_size(bytes_);
    Finish(Answer(response));
  }

  int bytes_ = 0;
};

// StreamingOutputCall, with one request, and FullDuplexCall.
class OutputCall final : public TestCall<StreamingOutputCallRequest> {
 public:
  using TestCall::TestCall;

 private:
  Status Handle(const StreamingOutputCallRequest& request) override {
    BRAID_RETURN_IF_ERROR(Asked(request.response_status()));
    for (const auto& wanted : request.response_parameters()) {
      StreamingOutputCallResponse response;
      response.mutable_payload()->set_body(std::string(static_cast<size_t>(wanted.size()), '\0'));
      BRAID_RETURN_IF_ERROR(Answer(response));
    }
    NotifyWhenAtMost({});
    return OkStatus();
  }
  void OnSent() override { RequestMessage(); }
};

class TestProtocol final : public GrpcProtocol {
 public:
  std::vector<std::string> ServiceNames() const override { return {"grpc.testing.TestService"}; }
  std::vector<GrpcRoute> Routes(GrpcThread&, std::unique_ptr<ThreadState>&) override {
    std::vector<GrpcRoute> routes;
    Add<EmptyCall>(routes, "EmptyCall");
    Add<UnaryCall>(routes, "UnaryCall");
    Add<StreamingInputCall>(routes, "StreamingInputCall");
    Add<OutputCall>(routes, "StreamingOutputCall");
    Add<OutputCall>(routes, "FullDuplexCall");
    return routes;
  }

 private:
  template <class Call>
  static void Add(std::vector<GrpcRoute>& routes, const std::string& method) {
    routes.push_back({"/grpc.testing.TestService/" + method, Api::kInference,
                      [](GrpcThread&, GrpcCall::Setup setup) -> Result<std::shared_ptr<GrpcCall>> {
                        return std::shared_ptr<GrpcCall>(std::make_shared<Call>(std::move(setup)));
                      }});
  }
};

Status Serve(int port) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  BRAID_ASSIGN_OR_RETURN(const auto log, Logger::Create({}));
  Catalog catalog;
  FakeControl control;
  const AccessPolicy access(AccessPolicy::Wire::kGrpc);
  TestProtocol protocol;
  GrpcServer::Options options;
  options.address = "127.0.0.1";
  options.port = port;
  BRAID_ASSIGN_OR_RETURN(const auto server,
                         GrpcServer::Start({catalog, control, *log, access}, {&protocol}, options));
  std::printf("listening: %d\n", server->bound_port());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown(SteadyNowNs());
  return OkStatus();
}

}  // namespace
}  // namespace braid

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: interop_server PORT\n");
    return 64;
  }
  const braid::Status served = braid::Serve(std::atoi(arguments[1]));
  if (!served.ok()) std::fprintf(stderr, "%s\n", served.message().c_str());
  return served.ok() ? 0 : 1;
}
