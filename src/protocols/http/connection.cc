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

// Input that one connection may read before other connections of its thread get their turn.
constexpr size_t kTurnBytes = size_t{1} << 20;
// A refused body up to this size is read and discarded, so that the connection stays open.
constexpr uint64_t kMaxDiscardBytes = uint64_t{256} << 20;
constexpr size_t kMaxVectors = 16;
// A compressed body up to this size is inflated on the io thread: it becomes at most 1 MiB.
constexpr size_t kInflatedHere = 1024;

}  // namespace

Connection::Connection(std::shared_ptr<IoThread> io, ClientSocket socket, ConnectionLimits::Place place,
                       bool over_unix_socket)
    : io_(std::move(io)),
      place_(std::move(place)),
      over_unix_socket_(over_unix_socket),
      socket_(std::move(socket)),
      body_(io_->options()) {}

Status Connection::Start() {
  return io_->loop().Watch(socket_.fd(), EPOLLIN | EPOLLOUT | EPOLLRDHUP, shared_from_this());
}

bool Connection::Expired(int64_t now_ns, bool draining) const {
  if (phase_.load(std::memory_order_acquire) != Phase::kOwned) return false;
  if (idle() && draining) return true;
  const bool expired = clock_.Expired(now_ns, io_->options(), idle(), socket_.handshake_done());
  if (expired && clock_.reads_body())
    limits().refusals.Count(Limit::kBodyTime, "a request body arrives too slowly");
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
  writer_.Clear();
  body_.Abandon();
  io_->Forget(shared_from_this());
}

bool Connection::Stalled(int64_t now_ns) const {
  if (phase_.load(std::memory_order_acquire) == Phase::kOwned || !awaits_room_) return false;
  return clock_.Silent(now_ns, io_->options().write_timeout);
}

