#include "protocols/http/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>

#include "base/check.h"
#include "base/clock.h"
#include "base/guard.h"

namespace braid {
namespace {

namespace http = boost::beast::http;

constexpr size_t kBufferBytes = size_t{64} * 1024;
// Input that one connection may take before others of its thread get their turn.
constexpr size_t kTurnBytes = size_t{1} << 20;
// A refused body up to this size is read and thrown away, which keeps the connection.
constexpr uint64_t kMaxDiscardBytes = uint64_t{256} << 20;
// A slow body gets its time anew with each of these.
constexpr uint64_t kProgressBytes = uint64_t{64} * 1024;
constexpr size_t kMaxVectors = 16;
// What simdjson may need to read a byte of JSON: 8 for its tape, 4 for its index, and the text of strings.
constexpr size_t kParsedBytes = 13;
// A compressed body up to this size is inflated on the I/O thread: it becomes 1 MiB at most.
constexpr size_t kInflatedHere = 1024;

}  // namespace

Connection::Connection(std::shared_ptr<IoThread> io, ClientSocket socket, ConnectionLimits::Place place)
    : io_(std::move(io)),
      place_(std::move(place)),
      socket_(std::move(socket)),
      last_active_ns_(SteadyNowNs()) {}

Status Connection::Start() {
  return io_->loop().Watch(socket_.fd(), EPOLLIN | EPOLLOUT | EPOLLRDHUP, shared_from_this());
}

std::optional<uint64_t> Connection::body_size() const {
  if (chunked_ || coding_ != ContentCoding::kIdentity) return std::nullopt;
  return parser_->content_length().value_or(0);
}

bool Connection::Expired(int64_t now_ns, bool draining) const {
  if (phase_.load(std::memory_order_acquire) != Phase::kOwned) return false;
  const HttpListenerOptions& options = io_->options();
  std::chrono::nanoseconds limit{};
  switch (stage_) {
    case Stage::kHead:
      if (idle() && draining) return true;
      limit = idle() && socket_.handshake_done() ? options.idle_timeout : options.header_timeout;
      break;
    case Stage::kFront:
    case Stage::kRest:
    case Stage::kWhole:
      limit = options.body_timeout;
      break;
    case Stage::kShown:
      limit = options.idle_timeout;
      break;
    case Stage::kWriting:
      limit = options.write_timeout;
      break;
    case Stage::kDiscard:
    case Stage::kLinger:
      limit = options.linger_timeout;
      break;
  }
  const bool expired = now_ns - last_active_ns_.load(std::memory_order_relaxed) > limit.count();
  if (expired && reads_body()) limits().refusals.Count(Limit::kBodyTime, "a body comes too slowly");
  return expired;
}

void Connection::Close() {
  if (closed_) return;
  closed_ = true;
  io_->loop().Unwatch(socket_.fd());
  socket_.Close();
  if (hold_timer_) io_->loop().Withdraw(*hold_timer_);
  call_.reset();
  cancellation_.reset();
  outgoing_.Clear();
  destinations_.clear();
  body_charge_.Set(0);
  io_->Forget(shared_from_this());
}

bool Connection::Stalled(int64_t now_ns) const {
  if (phase_.load(std::memory_order_acquire) == Phase::kOwned || !awaits_room_) return false;
  const std::chrono::nanoseconds limit = io_->options().write_timeout;
  return now_ns - last_active_ns_.load(std::memory_order_relaxed) > limit.count();
}

void Connection::Abort() {
  if (closed_) return;
  if (phase_.load(std::memory_order_acquire) == Phase::kOwned) {
    Close();
    return;
  }
  // The descriptor stays open until the answer has come: another thread may be writing to it.
  closed_ = true;
  ::shutdown(socket_.fd(), SHUT_RDWR);
  stream_output_.Abandon();
  io_->loop().Unwatch(socket_.fd());
  if (hold_timer_) io_->loop().Withdraw(*hold_timer_);
  auto self = shared_from_this();
  if (auto cancellation = cancellation_) cancellation->Cancel();
  io_->Forget(self);
}

void Connection::SetStage(Stage stage) {
  stage_ = stage;
  progress_ = 0;
  last_active_ns_.store(SteadyNowNs(), std::memory_order_relaxed);
}

void Connection::Consume(size_t bytes) {
  buffer_begin_ += bytes;
  if (buffer_begin_ == buffer_end_) buffer_begin_ = buffer_end_ = 0;
}

// ---- The io thread's events ----

void Connection::OnEvents(uint32_t events) {
  constexpr uint32_t kEnded = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
  if (closed_) return;
  if ((events & kEnded) != 0) client_ended_ = true;
  if ((events & (EPOLLIN | kEnded)) != 0) drained_ = false;
  DoGuarded([&] {
    if ((events & EPOLLOUT) != 0 && std::exchange(awaits_room_, false)) OnWritable();
    if (!closed_ && !drained_) OnReadable();
  });
}

void Connection::GoOn() {
  if (drained_ || closed_ || phase_.load(std::memory_order_acquire) != Phase::kOwned) return;
  DoGuarded([&] { OnReadable(); });
}

bool Connection::NothingMore() {
  if (!drained_ && !client_ended_ && !socket_.has_pending()) {
    drained_ = socket_.Look() == ClientSocket::Sight::kNothing;
  }
  return drained_;
}

template <class Work>
void Connection::DoGuarded(Work&& work) noexcept {
  const Status fault = Guarded(std::forward<Work>(work));
  if (fault.ok() || closed_) return;
  GuardedOrReport("HTTP connection", [&] {
    // A call that runs answers by itself.
    if (phase_.load(std::memory_order_acquire) != Phase::kOwned) return;
    const bool can_answer = stage_ == Stage::kHead || stage_ == Stage::kFront || stage_ == Stage::kRest ||
                            stage_ == Stage::kWhole;
    if (can_answer && head_done_) {
      close_after_ = true;
      const Status answered = Guarded([&] {
        if (AnswerEarly(ErrorResponse(fault)) == Step::kMore) Pump();
      });
      if (answered.ok()) return;
    }
    Close();
  });
}

void Connection::OnReadable() {
  if (phase_.load(std::memory_order_acquire) == Phase::kOwned) {
    Pump();
    return;
  }
  if (client_ended_) {
    if (auto cancellation = cancellation_) cancellation->Cancel();
  }
  // The event may be of what was read with the request.
  if (NothingMore()) return;
  Phase expected = Phase::kRunning;
  if (!phase_.compare_exchange_strong(expected, Phase::kRunningInput, std::memory_order_acq_rel) &&
      expected == Phase::kOwned) {
    Pump();
  }
}

void Connection::OnWritable() {
  if (phase_.load(std::memory_order_acquire) != Phase::kOwned) {
    FlushStream();
    return;
  }
  if (stage_ != Stage::kWriting) {
    // What waited may have left with the end of its answer.
    if (socket_.receive_needs_write()) Pump();
    return;
  }
  SetStage(stage_);
  if (Send() == Step::kMore) Pump();
}

// ---- Answers ----

void Connection::Respond(HttpResponse response) {
  if (answered_.exchange(true, std::memory_order_acq_rel)) return;
  const bool close = close_after_ || io_->draining();
  const Status written = Guarded([&] {
    outgoing_.Set(std::move(response), ConnectionField(close), omit_body_);
    const Outgoing::Progress progress = outgoing_.Send(socket_);
    const bool sent = progress == Outgoing::Progress::kDone;
    if (sent && !close) outgoing_.Clear();
    HandBack(sent, progress == Outgoing::Progress::kFailed, close);
  });
  if (!written.ok()) CutOff();
}

void Connection::CutOff() noexcept {
  // The io thread closes when it hears of this: by an event, or in its sweep.
  ::shutdown(socket_.fd(), SHUT_RDWR);
  outgoing_.Clear();
  phase_.store(Phase::kOwned, std::memory_order_release);
}

void Connection::HandBack(bool sent, bool failed, bool close) {
  auto self = shared_from_this();  // after the exchange below the io thread may let go of the connection
  last_active_ns_.store(SteadyNowNs(), std::memory_order_relaxed);
  if (sent && !close) {
    Phase expected = Phase::kRunning;
    if (phase_.compare_exchange_strong(expected, Phase::kOwned, std::memory_order_acq_rel)) return;
  }
  const std::shared_ptr<IoThread> io = io_;
  io->Post([self = std::move(self), failed, close] {
    self->send_failed_ = failed;
    self->close_after_ = close;
    self->DoGuarded([&] { self->OnAnswered(); });
  });
}

void Connection::BeginStream(HttpResponse head) {
  answered_.store(true, std::memory_order_release);
  const bool chunked = parser_->get().version() >= 11;
  streaming_ = true;
  stream_close_ = close_after_ || io_->draining() || !chunked;
  const Status begun = Guarded([&] { stream_output_.Begin(head, chunked, stream_close_); });
  if (!begun.ok()) stream_output_.Abandon();
}

HttpExchange::PartResult Connection::SendPart(std::string_view part) {
  PartResult result = PartResult::kGone;
  const Status posted = Guarded([&] {
    switch (stream_output_.Append(socket_, part)) {
      case StreamOutput::Added::kSent:
      case StreamOutput::Added::kWaits:
        result = PartResult::kTaken;
        break;
      case StreamOutput::Added::kBlocked:
        last_active_ns_.store(SteadyNowNs(), std::memory_order_relaxed);
        io_->Post([self = shared_from_this()] { self->FlushStream(); });
        result = PartResult::kTaken;
        break;
      case StreamOutput::Added::kFailed:
        break;
      case StreamOutput::Added::kFull:
        result = PartResult::kFull;
        io_->Post([self = shared_from_this()] { self->Abort(); });
        break;
    }
  });
  if (!posted.ok()) stream_output_.Abandon();
  return result;
}

void Connection::EndStream() {
  const StreamOutput::Added added = stream_output_.End(socket_);
  const bool sent = added == StreamOutput::Added::kSent;
  const bool close = stream_close_;
  if (sent) streaming_ = false;
  const Status handed = Guarded([&] { HandBack(sent, added == StreamOutput::Added::kFailed, close); });
  if (!handed.ok()) CutOff();
}

void Connection::RunAside(std::function<void()> task) {
  const std::shared_ptr<ControlPool>& pool = io_->options().large_pool;
  if (pool == nullptr || !pool->Submit(task)) io_->Post(std::move(task));
}

void Connection::FlushStream() {
  switch (stream_output_.Flush(socket_)) {
    case Outgoing::Progress::kDone:
      return;
    case Outgoing::Progress::kBlocked:
      last_active_ns_.store(SteadyNowNs(), std::memory_order_relaxed);
      awaits_room_ = true;
      return;
    case Outgoing::Progress::kFailed:
      if (auto cancellation = cancellation_) cancellation->Cancel();
      return;
  }
}

void Connection::OnAnswered() {
  phase_.store(Phase::kOwned, std::memory_order_release);
  if (closed_) return;
  if (send_failed_) {
    Close();
    return;
  }
  if (Send() == Step::kMore) Pump();
}

Connection::Step Connection::Send() {
  Outgoing::Progress progress = streaming_ ? stream_output_.Flush(socket_) : outgoing_.Send(socket_);
  // Only our side ends: closing both while the client still sends would destroy the answer on its way.
  if (progress == Outgoing::Progress::kDone && close_after_ && !socket_.EndSending()) {
    progress = Outgoing::Progress::kBlocked;
  }
  switch (progress) {
    case Outgoing::Progress::kDone:
      return AfterSend();
    case Outgoing::Progress::kBlocked:
      SetStage(Stage::kWriting);
      awaits_room_ = true;
      return Step::kStop;
    case Outgoing::Progress::kFailed:
      Close();
      return Step::kStop;
  }
  return Step::kStop;
}

Connection::Step Connection::AfterSend() {
  outgoing_.Clear();
  streaming_ = false;
  call_.reset();
  cancellation_.reset();
  if (close_after_) {
    SetStage(Stage::kLinger);
  } else {
    SetStage(body_left_ > 0 ? Stage::kDiscard : Stage::kHead);
  }
  return Step::kMore;
}

Connection::Step Connection::AnswerEarly(HttpResponse response) {
  call_.reset();
  destinations_.clear();
  front_.reset();
  FreeText(whole_);
  body_charge_.Set(0);
  if (chunked_ || expects_continue_ || body_left_ > kMaxDiscardBytes || io_->draining()) close_after_ = true;
  outgoing_.Set(std::move(response), ConnectionField(close_after_), omit_body_);
  return Send();
}

HttpResponse Connection::TooManyFields() const {
  const std::string text = "more than " + std::to_string(io_->options().max_header_fields) + " header fields";
  limits().refusals.Count(Limit::kHeaderFields, text);
  return ErrorResponse(431, text);
}

HttpResponse Connection::TooLarge(std::optional<uint64_t> size) const {
  std::string text = "request size ";
  if (size) text += "of " + std::to_string(*size) + " bytes ";
  text += "exceeds the maximum allowed input size of " + std::to_string(io_->options().max_body_bytes) +
          " bytes." + io_->options().body_limit_hint;
  limits().refusals.Count(Limit::kHttpBody, text);
  return ErrorResponse(413, text);
}

// ---- Input ----

void Connection::Pump() {
  auto self = shared_from_this();
  size_t budget = kTurnBytes;
  while (!closed_) {
    const Step step = Advance();
    if (step == Step::kStop) return;
    if (step == Step::kMore) continue;
    if (drained_) return;
    if (budget == 0) {
      // The thread's other connections have their turn first; no event tells of what is there already.
      io_->Post([self] {
        if (!self->closed_) self->DoGuarded([&] { self->OnReadable(); });
      });
      return;
    }
    if (HoldBack()) return;
    const ssize_t received = Receive();
    if (received > 0) {
      // What comes behind a read that was not filled is told anew. Not so an end that was told already, and
      // what TLS has read ahead.
      drained_ = static_cast<size_t>(received) < asked_ && !client_ended_ && !socket_.encrypted();
      budget -= std::min(budget, static_cast<size_t>(received));
      progress_ += static_cast<uint64_t>(received);
      if (!reads_body()) continue;
      if (progress_ >= kProgressBytes) SetStage(stage_);
      if (Status room = ChargeBody(); !room.ok() && AnswerEarly(ErrorResponse(room)) == Step::kStop) return;
    } else if (received < 0 && errno == EINTR) {
      continue;
    } else if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      // A handshake needs no buffer, and a client may be silent behind it.
      if (!parser_) ReleaseIdleMemory();
      drained_ = true;
      awaits_room_ = socket_.receive_needs_write();
      return;
    } else {
      Close();
    }
  }
}

