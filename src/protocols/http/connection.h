// Connection: one client's socket with its parser and its current request. Internal to the HTTP server core.
//
// Threads. A connection belongs to its io thread, with one exception. While a call runs (phase_ is kRunning),
// Respond() may come on any thread. That thread alone then uses `writer_` and writes to the socket. The io
// thread meanwhile only receives events, which report that the client has gone or sends its next request. It
// neither reads nor writes nor closes. So a response that fits the socket needs no switch of threads: the
// responder sets phase_ to kOwned, and the io thread notices with the next input. The io thread may have work
// left: the rest of a large response, a close, or input that has already arrived. Then the responder posts to
// it instead:
//
//   kOwned --RunCall (io)--> kRunning --input seen (io)--> kRunningInput
//   kRunning --answered (responder)--> kOwned
//   kRunning, kRunningInput --answered, io thread is needed (posted to io)--> kOwned
//
// Events are edge-triggered: each is reported once (EventLoop). So the io thread remembers events that it has
// not handled: `drained_` is false from a possible input until a read finds no more.
//
// A response in parts keeps the phase of a running call until its end. Bytes that the socket does not take
// wait in `writer_`. Both threads may use its stream: the io thread writes it when the socket is ready.
//
// The io thread closes the descriptor while it owns the connection. Otherwise the last reference closes it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/batch.h"
#include "protocols/http/body_reader.h"
#include "protocols/http/exchange.h"
#include "protocols/http/input_buffer.h"
#include "protocols/http/io_thread.h"
#include "protocols/http/response_writer.h"
#include "protocols/http/stage_clock.h"
#include "protocols/net/client_socket.h"
#include "protocols/net/connection_limits.h"

