#include "protocols/grpc/connection.h"

#include <nghttp2/nghttp2.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/clock.h"
#include "base/guard.h"
#include "base/utf8.h"
#include "protocols/grpc/call.h"
#include "protocols/grpc/status.h"
#include "protocols/grpc/thread.h"

namespace braid {
namespace {

// Reads of one connection before other connections of its thread get their turn.
constexpr int kMostReads = 16;
// The maximum number of bytes that the session stages for one system call.
constexpr size_t kMostStaged = size_t{1} << 20;
constexpr size_t kMostPieces = 64;

// The connection whose input this thread is handling. Its responses leave when that ends.
thread_local const GrpcConnection* reading = nullptr;

// Longer than any server runs, and short enough to be added to its clock.
constexpr int64_t kLongestTimeoutNs = int64_t{1} << 61;

// Returns the nanoseconds of a grpc-timeout: up to eight digits and a unit. Returns nullopt for any other
// text.
std::optional<int64_t> ParseTimeout(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return std::nullopt;
  int64_t number = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < 0) return std::nullopt;
  constexpr std::pair<char, int64_t> kUnits[] = {
      {'H', 3'600'000'000'000}, {'M', 60'000'000'000}, {'S', 1'000'000'000},
      {'m', 1'000'000},         {'u', 1'000},          {'n', 1}};
  const auto unit = std::ranges::find(kUnits, text.back(), [](const auto& its) { return its.first; });
  if (unit == std::end(kUnits)) return std::nullopt;
  return number > kLongestTimeoutNs / unit->second ? kLongestTimeoutNs : number * unit->second;
}

class GrpcSender final : public AccessPolicy::Sender {
 public:
  GrpcSender(const Http2Head& head, std::string_view certificate) : head_(head), certificate_(certificate) {}

  bool Shows(std::string_view header, std::string_view secret) const override {
    return head_.Any(header, [&](std::string_view value) { return AccessPolicy::SameSecret(value, secret); });
  }
  Credentials credentials() const override { return {head_.Find("authorization"), certificate_}; }

 private:
  const Http2Head& head_;
  const std::string_view certificate_;
};

// Whether the type is "application/grpc", alone or with an encoding of messages or parameters.
bool IsGrpc(std::string_view content_type) {
  constexpr std::string_view kGrpc = "application/grpc";
  return content_type.starts_with(kGrpc) &&
         (content_type.size() == kGrpc.size() || content_type[kGrpc.size()] == '+' ||
          content_type[kGrpc.size()] == ';');
}

}  // namespace

GrpcConnection::GrpcConnection(GrpcThread& thread, ClientSocket socket, ConnectionLimits::Place place)
    : thread_(thread),
      place_(std::move(place)),
      socket_(std::move(socket)),
      session_(*this, thread.state().http2),
      idle_since_ns_(SteadyNowNs()),
      born_ns_(SteadyNowNs()),
      heard_ns_(born_ns_) {}

GrpcConnection::~GrpcConnection() = default;

Status GrpcConnection::Start() {
  BRAID_RETURN_IF_ERROR(
      thread_.loop().Watch(socket_.fd(), EPOLLIN | EPOLLOUT | EPOLLRDHUP, shared_from_this()));
  ArmWatch();
  Flush();
  return OkStatus();
}

void GrpcConnection::OnEvents(uint32_t events) {
  // Output of TLS may have waited for input.
  if ((events & EPOLLOUT) != 0 || socket_.encrypted()) {
    MutexLock lock(mutex_);
    retry_ = delivery_.taken();
    blocked_ = false;
  }
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) ended_by_client_ = true;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) ReadAll();
  Flush();
}

void GrpcConnection::ReadAll() {
  reading = this;
  const Status fault = Guarded([this] {
    for (int reads = 0; !HoldBack() && ReadOnce(); ++reads) {
      if (reads < kMostReads) continue;
      thread_.loop().Post([self = shared_from_this()] { self->OnEvents(EPOLLIN); });
      break;
    }
  });
  reading = nullptr;
  if (!fault.ok()) Close();
}