bool Connection::HoldBack() {
  if (hold_timer_) return true;
  // Of a chunked body, only what has come says how large it is.
  if (!reads_body() || (chunked_ ? whole_.size() : body_left_) <= MemoryBudget::kLarge) {
    held_since_ns_ = 0;
    return false;
  }
  if (!limits().budget.HoldsBack(held_since_ns_)) return false;
  hold_timer_ = io_->loop().At(SteadyNowNs() + MemoryBudget::kLookNs, [self = shared_from_this()] {
    self->hold_timer_.reset();
    self->DoGuarded([&] { self->OnReadable(); });
  });
  return true;
}

Status Connection::ChargeBody() {
  auto bytes = static_cast<int64_t>(whole_.capacity() + (front_ ? front_have_ : 0));
  if (stage_ == Stage::kRest) bytes -= static_cast<int64_t>(body_left_);
  body_charge_.Set(bytes);
  const bool large = front_ || whole_.size() > kBufferBytes || body_left_ > kBufferBytes;
  return large ? limits().budget.Continue() : OkStatus();
}

void Connection::ReleaseIdleMemory() {
  if (phase_.load(std::memory_order_acquire) != Phase::kOwned || !idle()) return;
  buffer_.reset();
  buffer_charge_.Set(0);
}

ssize_t Connection::Receive() {
  if (stage_ == Stage::kRest) return ReceiveToDestinations();
  if (stage_ == Stage::kFront && front_) {
    asked_ = front_size_ - front_have_;
    const ssize_t received = socket_.Receive({front_.get() + front_have_, asked_});
    if (received > 0) {
      front_have_ += static_cast<size_t>(received);
      body_left_ -= static_cast<uint64_t>(received);
    }
    return received;
  }
  return ReceiveToBuffer();
}

