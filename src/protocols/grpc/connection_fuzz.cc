// Fuzzes the bytes that a client sends on a gRPC connection before it ends its side: HTTP/2, heads of calls,
// messages.
#include "protocols/grpc/connection.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/testing/fuzz_input.h"
#include "protocols/grpc/server_state.h"
#include "protocols/grpc/thread.h"
#include "protocols/grpc/unary_call.h"
#include "serving/testing/fake_control.h"

namespace braid {
namespace {

EncodedMessage Message(const GrpcMessage& from) {
  EncodedMessage message;
  message.text.assign(kGrpcPrefixBytes, '\0');
  for (const std::string_view segment : from.segments()) message.text += segment;
  message.begin = kGrpcPrefixBytes;
  message.size = message.text.size() - kGrpcPrefixBytes;
  return message;
}

class Echo final : public GrpcUnaryCall {
 public:
  explicit Echo(Setup setup) : GrpcUnaryCall(std::move(setup)) { EnableCompression(); }

 private:
  void Handle(GrpcMessage message) override { SendAndFinish(Message(message)); }
  void OnCancelled() override {}
};

class Stream final : public GrpcCall {
 public:
  using GrpcCall::GrpcCall;

 private:
  void OnMessage(GrpcMessage message) override {
    Send(Message(message));
    RequestMessage();
  }
  void OnHalfClose() override { Finish(OkStatus()); }
  void OnCancelled() override {}
};

class Protocol final : public GrpcProtocol {
 public:
  std::vector<std::string> ServiceNames() const override { return {"t.T"}; }
  std::vector<GrpcRoute> Routes(GrpcThread&, std::unique_ptr<ThreadState>&) override {
    return {{"/t.T/Echo", Api::kInference, &Make<Echo>}, {"/t.T/Stream", Api::kHealth, &Make<Stream>}};
  }

 private:
  template <class Call>
  static Result<std::shared_ptr<GrpcCall>> Make(GrpcThread&, GrpcCall::Setup setup) {
    return std::shared_ptr<GrpcCall>(std::make_shared<Call>(std::move(setup)));
  }
};

// One server thread for all inputs.
class Server {
 public:
  Server() { thread_.loop().Start(); }
  void Adopt(UniqueFd fd) {
    const auto socket = std::make_shared<AcceptedSocket>(AcceptedSocket{std::move(fd), {}});
    BRAID_CHECK(thread_.loop().Post([this, socket] { thread_.Adopt(std::move(*socket)); }));
  }

 private:
  Catalog catalog_;
  FakeControl control_;
  const std::unique_ptr<Logger> log_ = Logger::Create({.warning = false, .file = ""}).value();
  Protocol protocol_;
  GrpcServerState state_{
      catalog_,
      control_,
      *log_,
      AccessPolicy(AccessPolicy::Wire::kGrpc),
      {.streams = 10, .stream_window = 1 << 16, .connection_window = 1 << 20, .frame_bytes = 1 << 16},
      {},
      size_t{1} << 20,
      1,
      std::make_shared<ClientLimits>(),
      nullptr,
      {&protocol_}};
  GrpcThread thread_{state_, EventLoop::Create("brd-grpc-0").value()};
};

}  // namespace
}  // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  static auto* const server = new Server();  // never destroyed
  FuzzInput input(data, size);
  const size_t first = input.Number(0, 4096);
  const std::string sent = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(input.rest());
  int ends[2];
  BRAID_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  const UniqueFd client(ends[0]);
  const int room = 1 << 20;
  ::setsockopt(client.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
  const size_t part = std::min(first, sent.size());
  [[maybe_unused]] ssize_t put = ::send(client.get(), sent.data(), part, MSG_NOSIGNAL);
  server->Adopt(UniqueFd(ends[1]));
  put = ::send(client.get(), sent.data() + part, sent.size() - part, MSG_NOSIGNAL);
  ::shutdown(client.get(), SHUT_WR);
  char answers[4096];
  const int flags = ::fcntl(client.get(), F_GETFL);
  BRAID_CHECK(::fcntl(client.get(), F_SETFL, flags & ~O_NONBLOCK) == 0);
  while (::recv(client.get(), answers, sizeof(answers), 0) > 0) {
  }
  return 0;
}