bool GrpcConnection::HoldBack() {
  if (hold_timer_) return true;
  if (!large_reads_ || ended_by_client_) return false;
  if (!thread_.state().limits->budget.HoldsBack(held_since_ns_)) return false;
  hold_timer_ = thread_.loop().At(SteadyNowNs() + MemoryBudget::kLookNs, [self = shared_from_this()] {
    self->hold_timer_.reset();
    self->OnEvents(EPOLLIN);
  });
  return true;
}

bool GrpcConnection::ReadOnce() {
  ReadBlock& block = thread_.block(large_reads_);
  const std::span<char> room = block.Room();
  const ssize_t got = socket_.Receive(room);
  if (got <= 0) {
    if (got < 0 && errno == EINTR) return true;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    Close();
    return false;
  }
  const auto size = static_cast<size_t>(got);
  block.Fill(size);
  large_reads_ = size == room.size();
  heard_ns_ = SteadyNowNs();
  pinged_ns_ = 0;
  Status received;
  {
    MutexLock lock(mutex_);
    if (over_) return false;
    received = session_.Receive(block.buffer(), {room.data(), size});
    DispatchLocked();
  }
  if (!received.ok()) {
    // The session's last message, about this error, still leaves.
    reading = nullptr;
    Flush();
    Close();
    return false;
  }
  // Edge-triggered: after a partial read, an event reports further input. But not an end that was reported
  // with these bytes, or bytes that TLS has read ahead.
  return size == room.size() || ended_by_client_ || socket_.encrypted();
}

void GrpcConnection::DispatchEvents() {
  MutexLock lock(mutex_);
  DispatchLocked();
}

void GrpcConnection::DispatchLocked() {
  for (;;) {
    std::vector<std::shared_ptr<GrpcCall>> ended = std::exchange(ended_, {});
    dispatching_.swap(events_);
    dispatch_posted_ = !dispatching_.empty();
    if (dispatching_.empty() && ended.empty()) return;
    const MutexUnlock unlock(mutex_);
    for (Event& event : dispatching_) event.call->Dispatch(event.kind, std::move(event.message));
    dispatching_.clear();
    ended.clear();
  }
}

void GrpcConnection::AddEventLocked(std::shared_ptr<GrpcCall> call, GrpcEvent kind, GrpcMessage message) {
  const RetryingAllocation retrying;
  events_.push_back({std::move(call), kind, std::move(message)});
  if (reading == this || dispatch_posted_) return;
  dispatch_posted_ = true;
  thread_.loop().Post([self = shared_from_this()] { self->DispatchEvents(); });
}

// --- Requests --------------------------------------------------------------------------------------