ssize_t Connection::ReceiveToBuffer() {
  if (!buffer_) {
    buffer_.reset(new char[kBufferBytes + HttpCall::kFrontPadding]);
    buffer_charge_.Set(kBufferBytes);
  }
  if (buffer_end_ == kBufferBytes && buffer_begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + buffer_begin_, buffered());
    buffer_end_ = buffered();
    buffer_begin_ = 0;
  }
  BRAID_CHECK(buffer_end_ < kBufferBytes);
  const bool first = idle();
  asked_ = kBufferBytes - buffer_end_;
  const ssize_t received = socket_.Receive({buffer_.get() + buffer_end_, asked_});
  if (received > 0) {
    buffer_end_ += static_cast<size_t>(received);
    if (first) last_active_ns_.store(SteadyNowNs(), std::memory_order_relaxed);
  }
  return received;
}

ssize_t Connection::ReceiveToDestinations() {
  iovec vectors[kMaxVectors];
  size_t count = 0;
  asked_ = 0;
  for (size_t i = destination_; i < destinations_.size() && count < kMaxVectors; ++i) {
    auto span = destinations_[i];
    if (i == destination_) span = span.subspan(destination_have_);
    asked_ += span.size();
    if (!span.empty()) vectors[count++] = {span.data(), span.size()};
  }
  const ssize_t received = socket_.Receive(std::span<const iovec>(vectors, count));
  if (received > 0) {
    body_left_ -= static_cast<uint64_t>(received);
    auto left = static_cast<size_t>(received);
    while (left > 0) {
      const size_t step = std::min(left, destinations_[destination_].size() - destination_have_);
      destination_have_ += step;
      left -= step;
      if (destination_have_ == destinations_[destination_].size()) {
        ++destination_;
        destination_have_ = 0;
      }
    }
  }
  return received;
}

