// The interface between the HTTP server core and the protocols that answer requests.
//
// The life of a request: the core reads the headers and asks the service (HttpService::OnRequest), which
// answers at once or returns an HttpCall. The core passes the front of the body to the call, which returns
// the memory for the rest. The core reads the rest from the socket straight into that memory, and starts the
// call (OnBody). From then on the call owns the exchange until it answers, on any thread: with
// HttpExchange::Respond(), or in parts with BeginStream(), SendPart() and EndStream().
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
  // The size of the body if the headers announce it; nullopt for chunked and for compressed bodies.
  virtual std::optional<uint64_t> body_size() const = 0;
  // See ClientSocket. Valid as long as this object.
  virtual std::string_view certificate_identity() const = 0;
  virtual bool over_unix_socket() const = 0;
  // The index of the connection's io thread, from 0. The core makes all its calls on that thread.
  virtual size_t io_thread() const = 0;

  // Sets an object that is cancelled if the client goes away before the response. Call it only in
  // HttpCall::OnBody().
  virtual void SetCancellation(std::shared_ptr<Cancellation> cancellation) = 0;

  // Answers the request. Call it exactly once, after HttpCall::OnBody() was called, on any thread. Writes to
  // the socket as much as it takes at once, and does not block. The call may be destroyed before this
  // returns. Does not throw.
  virtual void Respond(HttpResponse response) = 0;

  // Answer the request with a body in parts, instead of Respond(): one BeginStream(), any number of
  // SendPart(), one EndStream(), never two at the same time. The rules of Respond() apply. `head` has status
  // and headers but no body; it leaves with the first part or with the end. These functions do not throw.
  virtual void BeginStream(HttpResponse head) = 0;
  enum class PartResult : unsigned char {
    kTaken,
    kGone,  // the client has gone; nothing reaches it any more
    kFull,  // the client does not read; the connection is closed
  };
  // Writes at once as much as the socket takes. The rest waits in memory and leaves as the client reads. A
  // part of any size is taken while at most kMaxWaitingBytes wait.
  virtual PartResult SendPart(std::string_view part) = 0;
  virtual void EndStream() = 0;
  static constexpr size_t kMaxWaitingBytes = size_t{64} << 20;

  // Runs `task` on another thread. Drops it if the server has stopped. For long work, which would delay io
  // threads or the thread that brings results.
  virtual void RunAside(std::function<void()> task) = 0;
  // Runs `task` on the exchange's io thread. Drops it if the server has stopped. The task must not throw.
  virtual void RunOnIoThread(std::function<void()> task) = 0;
};

// The handler of one request whose body is read. The core calls these functions in the order below, on the io
// thread. A large front is passed on another thread, so that other requests need not wait.
class HttpCall {
 public:
  static constexpr size_t kLargeFront = size_t{256} << 10;
  static constexpr size_t kWholeBody = std::numeric_limits<size_t>::max();
  // Readable bytes with undefined values that follow the front.
  static constexpr size_t kFrontPadding = 64;

  virtual ~HttpCall() = default;

  // Returns how many bytes at the start of the body the call needs in one piece. A body may be shorter.
  virtual size_t front_bytes() const { return kWholeBody; }

  // Receives the front, which `rest` bytes follow. `front` is valid until this returns. Either fills
  // `destinations`, or returns the response to the request. The sizes of `destinations` sum up to `rest`.
  // They stay valid until OnBody(), or until the call is destroyed.
  virtual std::optional<HttpResponse> OnFront(std::string_view front, size_t rest,
                                              std::vector<std::span<std::byte>>& destinations) = 0;

  // The whole body has arrived. The call responds now or later. An exception becomes the response unless the
  // call has responded.
  virtual void OnBody() = 0;
};

// Answers the requests of all connections of a listener, which it outlives. Several io threads may call it at
// the same time.
class HttpService {
 public:
  virtual ~HttpService() = default;

  // Answers a request whose headers are complete. The core owns the call from here on, until after its
  // response.
  using Answer =
      // Shared because a call may still be inside Respond().
      std::variant<HttpResponse, std::shared_ptr<HttpCall>>;
  virtual Answer OnRequest(const std::shared_ptr<HttpExchange>& exchange) = 0;

  // Gives an error from before a call owns its exchange the form of the request's protocol: one of the core's
  // own, such as 413, or a refusal. The default changes nothing.
  virtual HttpResponse Shape(const HttpHead&, HttpResponse refusal) { return refusal; }
};

// Calls `handle` with the whole body once it has arrived. For requests with small bodies.
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
    // The call may be destroyed inside `handle`, so its members are moved out first.
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
