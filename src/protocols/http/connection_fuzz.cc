// Fuzzes the bytes that a client sends on an HTTP/1.1 connection before it ends its side.
#include <sys/socket.h>

#include "base/check.h"
#include "base/testing/fuzz_input.h"
#include "protocols/http/connection.h"
#include "protocols/http/io_thread.h"

namespace braid {
namespace {

// /split reads its body after the first 4 bytes into two buffers. Other paths echo the body.
class Service final : public HttpService {
 public:
  Answer OnRequest(const std::shared_ptr<HttpExchange>& exchange) override {
    if (ToStd(exchange->head().target()) == "/split") return std::make_shared<Split>(exchange);
    if (ToStd(exchange->head().target()) == "/refuse") return ErrorResponse(403, "no");
    return std::make_shared<WholeBodyCall>(exchange, [](const auto& to, std::string body) {
      HttpResponse response;
      response.body = std::move(body);
      to->Respond(std::move(response));
    });
  }

 private:
  class Split final : public HttpCall {
   public:
    explicit Split(std::shared_ptr<HttpExchange> exchange) : exchange_(std::move(exchange)) {}
    size_t front_bytes() const override { return 4; }
    std::optional<HttpResponse> OnFront(std::string_view, size_t rest,
                                        std::vector<std::span<std::byte>>& destinations) override {
      first_.resize(rest / 2);
      second_.resize(rest - rest / 2);
      destinations = {first_, second_};
      return std::nullopt;
    }
    void OnBody() override {
      const auto exchange = std::move(exchange_);
      exchange->Respond(HttpResponse());
    }

   private:
    std::shared_ptr<HttpExchange> exchange_;
    std::vector<std::byte> first_, second_;
  };
};

// One server thread for all inputs.
class Server {
 public:
  Server() {
    options_.limits = std::make_shared<ClientLimits>();
    options_.max_body_bytes = 1 << 20;
    thread_ = IoThread::Create(0, options_, service_, connections_).value();
    thread_->Start();
  }
  void Adopt(UniqueFd fd) {
    const auto socket = std::make_shared<AcceptedSocket>(AcceptedSocket{std::move(fd), {}});
    BRAID_CHECK(thread_->Post([this, socket] { thread_->Adopt(std::move(*socket)); }));
  }

 private:
  Service service_;
  HttpListenerOptions options_;
  std::atomic<size_t> connections_{0};
  std::shared_ptr<IoThread> thread_;
};

}  // namespace
}  // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  static auto* const server = new Server();  // never destroyed
  FuzzInput input(data, size);
  const size_t first = input.Number(0, 4096);
  const std::string_view sent = input.rest();
  int ends[2];
  BRAID_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd client(ends[0]);
  const int room = 1 << 20;
  ::setsockopt(client.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
  const size_t part = std::min(first, sent.size());
  [[maybe_unused]] ssize_t put = ::send(client.get(), sent.data(), part, MSG_NOSIGNAL | MSG_DONTWAIT);
  server->Adopt(UniqueFd(ends[1]));
  put = ::send(client.get(), sent.data() + part, sent.size() - part, MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(client.get(), SHUT_WR);
  char answers[4096];
  while (::recv(client.get(), answers, sizeof(answers), 0) > 0) {
  }
  return 0;
}