Connection::Step Connection::Advance() {
  switch (stage_) {
    case Stage::kHead:
      return ReadHead();
    case Stage::kFront:
      return ReadFront();
    case Stage::kRest:
      return ReadRest();
    case Stage::kWhole:
      return ReadWhole();
    case Stage::kShown:
    case Stage::kWriting:
      return Step::kStop;
    case Stage::kDiscard:
    case Stage::kLinger:
      return Discard();
  }
  return Step::kStop;
}

Connection::Step Connection::Discard() {
  if (stage_ == Stage::kLinger) {
    Consume(buffered());
    return Step::kInput;
  }
  const auto bytes = static_cast<size_t>(std::min<uint64_t>(buffered(), body_left_));
  Consume(bytes);
  body_left_ -= bytes;
  if (body_left_ > 0) return Step::kInput;
  SetStage(Stage::kHead);
  return Step::kMore;
}

size_t Connection::HeaderFields() const {
  const auto& head = parser_->get();
  return static_cast<size_t>(std::distance(head.begin(), head.end()));
}

Connection::Step Connection::ReadHead() {
  if (buffered() == 0) return Step::kInput;
  if (!parser_ || head_done_) {
    // Some clients send a line end behind a body (RFC 9112, 2.2).
    constexpr std::string_view kLineEnd = "\r\n";
    if (!empty_line_ && kLineEnd.starts_with(BufferedText().substr(0, kLineEnd.size()))) {
      if (buffered() < kLineEnd.size()) return Step::kInput;
      Consume(kLineEnd.size());
      empty_line_ = true;
      return Step::kMore;
    }
    empty_line_ = false;
    call_.reset();
    cancellation_.reset();
    chunked_head_.reset();
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(io_->options().max_header_bytes));
    parser_->body_limit(std::numeric_limits<uint64_t>::max());
    head_done_ = false;
    head_bytes_ = 0;
  }
  boost::system::error_code error;
  const std::string_view text = BufferedText();
  const size_t used = parser_->put(boost::asio::const_buffer(text.data(), text.size()), error);
  Consume(used);
  head_bytes_ += used;
  // The parser's own limit begins anew with each piece that it is given.
  const HttpListenerOptions& options = io_->options();
  const bool too_many = HeaderFields() > options.max_header_fields;
  if (head_bytes_ > options.max_header_bytes && (!error || error == http::error::need_more)) {
    error = http::error::header_limit;
  }
  if (error == http::error::need_more && !too_many) return Step::kInput;
  if (error || too_many) {
    body_left_ = 0;
    close_after_ = true;
    omit_body_ = false;
    if (too_many) return AnswerEarly(TooManyFields());
    const unsigned status = error == http::error::header_limit ? 431 : 400;
    if (status == 431) {
      limits().refusals.Count(Limit::kHttpHeader, "the headers have more than " +
                                                      std::to_string(options.max_header_bytes) + " bytes");
    }
    return AnswerEarly(ErrorResponse(status, "malformed HTTP request: " + error.message()));
  }
  if (!parser_->is_header_done()) return Step::kMore;
  head_done_ = true;
  return BeginRequest();
}

