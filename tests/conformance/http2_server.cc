// An HTTP/2 server on the transport of Braid's gRPC, for h2spec, whose requests are not gRPC: `http2_server
// PORT`, on the loopback interface, until SIGTERM. It answers each complete request with 200 and a body.
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "protocols/grpc/message.h"
#include "protocols/http2/session.h"
#include "protocols/net/listening_socket.h"

namespace braid {
namespace {

constexpr std::string_view kBody = "hello";
constexpr int kPauseMs = 20;

class Request final : public Http2Stream {
 public:
  Request(Http2Session& session, int32_t id) : session_(session), id_(id) {}

  void OnData(const Buffer&, std::string_view bytes) override { session_.Consume(id_, bytes.size()); }
  void OnEnd() override { ended_ = true; }
  void OnClosed(bool) override { closed_ = true; }
  // Returns true once the request needs no further answer.
  bool Answer() {
    if (closed_) return true;
    if (!ended_) return false;
    const Http2Field head[] = {{":status", "200"}};
    complete_ = true;
    session_.Respond(id_, head);
    return true;
  }
  size_t sendable() const override { return complete_ ? kBody.size() - sent_ : 0; }
  bool complete() const override { return complete_; }
  void Take(size_t bytes, OutgoingBytes& to) override {
    to.Append(kBody.substr(sent_, bytes));
    sent_ += bytes;
  }
  void AppendTrailers(boost::container::small_vector_base<Http2Field>& fields) override {
    fields.push_back({"x-end", "1"});
  }

 private:
  Http2Session& session_;
  const int32_t id_;
  bool ended_ = false;
  bool closed_ = false;
  bool complete_ = false;
  size_t sent_ = 0;
};

// One connection, on its own thread.
class Connection final : public Http2Session::Owner {
 public:
  explicit Connection(UniqueFd fd) : fd_(std::move(fd)) {}

  void Serve() {
    Buffer block = HeapBuffer(size_t{64} << 10);
    while (Flush()) {
      pollfd readable{fd_.get(), POLLIN, 0};
      // Responses wait until the client is silent. h2spec sends a valid request followed by an error, and
      // would take the response to the first for the response to the second.
      if (::poll(&readable, 1, requests_.empty() ? -1 : kPauseMs) == 0) {
        std::erase_if(requests_, [](const auto& request) { return request->Answer(); });
        continue;
      }
      const ssize_t got = ::recv(fd_.get(), block.mutable_data(), block.size(), 0);
      if (got <= 0) return;
      const auto* bytes = reinterpret_cast<const char*>(block.mutable_data());
      if (session_.Receive(block, {bytes, static_cast<size_t>(got)}).ok()) continue;
      Flush();
      break;
    }
    // Closing with unread bytes would reset the connection.
    ::shutdown(fd_.get(), SHUT_WR);
    while (::recv(fd_.get(), block.mutable_data(), block.size(), 0) > 0) {
    }
  }

 private:
  std::shared_ptr<Http2Stream> OnRequest(int32_t id, Http2Head, const Status&) override {
    return requests_.emplace_back(std::make_shared<Request>(session_, id));
  }
  // False when the connection has ended.
  bool Flush() {
    OutgoingBytes outgoing;
    if (!session_.Stage(outgoing, size_t{1} << 20).ok()) return false;
    while (!outgoing.empty()) {
      std::array<iovec, 64> pieces;
      const size_t count = outgoing.Gather(pieces);
      const ssize_t sent = ::writev(fd_.get(), pieces.data(), static_cast<int>(count));
      if (sent < 0) return false;
      outgoing.Consume(static_cast<size_t>(sent));
    }
    return !session_.over();
  }

  const UniqueFd fd_;
  Http2Session session_{*this, {}};
  std::vector<std::shared_ptr<Request>> requests_;  // waiting for an answer
};

Status Serve(uint16_t port) {
  BRAID_ASSIGN_OR_RETURN(const std::vector<ListeningSocket> sockets, ListenOn("127.0.0.1", port, false));
  const UniqueFd& listening = sockets.front().fd;
  std::printf("listening: %d\n", PortOf(sockets));
  std::fflush(stdout);
  while (true) {
    pollfd readable{listening.get(), POLLIN, 0};
    ::poll(&readable, 1, -1);
    UniqueFd client(::accept(listening.get(), nullptr, nullptr));
    if (!client.valid()) continue;
    std::thread([connection = std::make_shared<Connection>(std::move(client))] {
      connection->Serve();
    }).detach();
  }
}

}  // namespace
}  // namespace braid

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: http2_server PORT\n");
    return 64;
  }
  const braid::Status served = braid::Serve(static_cast<uint16_t>(std::atoi(arguments[1])));
  std::fprintf(stderr, "%s\n", served.message().c_str());
  return 1;
}
