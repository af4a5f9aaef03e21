// Connection: one client's socket, its parser and its present request. Internal to the HTTP server core.
//
// Who may touch what. A connection belongs to its io thread, with one exception: while a call runs (phase_ is
// kRunning), Respond() may come on any thread, and that thread alone uses `outgoing_` and writes to the
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
// waits in `stream_output_`, which both threads may use: the io thread writes it when the socket is ready.
//
// The descriptor is closed by the io thread while it owns the connection, or with the last reference.
#pragma once

#include <atomic>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory_use.h"
#include "protocols/http/exchange.h"
#include "protocols/http/io_thread.h"
#include "protocols/http/outgoing.h"
#include "protocols/http/stream_output.h"
#include "protocols/net/client_socket.h"
#include "protocols/net/compression.h"
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
  std::optional<uint64_t> body_size() const override;
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
  using Parser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;
  enum class Phase : unsigned char { kOwned, kRunning, kRunningInput };
  // What the io thread does with input.
  enum class Stage : unsigned char {
    kHead,     // reads headers, or waits for them
    kFront,    // gathers the front of a plain body of known size
    kRest,     // reads the rest of it to its destinations
    kWhole,    // gathers a chunked or compressed body
    kShown,    // the call is shown a large front, on another thread
    kWriting,  // writes an answer that the socket did not take at once; input waits
    kDiscard,  // throws away the body of a request that was answered early
    kLinger,   // has said its last word and waits for the client to hang up
  };
  enum class Step : unsigned char {
    kMore,   // go on
    kInput,  // needs bytes
    kStop,   // nothing to do until a wait fires or a call answers; or closed
  };

  // Ends the parse of a body in too many chunks, or with too much said beside them.
  struct ChunkCounter {
    size_t chunks = 0;
    size_t limit = 0;
    size_t extension_bytes = 0;
    size_t extension_limit = 0;
    void operator()(uint64_t, boost::core::string_view extensions, boost::system::error_code& error) {
      extension_bytes += extensions.size();
      if (++chunks > limit) error = boost::beast::http::error::body_limit;
      if (extension_bytes > extension_limit) error = boost::beast::http::error::header_limit;
    }
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
  Step TakeWhole();
  // What comes of showing the call the front.
  struct Shown {
    std::optional<HttpResponse> refused;
    std::vector<std::span<std::byte>> destinations;
    MemoryCharge whole;
  };
  // Does work(call, shown), on another thread for a large body; then comes `then`.
  using AfterFront = Step (Connection::*)(std::optional<HttpResponse> refused);
  void Show(HttpCall& call, std::string_view front, size_t rest, Shown& shown) const;
  template <class Work>
  Step Prepare(bool large, Work work, AfterFront then);
  Step AfterReadFront(std::optional<HttpResponse> refused);
  Step AfterWhole(std::optional<HttpResponse> refused);
  Step RunCall();
  Status Gather(std::string_view bytes);
  // Why a compressed body is refused, if it is.
  std::optional<HttpResponse> Inflate(Shown& shown);
  // Answers before the body was read; what is left of it is thrown away, or the connection ends.
  Step AnswerEarly(HttpResponse response);
  HttpResponse TooLarge(std::optional<uint64_t> size) const;
  HttpResponse TooManyFields() const;
  Step Send();
  Step AfterSend();
  // Whether a client that sends much waits, so that others' requests end first; it is then looked at again.
  // Once for each request.
  bool HoldBack();
  // Counts what there is of the body. Errors: it is not to be read further.
  Status ChargeBody();
  ssize_t Receive();
  ssize_t ReceiveToBuffer();
  ssize_t ReceiveToDestinations();

  void OnEvents(uint32_t events) override;
  // There may be input.
  void OnReadable();
  void OnWritable();
  void OnAnswered();
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

  size_t buffered() const { return buffer_end_ - buffer_begin_; }
  // Whether the connection waits for a request, of which nothing has come.
  bool idle() const { return stage_ == Stage::kHead && buffered() == 0 && (!parser_ || head_done_); }
  bool reads_body() const {
    return stage_ == Stage::kFront || stage_ == Stage::kRest || stage_ == Stage::kWhole;
  }
  ClientLimits& limits() const { return *io_->options().limits; }
  size_t HeaderFields() const;
  // Of an answer: what its Connection field says, if it has one.
  std::string_view ConnectionField(bool close) const {
    return close ? "close" : old_client_ ? "keep-alive" : "";
  }
  std::string_view BufferedText() const { return {buffer_.get() + buffer_begin_, buffered()}; }
  void Consume(size_t bytes);
  void SetStage(Stage stage);

  // Constant after construction.
  const std::shared_ptr<IoThread> io_;  // shared; see IoThread
  const ConnectionLimits::Place place_;
  ClientSocket socket_;

  std::atomic<Phase> phase_{Phase::kOwned};
  // Set with the first answer to the call that runs; what comes behind it is dropped.
  std::atomic<bool> answered_{false};
  // When something last happened; written by whoever owns the connection.
  std::atomic<int64_t> last_active_ns_;
  StreamOutput stream_output_{kMaxWaitingBytes};

  // Owned by the io thread, or by the responder while a call runs.
  Outgoing outgoing_;
  bool streaming_ = false;     // the answer comes in parts
  bool stream_close_ = false;  // and the connection ends with it
  bool close_after_ = false;   // set before a call runs, constant meanwhile
  bool omit_body_ = false;     // the same
  bool old_client_ = false;    // the same: of HTTP/1.0, and has to be told that its connection stays

  // Owned by the io thread.
  bool closed_ = false;
  bool drained_ = true;
  bool client_ended_ = false;  // its last bytes may be there, and the end is behind them
  bool awaits_room_ = false;   // goes on when the socket is writable
  size_t asked_ = 0;           // how many bytes the last read had room for
  bool send_failed_ = false;
  Stage stage_ = Stage::kHead;
  std::unique_ptr<char[]> buffer_;  // kBufferBytes and padding; made with the first input
  size_t buffer_begin_ = 0;
  size_t buffer_end_ = 0;
  std::optional<Parser> parser_;
  bool head_done_ = false;
  bool empty_line_ = false;  // one was skipped before the next head
  // What the head was before the body: the parser adds the fields behind it, which say nothing of the request.
  std::optional<HttpHead> chunked_head_;
  size_t head_bytes_ = 0;           // of the head, taken by the parser
  std::shared_ptr<HttpCall> call_;  // shared: it may be inside Respond() when the next request begins
  std::shared_ptr<Cancellation> cancellation_;  // shared with the request that runs
  bool chunked_ = false;
  ContentCoding coding_ = ContentCoding::kIdentity;
  bool expects_continue_ = false;
  uint64_t body_left_ = 0;  // of a body of known size: not yet taken
  ChunkCounter chunk_counter_;
  size_t front_size_ = 0;
  std::unique_ptr<char[]> front_;  // a front that does not fit the buffer
  size_t front_have_ = 0;
  std::vector<std::span<std::byte>> destinations_;
  size_t destination_ = 0;
  size_t destination_have_ = 0;
  std::string whole_;
  uint64_t progress_ = 0;  // bytes of the body since last_active_ns_ was set
  MemoryCharge buffer_charge_;
  MemoryCharge body_charge_;
  std::optional<EventLoop::TimerKey> hold_timer_;
  int64_t held_since_ns_ = 0;  // 0: memory was not short since
};

}  // namespace braid