Connection::Step Connection::BeginRequest() {
  const HttpListenerOptions& options = io_->options();
  const auto& head = parser_->get();
  close_after_ = !parser_->keep_alive() || io_->draining();
  old_client_ = head.version() < 11;
  omit_body_ = head.method() == http::verb::head;
  chunked_ = parser_->chunked();
  coding_ = ContentCoding::kIdentity;
  expects_continue_ = false;
  chunk_counter_ = {0, options.max_chunks, 0, options.max_header_bytes};
  body_left_ = chunked_ ? 0 : parser_->content_length().value_or(0);

  if (std::string fault = HeadFault(head); !fault.empty()) {
    close_after_ = true;
    return AnswerEarly(ErrorResponse(400, fault));
  }
  if (auto transfer = FindHeader(head, "Transfer-Encoding"); transfer && !SameText(*transfer, "chunked")) {
    close_after_ = true;
    return AnswerEarly(ErrorResponse(501, "unsupported Transfer-Encoding"));
  }
  if (auto expect = FindHeader(head, "Expect")) {
    if (!SameText(*expect, "100-continue")) return AnswerEarly(ErrorResponse(417, "unsupported Expect"));
    expects_continue_ = head.version() >= 11 && (chunked_ || body_left_ > buffered());
  }
  if (body_left_ > options.max_body_bytes) return AnswerEarly(TooLarge(body_left_));
  if (auto value = FindHeader(head, "Content-Encoding")) {
    auto coding = ParseContentCoding(*value);
    if (!coding) {
      HttpResponse response = ErrorResponse(501, "Unsupported compression type");
      response.headers.emplace_back("Accept-Encoding", "gzip, deflate");
      return AnswerEarly(std::move(response));
    }
    coding_ = *coding;
  }

  if (chunked_) chunked_head_ = head;
  HttpService::Answer answer = io_->service().OnRequest(shared_from_this());
  if (auto* response = std::get_if<HttpResponse>(&answer)) return AnswerEarly(std::move(*response));
  call_ = std::move(std::get<std::shared_ptr<HttpCall>>(answer));

  if (expects_continue_) {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    expects_continue_ = false;
    const iovec piece = {const_cast<char*>(kContinue.data()), kContinue.size()};
    if (socket_.Send({&piece, 1}) != ssize_t{kContinue.size()}) {
      Close();
      return Step::kStop;
    }
  }
  destinations_.clear();
  destination_ = 0;
  destination_have_ = 0;
  if (chunked_ || coding_ != ContentCoding::kIdentity) {
    parser_->eager(true);
    if (chunked_) parser_->on_chunk_header(chunk_counter_);
    SetStage(Stage::kWhole);
    return Step::kMore;
  }
  front_size_ = static_cast<size_t>(std::min<uint64_t>(call_->front_bytes(), body_left_));
  front_have_ = 0;
  if (front_size_ > kBufferBytes) {
    front_.reset(new char[front_size_ + HttpCall::kFrontPadding]);
    front_have_ = std::min(buffered(), front_size_);
    std::memcpy(front_.get(), BufferedText().data(), front_have_);
    Consume(front_have_);
    body_left_ -= front_have_;
  }
  SetStage(Stage::kFront);
  return Step::kMore;
}