std::shared_ptr<Http2Stream> GrpcConnection::OnRequest(int32_t id, Http2Head head, const Status& fault) {
  mutex_.AssertHeld();
  const auto refuse = [&](std::string_view http, const Status& status, bool later = false) {
    mutex_.AssertHeld();
    const std::string code = std::to_string(GrpcCodeOf(status));
    const std::string text = PercentEncoded(status.message());
    const Http2Field fields[] = {{":status", http},
                                 {"content-type", "application/grpc"},
                                 {"grpc-status", code},
                                 {"grpc-message", text},
                                 {kGrpcPushback, kGrpcPushbackMs}};
    session_.RespondAtOnce(id, std::span(fields).first(later ? 5 : 4));
    return std::shared_ptr<Http2Stream>();
  };
  if (!fault.ok()) {
    const bool many = head.size() >= thread_.state().http2.head_fields;
    thread_.state().limits->refusals.Count(many ? Limit::kHeaderFields : Limit::kGrpcMetadata,
                                           fault.message());
    return refuse("200", fault);
  }
  if (head.Find(":method") != "POST") return refuse("405", InternalError("expected method POST"));
  if (!IsGrpc(head.Find("content-type"))) {
    return refuse("415", InternalError("expected content-type application/grpc"));
  }
  GrpcServerState& state = thread_.state();
  const GrpcRoute* route = thread_.FindRoute(head.Find(":path"));
  if (route == nullptr) return refuse("200", UnsupportedError(""));
  size_t shown = 0;
  if (head.Any("authorization", [&](std::string_view) { return ++shown > 1; })) {
    return refuse("200", InvalidArgumentError("duplicate metadata 'authorization'"));
  }
  auto authorization = state.access.Authorize(thread_.access(), GrpcSender(head, certificate_identity()),
                                              {route->api, std::nullopt});
  if (!authorization.ok()) return refuse("200", authorization.status());
  if (route->api == Api::kInference) {
    if (Status admitted = state.limits->budget.Admit(); !admitted.ok()) return refuse("200", admitted, true);
  }
  const std::string_view timeout = head.Find("grpc-timeout");
  const std::optional<int64_t> left_ns = ParseTimeout(timeout);
  if (!timeout.empty() && !left_ns) {
    return refuse("200",
                  InvalidArgumentError("invalid grpc-timeout '" + Shortened(timeout) +
                                       "'; expected up to eight digits and a unit (H, M, S, m, u or n)"));
  }
  std::shared_ptr<GrpcCall> call;
  const Status made = Guarded([&] {
    BRAID_ASSIGN_OR_RETURN(
        call, route->make(thread_, {shared_from_this(), id, std::move(head), *std::move(authorization)}));
    return OkStatus();
  });
  if (!made.ok()) return refuse("200", made);
  if (left_ns) {
    call->set_deadline_ns(SteadyNowNs() + *left_ns);
    deadlines_.emplace(call->deadline_ns(), call.get());
    ArmDeadlineLocked();
  }
  idle_since_ns_ = 0;
  return call;
}

void GrpcConnection::EndCallLocked(GrpcCall& call) {
  const RetryingAllocation retrying;
  if (call.deadline_ns() != 0) deadlines_.erase({call.deadline_ns(), &call});
  ended_.push_back(call.shared_from_this());
  if (!session_.has_streams()) idle_since_ns_ = SteadyNowNs();
}

void GrpcConnection::ArmDeadlineLocked() {
  if (deadlines_.empty()) return;
  const int64_t first_ns = deadlines_.begin()->first;
  if (deadline_timer_ && deadline_timer_->first <= first_ns) return;
  if (deadline_timer_) thread_.loop().Withdraw(*deadline_timer_);
  deadline_timer_ = thread_.loop().At(first_ns, [self = shared_from_this()] { self->OnDeadline(); });
}

void GrpcConnection::OnDeadline() {
  const int64_t now_ns = SteadyNowNs();
  Locked([&] {
    mutex_.AssertHeld();
    deadline_timer_.reset();
    while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns) {
      GrpcCall& call = *deadlines_.begin()->second;
      deadlines_.erase(deadlines_.begin());
      call.Cut(kGrpcDeadlineExceeded, "Deadline Exceeded");
    }
    ArmDeadlineLocked();
  });
  DispatchEvents();
  Flush();
}

void GrpcConnection::WatchMessages() {
  if (message_timer_) return;
  message_timer_ = thread_.loop().At(SteadyNowNs() + thread_.state().connections.message_ns,
                                     [self = shared_from_this()] { self->OnMessagesDue(); });
}

void GrpcConnection::OnMessagesDue() {
  message_timer_.reset();
  Locked([this] {
    mutex_.AssertHeld();
    bool any = false;
    session_.ForEach([&](Http2Stream& stream) { any |= static_cast<GrpcCall&>(stream).CheckMessage(); });
    if (any) WatchMessages();
  });
  DispatchEvents();
  Flush();
}

// --- Writing ---------------------------------------------------------------------------------------

void GrpcConnection::BreakLocked() noexcept {
  broken_ = true;
  ::shutdown(socket_.fd(), SHUT_RDWR);
}

