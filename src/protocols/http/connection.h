// Connection: one client's socket, its parser and its present request. Internal to the HTTP server core.
//
// Who may touch what. A connection belongs to its io thread, with one exception: while a call runs (phase_ is
// kRunning), Respond() may come on any thread, and that thread alone uses `writer_` and writes to the
// socket. The io thread meanwhile only hears of events, which tell whether the client has gone or sends its
// next request already; it neither reads nor writes nor closes. So an answer that the socket takes whole costs
// no hand-over between threads: the responder sets phase_ to kOwned, and the io thread notices with the next
// input. When there is something to do for the io thread (the rest of a large answer, a close, input that has
// already come), the responder posts to it instead:
//
//   kOwned --RunCall (io)--> kRunning --input seen (io)--> kRunningInput
//   kRunning --answered (responder)--> kOwned
//   kRunning, kRunningInput --answered, io thread is needed (posted to io)--> kOwned
//
// Events are edges: each is told once (EventLoop). So the io thread remembers what it has heard and not worked
// off: `drained_` is false from when there may be input until a read has found no more.
//
// An answer in parts keeps the phase of a running call until its end. What the socket does not take of it
// waits in `writer_`, whose stream both threads may use: the io thread writes it when the socket is ready.
//
// The descriptor is closed by the io thread while it owns the connection, or with the last reference.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
                         public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<IoThread> io, ClientSocket socket, ConnectionLimits::Place place);

  // By the io thread.
  Status Start();
  // Whether the connection has been silent or slow for too long (the latter is counted), or (`draining`)
  // waits for a request that need not come.
  bool Expired(int64_t now_ns, bool draining) const;
  // REQUIRES: no call runs.
  void Close();
  // Whether an answer in parts has waited for its client to read for too long.
  bool Stalled(int64_t now_ns) const;
  // Works off input that was told of and is not: memory was short then, or its client was cut off.
  void GoOn();
  // Lets go of what an idle connection need not have.
  void ReleaseIdleMemory();
  // Closes, or cancels the call that runs and cuts the client off.
  void Abort();

  const HttpHead& head() const override { return chunked_head_ ? *chunked_head_ : parser_->get().base(); }
  std::optional<uint64_t> body_size() const override { return body_.size(); }
  std::string_view certificate_identity() const override { return socket_.certificate_identity(); }
  size_t io_thread() const override { return io_->index(); }
  void SetCancellation(std::shared_ptr<Cancellation> cancellation) override {
    cancellation_ = std::move(cancellation);
  }
  void Respond(HttpResponse response) override;
  void BeginStream(HttpResponse head) override;
  PartResult SendPart(std::string_view part) override;
  void EndStream() override;
  void RunAside(std::function<void()> task) override;

 private:
  enum class Phase : unsigned char { kOwned, kRunning, kRunningInput };
  using Stage = HttpStage;
  enum class Step : unsigned char {
    kMore,   // go on
    kInput,  // needs bytes
    kStop,   // nothing to do until a wait fires or a call answers; or closed
  };

  // Reads and acts until there is no more input. REQUIRES: phase_ is kOwned.
  void Pump();
  Step Advance();
  Step ReadHead();
  Step BeginRequest();
  Step ReadFront();
  Step ReadRest();
  Step ReadWhole();
  Step Discard();
  // Has the body shown to the call, on another thread for a large one; then comes `then`.
  using AfterFront = Step (Connection::*)(std::optional<HttpResponse> refused);
  template <class Show>
  Step Prepare(bool large, Show show, AfterFront then);
  Step AfterReadFront(std::optional<HttpResponse> refused);
  Step AfterWhole(std::optional<HttpResponse> refused);
  Step RunCall();
  // Answers before the body was read; what is left of it is thrown away, or the connection ends.
  Step AnswerEarly(HttpResponse response);
  Step Send();
  Step AfterSend();
  // Whether a client that sends much waits, so that others' requests end first; it is then looked at again.
  // Once for each request.
  bool HoldBack();
  ssize_t Receive();

  void OnEvents(uint32_t events) override;
  // There may be input.
  void OnReadable();
  void OnWritable();
  void OnAnswered(bool send_failed);
  // Gives the connection back to its io thread, after an answer.
  void HandBack(bool sent, bool failed, bool close);
  // Does a piece of the io thread's work. What it throws ends the present request with an error, or the
  // connection where no answer is possible any more.
  template <class Work>
  void DoGuarded(Work&& work) noexcept;
  // The answer could not be written down: the client is cut off instead.
  void CutOff() noexcept;
  // Writes what waits of an answer in parts whose call still runs.
  void FlushStream();
  // Whether all that has come is received, as far as can be seen.
  bool NothingMore();

  // Whether the connection waits for a request, of which nothing has come.
  bool idle() const { return clock_.stage() == Stage::kHead && input_.empty() && (!parser_ || head_done_); }
  ClientLimits& limits() const { return *io_->options().limits; }
  // Of an answer: what its Connection field says, if it has one.
  std::string_view ConnectionField(bool close) const {
    return close ? "close" : old_client_ ? "keep-alive" : "";
  }

  // Constant after construction.
  const std::shared_ptr<IoThread> io_;  // shared; see IoThread
  const ConnectionLimits::Place place_;
  ClientSocket socket_;

  std::atomic<Phase> phase_{Phase::kOwned};
  // Set with the first answer to the call that runs; what comes behind it is dropped.
  std::atomic<bool> answered_{false};
  StageClock clock_;  // the stage: of the io thread

  // Owned by the io thread, or by the responder while a call runs.
  ResponseWriter writer_{kMaxWaitingBytes};
  bool close_after_ = false;  // set before a call runs, constant meanwhile
  bool omit_body_ = false;    // the same
  bool old_client_ = false;   // the same: of HTTP/1.0, and has to be told that its connection stays

  // Owned by the io thread.
  bool closed_ = false;
  bool drained_ = true;
  bool client_ended_ = false;  // its last bytes may be there, and the end is behind them
  bool awaits_room_ = false;   // goes on when the socket is writable
  size_t asked_ = 0;           // how many bytes the last read had room for
  InputBuffer input_;
  std::optional<BodyReader::Parser> parser_;
  bool head_done_ = false;
  bool empty_line_ = false;  // one was skipped before the next head
  // What the head was before the body: the parser adds the fields behind it, which say nothing of the request.
  std::optional<HttpHead> chunked_head_;
  size_t head_bytes_ = 0;           // of the head, taken by the parser
  std::shared_ptr<HttpCall> call_;  // shared: it may be inside Respond() when the next request begins
  std::shared_ptr<Cancellation> cancellation_;  // shared with the request that runs
  bool expects_continue_ = false;
  BodyReader body_;
  std::optional<EventLoop::TimerKey> hold_timer_;
  int64_t held_since_ns_ = 0;  // 0: memory was not short since
};

}  // namespace braid