Connection::Step Connection::ReadFront() {
  std::string_view front;
  if (front_) {
    if (front_have_ < front_size_) return Step::kInput;
    front = {front_.get(), front_size_};
  } else if (front_size_ > 0) {
    if (buffered() < front_size_) return Step::kInput;
    front = BufferedText().substr(0, front_size_);
  }
  const size_t rest = static_cast<size_t>(body_left_) - (front_ ? 0 : front_size_);
  const auto show = [this, front, rest](HttpCall& call, Shown& shown) { Show(call, front, rest, shown); };
  return Prepare(front_size_ > HttpCall::kLargeFront, show, &Connection::AfterReadFront);
}

template <class Work>
Connection::Step Connection::Prepare(bool large, Work work, AfterFront then) {
  const std::shared_ptr<ControlPool>& pool = io_->options().large_pool;
  if (!large || pool == nullptr) {
    Shown shown;
    shown.destinations.swap(destinations_);  // its memory
    work(*call_, shown);
    shown.destinations.swap(destinations_);
    return (this->*then)(std::move(shown.refused));
  }
  // std::function must be copyable, so what comes of it travels in a shared pointer.
  const auto shown = std::make_shared<Shown>();
  const bool submitted = pool->Submit([self = shared_from_this(), call = call_, shown, work, then] {
    const Status fault = Guarded([&] { work(*call, *shown); });
    const PatientAllocation patience;  // the connection waits for this
    if (!fault.ok()) shown->refused = ErrorResponse(fault);
    self->io_->Post([self, shown, then] {
      if (self->closed_) return;
      self->SetStage(Stage::kRest);  // in which a fault can be answered
      self->DoGuarded([&] {
        self->destinations_ = std::move(shown->destinations);
        if (((*self).*then)(std::move(shown->refused)) == Step::kMore) self->Pump();
      });
    });
  });
  if (!submitted) return AnswerEarly(ErrorResponse(UnavailableError("too many large requests are waiting")));
  SetStage(Stage::kShown);
  return Step::kStop;
}

