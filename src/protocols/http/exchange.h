// The border between the HTTP server core and the protocols that answer requests.
//
// The life of a request: the core reads the headers and asks the service (HttpService::OnRequest), which
// answers at once or names an HttpCall. The call is shown the front of the body and says where the rest of it
// goes; the core reads the rest from the socket straight to there, and starts the call (OnBody). From then on
// the call has the connection until it answers, from any thread: with HttpExchange::Respond(), or in parts
// with BeginStream(), SendPart() and EndStream().
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "protocols/http/message.h"
#include "serving/cancellation.h"

namespace braid {

// One request on one connection, as its call sees it. Made by the core.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // Valid until the request is answered.
  virtual const HttpHead& head() const = 0;
  // Size of the body when the headers tell it; nothing for chunked and for compressed bodies.
  virtual std::optional<uint64_t> body_size() const = 0;
  // See ClientSocket; valid as long as this object.
  virtual std::string_view certificate_identity() const = 0;
  // Which of the server's io threads this connection belongs to, from 0. All calls of the core come on that
  // thread.
  virtual size_t io_thread() const = 0;

  // Is cancelled when the client goes away before the answer. Only in HttpCall::OnBody().
  virtual void SetCancellation(std::shared_ptr<Cancellation> cancellation) = 0;

  // Answers the request: exactly once, after HttpCall::OnBody() has been called, on any thread. Writes to the
  // socket from the calling thread as much as the socket takes at once, and does not block. The call may be
  // gone when this returns. Does not throw.
  virtual void Respond(HttpResponse response) = 0;

  // Answers the request with a body that comes in parts, instead of Respond() and under its rules: once
  // BeginStream(), any number of SendPart(), once EndStream(); never two at the same time. Status and headers
  // are taken from `head`, which has no body, and leave with the first part or with the end. None throws.
  virtual void BeginStream(HttpResponse head) = 0;
  enum class PartResult : unsigned char {
    kTaken,
    kGone,  // the client has gone; nothing that is sent will reach it
    kFull,  // the client does not read: the connection is cut
  };
  // Writes at once what the socket takes; the rest waits in memory and leaves as the client reads. A part is
  // taken while at most kMaxWaitingBytes wait, however large it is itself.
  virtual PartResult SendPart(std::string_view part) = 0;
  virtual void EndStream() = 0;
  static constexpr size_t kMaxWaitingBytes = size_t{64} << 20;

  // Runs `task` on another thread; drops it when the server has stopped. For work that takes long, so that it
  // does not hold up the thread that brings results, or the io threads.
  virtual void RunAside(std::function<void()> task) = 0;
};

// What becomes of one request whose body is read. The functions are called in the order below, on the io
// thread; OnFront() for a large front on another one, so that others' requests need not wait for it.
class HttpCall {
 public:
  static constexpr size_t kLargeFront = size_t{256} << 10;
  static constexpr size_t kWholeBody = std::numeric_limits<size_t>::max();
  // Readable bytes, of any value, behind the front.
  static constexpr size_t kFrontPadding = 64;

  virtual ~HttpCall() = default;

  // How many bytes at the start of the body the call needs in one piece. A body may be shorter.
  virtual size_t front_bytes() const { return kWholeBody; }

  // The front has arrived; `rest` bytes follow it. `front` is valid until this returns. Either fills
  // `destinations`, whose sizes sum to `rest` and which stay valid until OnBody() (or until the call is
  // destroyed), or answers the request here.
  virtual std::optional<HttpResponse> OnFront(std::string_view front, size_t rest,
                                              std::vector<std::span<std::byte>>& destinations) = 0;

  // The whole body is there. The call now answers, now or later. What it throws becomes the answer, unless
  // there is one.
  virtual void OnBody() = 0;
};

// Answers requests of all connections of a listener. Called by its io threads, several at once. Outlives the
// listener.
class HttpService {
 public:
  virtual ~HttpService() = default;

  // The headers are complete. The core owns the call from here on, until after its answer.
  using Answer =
      std::variant<HttpResponse, std::shared_ptr<HttpCall>>;  // shared: a call may still be inside Respond()
  virtual Answer OnRequest(const std::shared_ptr<HttpExchange>& exchange) = 0;
};

// Calls `handle` with the whole body, once it is there. For requests whose bodies are small.
class WholeBodyCall final : public HttpCall {
 public:
  using Handler = std::function<void(const std::shared_ptr<HttpExchange>&, std::string body)>;
  WholeBodyCall(std::shared_ptr<HttpExchange> exchange, Handler handle)
      : exchange_(std::move(exchange)), handle_(std::move(handle)) {}

  std::optional<HttpResponse> OnFront(std::string_view front, size_t,
                                      std::vector<std::span<std::byte>>&) override {
    body_ = front;
    return std::nullopt;
  }
  void OnBody() override {
    // The call may be destroyed inside: what is needed is moved out first.
    std::shared_ptr<HttpExchange> exchange = std::move(exchange_);
    Handler handle = std::move(handle_);
    handle(exchange, std::move(body_));
  }

 private:
  std::shared_ptr<HttpExchange> exchange_;
  Handler handle_;
  std::string body_;
};

}  // namespace braid