void Connection::Abort() {
  if (closed_) return;
  if (phase_.load(std::memory_order_acquire) == Phase::kOwned) {
    Close();
    return;
  }
  // The descriptor stays open until the call has responded: another thread may be writing to it.
  closed_ = true;
  ::shutdown(socket_.fd(), SHUT_RDWR);
  writer_.stream().Abandon();
  io_->loop().Unwatch(socket_.fd());
  if (hold_timer_) io_->loop().Withdraw(*hold_timer_);
  auto self = shared_from_this();
  if (auto cancellation = cancellation_) cancellation->Cancel();
  io_->Forget(self);
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

template <class Action>
void Connection::DoGuarded(Action&& action) noexcept {
  const Status fault = Guarded(std::forward<Action>(action));
  if (fault.ok() || closed_) return;
  GuardedOrReport("HTTP connection", [&] {
    // A running call responds by itself.
    if (phase_.load(std::memory_order_acquire) != Phase::kOwned) return;
    if ((clock_.stage() == Stage::kHead || clock_.reads_body()) && head_done_) {
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
  // The event may report input that was read with the request.
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
  if (clock_.stage() != Stage::kWriting) {
    // EndStream() may have sent the waiting bytes.
    if (socket_.receive_needs_write()) Pump();
    return;
  }
  clock_.Enter(Stage::kWriting);
  if (Send() == Step::kMore) Pump();
}

// ---- Responses ----

void Connection::Respond(HttpResponse response) {
  if (answered_.exchange(true, std::memory_order_acq_rel)) return;
  close_response_ = close_after_ || io_->draining();
  const Status written = Guarded([&] {
    writer_.Set(std::move(response), ConnectionField(close_response_), omit_body_);
    // A thread with several responses at once sends them after all work that others wait for.
    if (!Batch::Defer(shared_from_this())) SendResponse();
  });
  if (!written.ok()) CutOff();
}

void Connection::SendResponse() {
  const ResponseWriter::Progress progress = writer_.Send(socket_);
  const bool sent = progress == ResponseWriter::Progress::kDone;
  if (sent && !close_response_) writer_.Clear();
  HandBack(sent, progress == ResponseWriter::Progress::kFailed, close_response_);
}

void Connection::AtEnd() noexcept {
  if (!Guarded([this] { SendResponse(); }).ok()) CutOff();
}

void Connection::CutOff() noexcept {
  // The io thread closes the connection after an event, or in its sweep.
  ::shutdown(socket_.fd(), SHUT_RDWR);
  writer_.Clear();
  phase_.store(Phase::kOwned, std::memory_order_release);
}

void Connection::HandBack(bool sent, bool failed, bool close) {
  auto self = shared_from_this();  // the io thread may release the connection after the exchange below
  clock_.Touch();
  if (sent && !close) {
    Phase expected = Phase::kRunning;
    if (phase_.compare_exchange_strong(expected, Phase::kOwned, std::memory_order_acq_rel)) return;
  }
  const std::shared_ptr<IoThread> io = io_;
  io->Post([self = std::move(self), failed, close] {
    self->close_after_ = close;
    self->DoGuarded([&] { self->OnAnswered(failed); });
  });
}

void Connection::BeginStream(HttpResponse head) {
  answered_.store(true, std::memory_order_release);
  const bool chunked = parser_->get().version() >= 11;
  const bool close = close_after_ || io_->draining() || !chunked;
  const Status begun = Guarded([&] { writer_.BeginStream(head, chunked, close); });
  if (!begun.ok()) writer_.stream().Abandon();
}

HttpExchange::PartResult Connection::SendPart(std::string_view part) {
  PartResult result = PartResult::kGone;
  const Status posted = Guarded([&] {
    switch (writer_.stream().Append(socket_, part)) {
      case StreamOutput::Added::kSent:
      case StreamOutput::Added::kWaits:
        result = PartResult::kTaken;
        break;
      case StreamOutput::Added::kBlocked:
        clock_.Touch();
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
  if (!posted.ok()) writer_.stream().Abandon();
  return result;
}

void Connection::EndStream() {
  const StreamOutput::Added added = writer_.stream().End(socket_);
  const bool sent = added == StreamOutput::Added::kSent;
  const bool close = writer_.closes();
  if (sent) writer_.EndStream();
  const Status handed = Guarded([&] { HandBack(sent, added == StreamOutput::Added::kFailed, close); });
  if (!handed.ok()) CutOff();
}

void Connection::RunAside(std::function<void()> task) {
  const std::shared_ptr<ControlPool>& pool = io_->options().large_pool;
  if (pool == nullptr || !pool->Submit(task)) io_->Post(std::move(task));
}

void Connection::FlushStream() {
  switch (writer_.stream().Flush(socket_)) {
    case ResponseWriter::Progress::kDone:
      return;
    case ResponseWriter::Progress::kBlocked:
      clock_.Touch();
      awaits_room_ = true;
      return;
    case ResponseWriter::Progress::kFailed:
      if (auto cancellation = cancellation_) cancellation->Cancel();
      return;
  }
}

void Connection::OnAnswered(bool send_failed) {
  phase_.store(Phase::kOwned, std::memory_order_release);
  if (closed_) return;
  if (send_failed) {
    Close();
    return;
  }
  if (Send() == Step::kMore) Pump();
}

Connection::Step Connection::Send() {
  ResponseWriter::Progress progress = writer_.Send(socket_);
  // Ends only this side. To close both while the client still sends would discard the response in transit.
  if (progress == ResponseWriter::Progress::kDone && close_after_ && !socket_.EndSending()) {
    progress = ResponseWriter::Progress::kBlocked;
  }
  switch (progress) {
    case ResponseWriter::Progress::kDone:
      return AfterSend();
    case ResponseWriter::Progress::kBlocked:
      clock_.Enter(Stage::kWriting);
      awaits_room_ = true;
      return Step::kStop;
    case ResponseWriter::Progress::kFailed:
      Close();
      return Step::kStop;
  }
  return Step::kStop;
}

Connection::Step Connection::AfterSend() {
  writer_.Clear();
  call_.reset();
  cancellation_.reset();
  if (close_after_) {
    clock_.Enter(Stage::kLinger);
  } else {
    clock_.Enter(body_.left() > 0 ? Stage::kDiscard : Stage::kHead);
  }
  return Step::kMore;
}

Connection::Step Connection::AnswerEarly(HttpResponse response) {
  if (response.status >= 400 && head_done_ && parser_)
    response = io_->service().Shape(head(), std::move(response));
  call_.reset();
  body_.Drop();
  if (body_.chunked() || expects_continue_ || body_.left() > kMaxDiscardBytes || io_->draining())
    close_after_ = true;
  writer_.Set(std::move(response), ConnectionField(close_after_), omit_body_);
  return Send();
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
      // Other connections of the thread have their turn first. No event reports the input that is already
      // there.
      io_->Post([self] {
        if (!self->closed_) self->DoGuarded([&] { self->OnReadable(); });
      });
      return;
    }
    if (HoldBack()) return;
    const ssize_t received = Receive();
    if (received > 0) {
      // After a partial read, an event reports further input. But not an end that was already reported, or
      // bytes that TLS has read ahead.
      drained_ = static_cast<size_t>(received) < asked_ && !client_ended_ && !socket_.encrypted();
      budget -= std::min(budget, static_cast<size_t>(received));
      clock_.AddInput(static_cast<uint64_t>(received));
      if (!clock_.reads_body()) continue;
      if (Status room = body_.Charge(); !room.ok() && AnswerEarly(ErrorResponse(room)) == Step::kStop) return;
    } else if (received < 0 && errno == EINTR) {
      continue;
    } else if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      // A handshake uses no buffer, and the client may be silent after it.
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
  if (!clock_.reads_body() || body_.known_size() <= MemoryBudget::kLarge) {
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

void Connection::ReleaseIdleMemory() {
  if (phase_.load(std::memory_order_acquire) != Phase::kOwned || !idle()) return;
  input_.Release();
}

ssize_t Connection::Receive() {
  if (clock_.stage() == Stage::kRest) {
    iovec vectors[kMaxVectors];
    const std::span<const iovec> room = body_.RestRoom(vectors);
    asked_ = 0;
    for (const iovec& piece : room) asked_ += piece.iov_len;
    const ssize_t received = socket_.Receive(room);
    if (received > 0) body_.AddToRest(static_cast<size_t>(received));
    return received;
  }
  if (clock_.stage() == Stage::kFront) {
    if (const std::span<char> room = body_.FrontRoom(); !room.empty()) {
      asked_ = room.size();
      const ssize_t received = socket_.Receive(room);
      if (received > 0) body_.AddToFront(static_cast<size_t>(received));
      return received;
    }
  }
  const bool first = idle();
  const std::span<char> room = input_.Room();
  asked_ = room.size();
  const ssize_t received = socket_.Receive(room);
  if (received > 0) {
    input_.Add(static_cast<size_t>(received));
    if (first) clock_.Touch();
  }
  return received;
}

Connection::Step Connection::Advance() {
  switch (clock_.stage()) {
    case Stage::kHead:
      return ReadHead();
    case Stage::kFront:
      return ReadFront();
    case Stage::kRest:
      return ReadRest();
    case Stage::kWhole:
      return ReadWhole();
    case Stage::kOffered:
    case Stage::kWriting:
      return Step::kStop;
    case Stage::kDiscard:
    case Stage::kLinger:
      return Discard();
  }
  return Step::kStop;
}

Connection::Step Connection::Discard() {
  if (clock_.stage() == Stage::kLinger) {
    input_.Consume(input_.size());
    return Step::kInput;
  }
  if (!body_.Discard(input_)) return Step::kInput;
  clock_.Enter(Stage::kHead);
  return Step::kMore;
}

Connection::Step Connection::ReadHead() {
  if (input_.empty()) return Step::kInput;
  if (!parser_ || head_done_) {
    // Some clients send a line end after a body (RFC 9112, 2.2).
    constexpr std::string_view kLineEnd = "\r\n";
    if (!empty_line_ && kLineEnd.starts_with(input_.text().substr(0, kLineEnd.size()))) {
      if (input_.size() < kLineEnd.size()) return Step::kInput;
      input_.Consume(kLineEnd.size());
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
  const std::string_view text = input_.text();
  const size_t used = parser_->put(boost::asio::const_buffer(text.data(), text.size()), error);
  input_.Consume(used);
  head_bytes_ += used;
  // The parser applies its own limit to each piece anew.
  const HttpListenerOptions& options = io_->options();
  const bool too_many = HeaderFields(*parser_) > options.max_header_fields;
  if (head_bytes_ > options.max_header_bytes && (!error || error == http::error::need_more)) {
    error = http::error::header_limit;
  }
  if (error == http::error::need_more && !too_many) return Step::kInput;
  if (error || too_many) {
    body_.Forget();
    close_after_ = true;
    omit_body_ = false;
    if (too_many) return AnswerEarly(TooManyFields(options));
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
  expects_continue_ = false;
  body_.Begin(*parser_);

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
    expects_continue_ = head.version() >= 11 && (body_.chunked() || body_.left() > input_.size());
  }
  if (body_.left() > options.max_body_bytes) return AnswerEarly(TooLargeBody(options, body_.left()));
  if (auto value = FindHeader(head, "Content-Encoding")) {
    auto coding = ParseContentCoding(*value);
    if (!coding) {
      HttpResponse response = ErrorResponse(501, "Unsupported compression type");
      response.headers.emplace_back("Accept-Encoding", "gzip, deflate");
      return AnswerEarly(std::move(response));
    }
    body_.set_coding(*coding);
  }

  if (body_.chunked()) chunked_head_ = head;
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
  clock_.Enter(body_.Start(*call_, input_) ? Stage::kWhole : Stage::kFront);
  return Step::kMore;
}

Connection::Step Connection::ReadFront() {
  const auto front = body_.front(input_);
  if (!front) return Step::kInput;
  const auto offer = [](Connection& self, HttpCall& call, BodyReader::Decision& decision) {
    self.body_.OfferFront(call, self.input_, decision);
  };
  return Prepare(front->size() > HttpCall::kLargeFront, offer, &Connection::AfterReadFront);
}

Connection::Step Connection::Prepare(bool large, Offer offer, AfterFront then) {
  const std::shared_ptr<ControlPool>& pool = io_->options().large_pool;
  if (!large || pool == nullptr) {
    BodyReader::Decision decision;
    decision.destinations = body_.TakeDestinations();  // reuses its memory
    offer(*this, *call_, decision);
    body_.set_destinations(std::move(decision.destinations));
    return (this->*then)(std::move(decision.refused));
  }
  // std::function must be copyable, so the result travels in a shared pointer.
  const auto decision = std::make_shared<BodyReader::Decision>();
  const bool submitted = pool->Submit([self = shared_from_this(), call = call_, decision, offer, then] {
    const Status fault = Guarded([&] { offer(*self, *call, *decision); });
    const RetryingAllocation retrying;  // the connection waits for this
    if (!fault.ok()) decision->refused = ErrorResponse(fault);
    self->io_->Post([self, decision, then] {
      if (self->closed_) return;
      self->clock_.Enter(Stage::kRest);  // a stage in which a fault can be answered
      self->DoGuarded([&] {
        self->body_.set_destinations(std::move(decision->destinations));
        if (((*self).*then)(std::move(decision->refused)) == Step::kMore) self->Pump();
      });
    });
  });
  if (!submitted) return AnswerEarly(ErrorResponse(UnavailableError("too many large requests are waiting")));
  clock_.Enter(Stage::kOffered);
  return Step::kStop;
}

Connection::Step Connection::AfterReadFront(std::optional<HttpResponse> refused) {
  body_.EndFront(input_);
  if (refused) return AnswerEarly(std::move(*refused));
  clock_.Enter(Stage::kRest);
  if (Status room = body_.Charge(); !room.ok()) return AnswerEarly(ErrorResponse(room));
  return Step::kMore;
}

Connection::Step Connection::ReadRest() { return body_.TakeRest(input_) ? RunCall() : Step::kInput; }

Connection::Step Connection::ReadWhole() {
  HttpResponse refused;
  switch (body_.TakeWhole(input_, refused)) {
    case BodyReader::Whole::kInput:
      return Step::kInput;
    case BodyReader::Whole::kRefused:
      return AnswerEarly(std::move(refused));
    case BodyReader::Whole::kThere:
      break;
  }
  const auto offer = [](Connection& self, HttpCall& call, BodyReader::Decision& decision) {
    self.body_.OfferWhole(call, decision);
  };
  return Prepare(body_.gathered() > (body_.inflates() ? kInflatedHere : HttpCall::kLargeFront), offer,
                 &Connection::AfterWhole);
}

Connection::Step Connection::AfterWhole(std::optional<HttpResponse> refused) {
  return refused ? AnswerEarly(std::move(*refused)) : RunCall();
}

Connection::Step Connection::RunCall() {
  body_.Drop();
  clock_.Enter(Stage::kHead);
  answered_.store(false, std::memory_order_relaxed);
  phase_.store(Phase::kRunning, std::memory_order_release);
  // The call may end within OnBody(), and call_ may change.
  if (const Status fault = Guarded([this] { call_->OnBody(); }); !fault.ok()) {
    Respond(MakeResponse([&] { return Result<HttpResponse>(fault); }));
  }
  if (phase_.load(std::memory_order_acquire) == Phase::kOwned) return Step::kMore;
  if (client_ended_) {
    if (auto cancellation = cancellation_) cancellation->Cancel();
  }
  if (input_.empty() && NothingMore()) return Step::kStop;
  // The next request has already arrived, so the responder must post to this thread.
  Phase expected = Phase::kRunning;
  if (phase_.compare_exchange_strong(expected, Phase::kRunningInput, std::memory_order_acq_rel))
    return Step::kStop;
  return expected == Phase::kOwned ? Step::kMore : Step::kStop;
}

}  // namespace braid