void Connection::Show(HttpCall& call, std::string_view front, size_t rest, Shown& shown) const {
  MemoryCharge parsed;
  if (front.size() > HttpCall::kLargeFront) {
    parsed.Set(static_cast<int64_t>(front.size() * kParsedBytes));
    if (const Status room = limits().budget.Continue(); !room.ok()) {
      shown.refused = ErrorResponse(room);
      return;
    }
  }
  shown.refused = call.OnFront(front, rest, shown.destinations);
}

Connection::Step Connection::AfterReadFront(std::optional<HttpResponse> refused) {
  if (!front_) {
    if (front_size_ > 0) Consume(front_size_);
    body_left_ -= front_size_;
  }
  front_.reset();
  if (refused) return AnswerEarly(std::move(*refused));
  SetStage(Stage::kRest);
  // What the call has got for the rest counts as it comes, not as it is announced.
  if (Status room = ChargeBody(); !room.ok()) return AnswerEarly(ErrorResponse(room));
  return Step::kMore;
}

Connection::Step Connection::ReadRest() {
  while (destination_ < destinations_.size()) {
    const auto span = destinations_[destination_].subspan(destination_have_);
    const size_t bytes = std::min(span.size(), buffered());
    if (bytes > 0) {
      std::memcpy(span.data(), BufferedText().data(), bytes);
      Consume(bytes);
      body_left_ -= bytes;
    }
    if (bytes < span.size()) {
      destination_have_ += bytes;
      return Step::kInput;
    }
    ++destination_;
    destination_have_ = 0;
  }
  BRAID_CHECK(body_left_ == 0);
  return RunCall();
}

Status Connection::Gather(std::string_view bytes) {
  if (bytes.size() > io_->options().max_body_bytes - whole_.size()) return InvalidArgumentError("");
  whole_.append(bytes);
  return ChargeBody();
}

Connection::Step Connection::ReadWhole() {
  const auto refuse = [this](const Status& status) {
    return AnswerEarly(status.code() == StatusCode::kResourceExhausted ? ErrorResponse(status)
                                                                       : TooLarge(std::nullopt));
  };
  if (!chunked_) {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(buffered(), body_left_));
    const Status status = Gather(BufferedText().substr(0, bytes));
    Consume(bytes);
    body_left_ -= bytes;
    if (!status.ok()) return refuse(status);
    return body_left_ > 0 ? Step::kInput : TakeWhole();
  }
  while (!parser_->is_done()) {
    char window[16 * 1024];
    auto& body = parser_->get().body();
    body.data = window;
    body.size = sizeof(window);
    body.more = true;
    boost::system::error_code error;
    const std::string_view text = BufferedText();
    if (text.empty()) return Step::kInput;
    const size_t used = parser_->put(boost::asio::const_buffer(text.data(), text.size()), error);
    const size_t made = sizeof(window) - body.size;
    Consume(used);
    if (made > 0) {
      if (Status status = Gather({window, made}); !status.ok()) return refuse(status);
    }
    if (error == http::error::need_buffer) continue;
    if (error == http::error::need_more) {
      if (used > 0 && buffered() > 0) continue;
      if (buffered() == kBufferBytes)
        error = http::error::bad_chunk;
      else
        return Step::kInput;
    }
    if (error == http::error::body_limit) return AnswerEarly(ErrorResponse(413, "too many chunks"));
    if (error == http::error::header_limit) {
      return AnswerEarly(ErrorResponse(
          431, "more than " + std::to_string(chunk_counter_.extension_limit) + " bytes of chunk extensions"));
    }
    if (error) return AnswerEarly(ErrorResponse(400, "malformed HTTP request: " + error.message()));
  }
  // What stands behind the last chunk has become header fields.
  if (HeaderFields() > io_->options().max_header_fields) return AnswerEarly(TooManyFields());
  return TakeWhole();
}