void GrpcConnection::Flush() {
  if (reading != this && !Batch::Defer(shared_from_this())) FlushNow();
}

void GrpcConnection::AtEnd() noexcept {
  GuardedOrReport("gRPC connection", [this] { FlushNow(); });
}

void GrpcConnection::FlushNow() {
  std::vector<std::shared_ptr<GrpcCall>> ended;  // destroyed without the mutex
  MutexLock lock(mutex_);
  const SerialDelivery::Turn turn(delivery_);
  while (turn && !blocked_ && !broken_) {
    const Status staged = Guarded([&] {
      mutex_.AssertHeld();
      return session_.Stage(outgoing_, kMostStaged);
    });
    ended.swap(ended_);
    if (!staged.ok() || (outgoing_.empty() && session_.over())) return BreakLocked();
    if (outgoing_.empty()) return;
    bool failed = false;
    bool all = false;
    {
      const MutexUnlock unlock(mutex_);
      all = Write(failed);
      ended.clear();
    }
    if (failed) return BreakLocked();
    blocked_ = !all && !retry_;
    retry_ = false;
  }
}

bool GrpcConnection::Write(bool& failed) {
  while (!outgoing_.empty()) {
    std::array<iovec, kMostPieces> pieces;
    const size_t count = outgoing_.Gather(pieces);
    const ssize_t sent = socket_.Send({pieces.data(), count});
    if (sent < 0) {
      if (errno == EINTR) continue;
      failed = errno != EAGAIN && errno != EWOULDBLOCK;
      return false;
    }
    outgoing_.Consume(static_cast<size_t>(sent));
  }
  return true;
}

// --- Keepalive and age -----------------------------------------------------------------------------

void GrpcConnection::ArmWatch() {
  const RetryingAllocation retrying;
  const GrpcConnectionOptions& options = thread_.state().connections;
  int64_t next_ns =
      pinged_ns_ != 0 ? pinged_ns_ + options.keepalive_timeout_ns : heard_ns_ + options.keepalive_ns;
  if (aged_ns_ != 0) {
    if (options.age_grace_ns > 0) next_ns = std::min(next_ns, aged_ns_ + options.age_grace_ns);
  } else if (options.age_ns > 0) {
    next_ns = std::min(next_ns, born_ns_ + options.age_ns);
  }
  MutexLock lock(mutex_);
  if (!session_.begun()) next_ns = std::min(next_ns, born_ns_ + options.handshake_ns);
  if (options.idle_ns > 0) {
    next_ns = std::min(next_ns, (idle_since_ns_ != 0 ? idle_since_ns_ : SteadyNowNs()) + options.idle_ns);
  }
  lock.Unlock();
  watch_timer_ = thread_.loop().At(next_ns, [self = shared_from_this()] { self->Watch(); });
}

void GrpcConnection::Watch() {
  const GrpcConnectionOptions& options = thread_.state().connections;
  watch_timer_.reset();
  const int64_t now_ns = SteadyNowNs();
  bool begun = false;
  {
    MutexLock lock(mutex_);
    begun = session_.begun();
  }
  const bool no_client = !begun && now_ns >= born_ns_ + options.handshake_ns;
  const bool silent = pinged_ns_ != 0 && now_ns >= pinged_ns_ + options.keepalive_timeout_ns;
  const bool too_old = aged_ns_ != 0 && options.age_grace_ns > 0 && now_ns >= aged_ns_ + options.age_grace_ns;
  if (no_client || silent || too_old) {
    Close();
    return;
  }
  if (aged_ns_ == 0 && options.age_ns > 0 && now_ns >= born_ns_ + options.age_ns) {
    aged_ns_ = now_ns;
    Locked([this] {
      mutex_.AssertHeld();
      session_.GoAway(NGHTTP2_NO_ERROR, "max_age");
    });
  }
  if (pinged_ns_ == 0 && now_ns >= heard_ns_ + options.keepalive_ns) {
    Locked([&] {
      mutex_.AssertHeld();
      const bool may = options.pings_without_data == 0 || pings_without_data_ < options.pings_without_data;
      if (may && (options.keepalive_without_calls || session_.has_streams())) {
        ++pings_without_data_;
        pinged_ns_ = now_ns;
        session_.Ping();
      } else {
        heard_ns_ = now_ns;
      }
    });
  }
  if (options.idle_ns > 0) {
    Locked([&] {
      mutex_.AssertHeld();
      // Refused streams have no call that would report their end.
      if (idle_since_ns_ == 0 && !session_.has_streams()) idle_since_ns_ = now_ns;
      if (idle_since_ns_ == 0 || now_ns < idle_since_ns_ + options.idle_ns) return;
      idle_since_ns_ = now_ns;
      session_.GoAway(NGHTTP2_NO_ERROR, "max_idle");
    });
  }
  ArmWatch();
  Flush();
}