namespace braid {

class Connection final : public HttpExchange,
                         public EventLoop::Watcher,
                         public Batch::Work,
                         public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<IoThread> io, ClientSocket socket, ConnectionLimits::Place place,
             bool over_unix_socket);

  // Starts to watch the socket. Call on the io thread.
  Status Start();
  // Whether to close the connection: it was silent or slow for too long, or it is idle while the server
  // drains (`draining`). A slow body counts as a refusal.
  bool Expired(int64_t now_ns, bool draining) const;
  // REQUIRES: no call runs.
  void Close();
  // Whether the client has not read a response in parts for too long.
  bool Stalled(int64_t now_ns) const;
  // Handles input whose event was not handled, because memory was short or the client was disconnected.
  void GoOn();
  // Frees the memory that an idle connection does not need.
  void ReleaseIdleMemory();
  // Closes the connection, or cancels the running call and disconnects the client.
  void Abort();

  const HttpHead& head() const override { return chunked_head_ ? *chunked_head_ : parser_->get().base(); }
  std::optional<uint64_t> body_size() const override { return body_.size(); }
  std::string_view certificate_identity() const override { return socket_.certificate_identity(); }
  bool over_unix_socket() const override { return over_unix_socket_; }
  size_t io_thread() const override { return io_->index(); }
  void SetCancellation(std::shared_ptr<Cancellation> cancellation) override {
    cancellation_ = std::move(cancellation);
  }
  void Respond(HttpResponse response) override;
  void BeginStream(HttpResponse head) override;
  PartResult SendPart(std::string_view part) override;
  void EndStream() override;
  void RunAside(std::function<void()> task) override;
  void RunOnIoThread(std::function<void()> task) override { io_->Post(std::move(task)); }

 private:
  enum class Phase : unsigned char { kOwned, kRunning, kRunningInput };
  using Stage = HttpStage;
  enum class Step : unsigned char {
    kMore,   // continue with the next step
    kInput,  // needs input
    kStop,   // waits for an event or a call, or is closed
  };

  // Reads and acts until no input is left. REQUIRES: phase_ is kOwned.
  void Pump();
  Step Advance();
  Step ReadHead();
  Step BeginRequest();
  Step ReadFront();
  Step ReadRest();
  Step ReadWhole();
  Step Discard();
  // Passes the body to the call, on another thread if it is large. Then continues with `then`.
  using AfterFront = Step (Connection::*)(std::optional<HttpResponse> refused);
  using Offer = void (*)(Connection&, HttpCall&, BodyReader::Decision&);
  Step Prepare(bool large, Offer offer, AfterFront then);
  Step AfterReadFront(std::optional<HttpResponse> refused);
  Step AfterWhole(std::optional<HttpResponse> refused);
  Step RunCall();
  // Responds before the body was read. Discards the rest of the body, or closes the connection.
  Step AnswerEarly(HttpResponse response);
  Step Send();
  Step AfterSend();
  // Whether to delay a client that sends a large body while memory is short, so that other requests finish
  // first. A timer then continues. Each request is delayed at most once.
  bool HoldBack();
  ssize_t Receive();

  void OnEvents(uint32_t events) override;
  // Handles possible input.
  void OnReadable();
  void OnWritable();
  void OnAnswered(bool send_failed);
  // Sends the response of the running call, on the thread that responded.
  void SendResponse();
  void AtEnd() noexcept override;
  // Returns the connection to its io thread after a response.
  void HandBack(bool sent, bool failed, bool close);
  // Runs a step of the io thread's work. An exception ends the current request with an error, or the
  // connection if no response is possible any more.
  template <class Action>
  void DoGuarded(Action&& action) noexcept;
  // Disconnects the client because its response could not be written.
  void CutOff() noexcept;
  // Writes pending bytes of a response in parts whose call still runs.
  void FlushStream();
  // Whether all input was received, as far as is visible without reading.
  bool NothingMore();

  // Whether the connection waits for a request and has received no part of it.
  bool idle() const { return clock_.stage() == Stage::kHead && input_.empty() && (!parser_ || head_done_); }
  ClientLimits& limits() const { return *io_->options().limits; }
  // The value of the response's Connection field; "" for none.
  std::string_view ConnectionField(bool close) const {
    return close ? "close" : old_client_ ? "keep-alive" : "";
  }

  // Constant after construction.
  const std::shared_ptr<IoThread> io_;  // shared; see IoThread
  const ConnectionLimits::Place place_;
  const bool over_unix_socket_;
  ClientSocket socket_;

  std::atomic<Phase> phase_{Phase::kOwned};
  // Set by the first response to the running call. Later ones are dropped.
  std::atomic<bool> answered_{false};
  bool close_response_ = false;  // set by Respond()
  StageClock clock_;             // the io thread alone changes its stage

  // Owned by the io thread, or by the responder while a call runs.
  ResponseWriter writer_{kMaxWaitingBytes};
  bool close_after_ = false;  // set before a call runs, constant meanwhile
  bool omit_body_ = false;    // likewise
  bool old_client_ = false;   // likewise: HTTP/1.0, whose clients must be told that the connection stays open

  // Owned by the io thread.
  bool closed_ = false;
  bool drained_ = true;
  bool client_ended_ = false;  // unread bytes and the end may be left
  bool awaits_room_ = false;   // continues when the socket is writable
  size_t asked_ = 0;           // the size of the last read's buffer
  InputBuffer input_;
  std::optional<BodyReader::Parser> parser_;
  bool head_done_ = false;
  bool empty_line_ = false;  // a line end was skipped before the next head
  // A copy of the head. The parser adds the trailer fields of a chunked body, which do not belong to the
  // request.
  std::optional<HttpHead> chunked_head_;
  size_t head_bytes_ = 0;  // bytes of the head that the parser has taken
  // Shared because it may still be inside Respond() when the next request begins.
  std::shared_ptr<HttpCall> call_;
  std::shared_ptr<Cancellation> cancellation_;  // shared with the running request
  bool expects_continue_ = false;
  BodyReader body_;
  std::optional<EventLoop::TimerKey> hold_timer_;
  int64_t held_since_ns_ = 0;  // when the request began to wait for memory; 0: it does not
};

}  // namespace braid