Connection::Step Connection::TakeWhole() {
  chunked_ = false;  // nothing of the body is left to read, should an error be answered now
  const bool inflates = coding_ != ContentCoding::kIdentity;
  const auto show = [this, inflates](HttpCall& call, Shown& shown) {
    if (inflates) shown.refused = Inflate(shown);
    if (shown.refused) return;
    whole_.reserve(whole_.size() + HttpCall::kFrontPadding);
    const std::string_view all = whole_;
    const size_t front = std::min(call.front_bytes(), all.size());
    Show(call, all.substr(0, front), all.size() - front, shown);
    if (shown.refused) return;
    size_t at = front;
    for (const auto& span : shown.destinations) {
      BRAID_CHECK(span.size() <= all.size() - at);
      if (!span.empty()) std::memcpy(span.data(), all.data() + at, span.size());
      at += span.size();
    }
    BRAID_CHECK(at == all.size());
  };
  return Prepare(whole_.size() > (inflates ? kInflatedHere : HttpCall::kLargeFront), show,
                 &Connection::AfterWhole);
}

std::optional<HttpResponse> Connection::Inflate(Shown& shown) {
  const HttpListenerOptions& options = io_->options();
  Decompressor decompressor;
  std::string inflated;
  for (std::string_view left = whole_; !left.empty();) {
    const std::string_view piece = left.substr(0, kInflatedHere);
    left.remove_prefix(piece.size());
    const Status status = decompressor.Append(piece, inflated, options.max_body_bytes);
    if (!status.ok()) return decompressor.too_large() ? TooLarge(std::nullopt) : ErrorResponse(status);
    shown.whole.Set(static_cast<int64_t>(inflated.capacity()));
    if (inflated.size() <= kBufferBytes) continue;
    if (Status room = limits().budget.Continue(); !room.ok()) return ErrorResponse(room);
  }
  if (!decompressor.finished()) return ErrorResponse(400, "the compressed request body ends early");
  whole_ = std::move(inflated);
  return std::nullopt;
}

Connection::Step Connection::AfterWhole(std::optional<HttpResponse> refused) {
  if (refused) return AnswerEarly(std::move(*refused));
  FreeText(whole_);
  return RunCall();
}

Connection::Step Connection::RunCall() {
  destinations_.clear();
  body_charge_.Set(0);
  SetStage(Stage::kHead);
  answered_.store(false, std::memory_order_relaxed);
  phase_.store(Phase::kRunning, std::memory_order_release);
  // The call may end within, and this object's reference to it change.
  if (const Status fault = Guarded([this] { call_->OnBody(); }); !fault.ok()) {
    Respond(MakeResponse([&] { return Result<HttpResponse>(fault); }));
  }
  if (phase_.load(std::memory_order_acquire) == Phase::kOwned) return Step::kMore;
  if (client_ended_) {
    if (auto cancellation = cancellation_) cancellation->Cancel();
  }
  if (buffered() == 0 && NothingMore()) return Step::kStop;
  // The next request is here already: whoever answers this one has to tell.
  Phase expected = Phase::kRunning;
  if (phase_.compare_exchange_strong(expected, Phase::kRunningInput, std::memory_order_acq_rel))
    return Step::kStop;
  return expected == Phase::kOwned ? Step::kMore : Step::kStop;
}

}  // namespace braid