void GrpcConnection::OnPing() {
  mutex_.AssertHeld();
  const GrpcConnectionOptions& options = thread_.state().connections;
  const int64_t now_ns = SteadyNowNs();
  // Without calls a client may ping once in two hours, as with gRPC's own servers.
  constexpr int64_t kIdleIntervalNs = 7'200'000'000'000;
  const bool idle = !session_.has_streams() && !options.keepalive_without_calls;
  const int64_t interval_ns = idle ? kIdleIntervalNs : options.ping_interval_ns;
  if (std::exchange(data_since_ping_, false)) {
    ping_strikes_ = 0;
  } else if (last_ping_ns_ != 0 && now_ns < last_ping_ns_ + interval_ns) {
    ++ping_strikes_;
  }
  last_ping_ns_ = now_ns;
  if (options.ping_strikes > 0 && ping_strikes_ > options.ping_strikes) {
    session_.Terminate(NGHTTP2_ENHANCE_YOUR_CALM, "too_many_pings");
  }
}

void GrpcConnection::OnStreamRefused() {
  thread_.state().limits->refusals.Count(Limit::kGrpcStreams, "a connection has too many calls open");
}

void GrpcConnection::OnFault(uint32_t error, std::string_view text) {
  mutex_.AssertHeld();
  faulty_ = true;
  // nghttp2 uses this error only for resets.
  const bool resets = error == NGHTTP2_INTERNAL_ERROR;
  thread_.state().limits->refusals.Count(resets ? Limit::kGrpcResets : Limit::kHttp2,
                                         resets ? "a connection resets too many calls" : text);
}

// --- The end ---------------------------------------------------------------------------------------

void GrpcConnection::DrainCalls() {
  Locked([this] {
    mutex_.AssertHeld();
    session_.ForEach([this](Http2Stream& stream) {
      mutex_.AssertHeld();
      AddEventLocked(static_cast<GrpcCall&>(stream).shared_from_this(), GrpcEvent::kDrain);
    });
  });
  DispatchEvents();
}

void GrpcConnection::Drain() {
  Locked([this] {
    mutex_.AssertHeld();
    if (!over_) session_.GoAway(NGHTTP2_NO_ERROR, "Server shutdown");
  });
  Flush();
}

void GrpcConnection::Abort() { Close(); }

void GrpcConnection::Close() {
  const RetryingAllocation retrying;
  const std::shared_ptr<GrpcConnection> self = shared_from_this();
  {
    MutexLock lock(mutex_);
    if (over_) return;
    over_ = broken_ = true;
    session_.CloseAll();
    // A reset stops a client that keeps sending at once. With a normal close it would wait.
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    if (faulty_) ::setsockopt(socket_.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  if (deadline_timer_) thread_.loop().Withdraw(*deadline_timer_);
  for (const auto& timer : {watch_timer_, message_timer_, hold_timer_}) {
    if (timer) thread_.loop().Withdraw(*timer);
  }
  thread_.loop().Unwatch(socket_.fd());
  ::shutdown(socket_.fd(), SHUT_RDWR);
  DispatchEvents();
  thread_.Forget(self);
}

}  // namespace braid
