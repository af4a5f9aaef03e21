// Kept-alive sockets, one epoll loop a thread. A thread with a single slot blocks in recv instead, which
// saves a system call a request.
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "arrivals.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "driver.h"
#include "http_messages.h"
#include "request_cycle.h"

namespace braid::bench {
namespace {

constexpr std::chrono::milliseconds kPauseBeforeDialing{10};
constexpr size_t kFirstBufferBytes = size_t{64} * 1024;

Result<UniqueFd> Dial(const Options& options) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(options.host.c_str(), options.port.c_str(), &hints, &found); error != 0) {
    return UnavailableError(std::string("cannot resolve the address: ") + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  UniqueFd socket(::socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || connect(socket.get(), addresses->ai_addr, addresses->ai_addrlen) != 0) {
    return UnavailableError(std::string("cannot connect: ") + std::strerror(errno));
  }
  const int one = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  timeval timeout{};
  timeout.tv_sec = static_cast<time_t>(std::ceil(options.timeout_s));
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  return socket;
}

using HttpCycle = RequestCycle<std::string>;

// One exchange after the other over one socket. `flags` of Send and Receive say whether they may block.
class Connection {
 public:
  explicit Connection(HttpCycle requests) : requests_(std::move(requests)), buffer_(kFirstBufferBytes) {}

  void Open(UniqueFd socket) { socket_ = std::move(socket); }
  void Close() { socket_.Reset(); }
  bool open() const { return socket_.valid(); }
  int fd() const { return socket_.get(); }

  // Forgets the exchange before; the next Send starts with the first byte of the request. `begin_ns`: since
  // when it has been waiting to be sent; 0: now.
  void Begin(int64_t begin_ns = 0) {
    request_ = &requests_.Next();
    sent_ = 0;
    received_ = 0;
    head_.reset();
    begin_ns_ = begin_ns != 0 ? begin_ns : SteadyNowNs();
  }

  bool sent_all() const { return request_ == nullptr || sent_ == request_->size(); }

  // Sends what it can.
  Status Send(int flags) {
    while (!sent_all()) {
      const ssize_t sent =
          ::send(socket_.get(), request_->data() + sent_, request_->size() - sent_, flags | MSG_NOSIGNAL);
      if (sent < 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN && (flags & MSG_DONTWAIT) != 0) return OkStatus();
        return UnavailableError(std::string("send: ") + std::strerror(errno));
      }
      sent_ += static_cast<size_t>(sent);
    }
    return OkStatus();
  }

  // Receives once. True when the response is whole.
  Result<bool> Receive(int flags) {
    if (received_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
    const ssize_t received =
        ::recv(socket_.get(), buffer_.data() + received_, buffer_.size() - received_, flags);
    if (received < 0) {
      if (errno == EINTR || (errno == EAGAIN && (flags & MSG_DONTWAIT) != 0)) return false;
      return UnavailableError(std::string("recv: ") + std::strerror(errno));
    }
    if (received == 0) return UnavailableError("the server closed the connection");
    received_ += static_cast<size_t>(received);
    if (!head_) {
      BRAID_ASSIGN_OR_RETURN(head_, DecodeHttpHead(std::string_view(buffer_.data(), received_)));
      if (!head_) return false;
      if (const size_t whole = head_->head_bytes + head_->body_bytes; buffer_.size() < whole)
        buffer_.resize(whole);
    }
    return received_ >= head_->head_bytes + head_->body_bytes;
  }

  // Judges the whole response and notes it down.
  void Record(const Options& options, const Window& window, Recording& recording) {
    const int64_t now_ns = SteadyNowNs();
    const std::string_view body(buffer_.data() + head_->head_bytes, head_->body_bytes);
    if (head_->status != 200) {
      recording.Failure("HTTP " + std::to_string(head_->status) + ": " + std::string(body.substr(0, 200)));
      return;
    }
    const auto outputs = decoder_.Decode(body, head_->json_bytes);
    const Status status = outputs.ok() ? options.expectation.Check(*outputs, count_++) : outputs.status();
    if (status.ok()) {
      recording.Success(window, begin_ns_, now_ns, request_->size(), received_, 1);
    } else {
      recording.Failure(status.message());
    }
  }

  bool must_close() const { return head_ && head_->close; }
  int status() const { return head_ ? head_->status : 0; }

 private:
  HttpCycle requests_;
  const std::string* request_ = nullptr;  // of the exchange
  UniqueFd socket_;
  size_t sent_ = 0;
  std::vector<char> buffer_;
  size_t received_ = 0;
  std::optional<HttpHead> head_;
  int64_t begin_ns_ = 0;
  uint64_t count_ = 0;
  HttpOutputDecoder decoder_;
};

// One blocking exchange.
Status Exchange(Connection& connection) {
  connection.Begin();
  BRAID_RETURN_IF_ERROR(connection.Send(0));
  while (true) {
    BRAID_ASSIGN_OR_RETURN(const bool whole, connection.Receive(0));
    if (whole) return OkStatus();
  }
}

class HttpDriver : public Driver {
 public:
  explicit HttpDriver(const Options& options) : options_(options), requests_(options, EncodeHttpInfer) {}

  bool Ready() override {
    return Answers("/v2/health/ready") && Answers("/v2/models/" + options_.model() + "/ready");
  }

  void Run(int slots, const Window& window, Recording& recording) override {
    if (options_.rate > 0) {
      RunOpenLoad(slots, window, recording);
    } else if (slots == 1) {
      RunBlocking(window, recording);
    } else {
      RunPolling(slots, window, recording);
    }
  }

 private:
  bool Answers(const std::string& path) const {
    auto socket = Dial(options_);
    if (!socket.ok()) return false;
    const std::string request =
        "GET " + path + " HTTP/1.1\r\nHost: " + options_.host + "\r\nContent-Length: 0\r\n\r\n";
    Connection connection(HttpCycle(std::make_shared<const std::string>(request)));
    connection.Open(std::move(socket).value());
    return Exchange(connection).ok() && connection.status() == 200;
  }

  // Dials until it succeeds or the run ends; false in the latter case.
  bool Reopen(Connection& connection, const Window& window, Recording& recording) const {
    connection.Close();
    while (!window.stop.load(std::memory_order_relaxed)) {
      auto socket = Dial(options_);
      if (socket.ok()) {
        connection.Open(std::move(socket).value());
        return true;
      }
      recording.Failure(socket.status().message());
      std::this_thread::sleep_for(kPauseBeforeDialing);
    }
    return false;
  }

  void RunBlocking(const Window& window, Recording& recording) const {
    Connection connection(requests_.Make());
    while (!window.stop.load(std::memory_order_relaxed)) {
      if (!connection.open() && !Reopen(connection, window, recording)) return;
      if (const Status status = Exchange(connection); !status.ok()) {
        recording.Failure(status.message());
        connection.Close();
        continue;
      }
      connection.Record(options_, window, recording);
      if (connection.must_close()) connection.Close();
    }
  }

  static void Watch(int poll, Connection& connection, int operation) {
    epoll_event event{};
    event.events = EPOLLIN | (connection.sent_all() ? 0U : static_cast<unsigned>(EPOLLOUT));
    event.data.ptr = &connection;
    epoll_ctl(poll, operation, connection.fd(), &event);
  }

  // Starts an exchange on an open connection that `poll` watches already, for reading alone.
  static Status BeginWatched(int poll, Connection& connection, int64_t begin_ns = 0) {
    connection.Begin(begin_ns);
    BRAID_RETURN_IF_ERROR(connection.Send(MSG_DONTWAIT));
    if (!connection.sent_all()) Watch(poll, connection, EPOLL_CTL_MOD);
    return OkStatus();
  }

  // Dials anew and starts an exchange; false when the run has ended.
  bool Restart(int poll, Connection& connection, const Window& window, Recording& recording) const {
    while (Reopen(connection, window, recording)) {
      connection.Begin();
      const Status status = connection.Send(MSG_DONTWAIT);
      if (status.ok()) {
        Watch(poll, connection, EPOLL_CTL_ADD);
        return true;
      }
      recording.Failure(status.message());
    }
    return false;
  }

  // One turn of a connection that is ready. False when it needs no further attention: the run has ended.
  bool Turn(int poll, Connection& connection, unsigned events, const Window& window,
            Recording& recording) const {
    const auto whole = GoOn(poll, connection, events);
    Status status = whole.status();
    if (whole.ok() && *whole) {
      connection.Record(options_, window, recording);
      if (window.stop.load(std::memory_order_relaxed)) return false;
      if (connection.must_close()) return Restart(poll, connection, window, recording);
      status = BeginWatched(poll, connection);
    }
    if (status.ok()) return true;
    recording.Failure(status.message());
    return Restart(poll, connection, window, recording);
  }

  void RunPolling(int slots, const Window& window, Recording& recording) const {
    const UniqueFd poll(epoll_create1(EPOLL_CLOEXEC));
    std::vector<std::unique_ptr<Connection>> connections;
    size_t live = 0;
    for (int i = 0; i < slots; ++i) {
      connections.push_back(std::make_unique<Connection>(requests_.Make()));
      if (Restart(poll.get(), *connections.back(), window, recording)) ++live;
    }
    std::vector<epoll_event> events(connections.size());
    int64_t give_up_ns = std::numeric_limits<int64_t>::max();
    while (live > 0 && SteadyNowNs() < give_up_ns) {
      const int ready = epoll_wait(poll.get(), events.data(), static_cast<int>(events.size()), 1000);
      if (give_up_ns == std::numeric_limits<int64_t>::max() && window.stop.load(std::memory_order_relaxed)) {
        give_up_ns = SteadyNowNs() + static_cast<int64_t>(options_.timeout_s * 1e9);
      }
      for (int i = 0; i < ready; ++i) {
        const epoll_event& event = events[static_cast<size_t>(i)];
        Connection& connection = *static_cast<Connection*>(event.data.ptr);
        if (Turn(poll.get(), connection, event.events, window, recording)) continue;
        connection.Close();
        --live;
      }
    }
    for (size_t i = 0; i < live; ++i) recording.Unanswered();
  }

  // A connection on which something has come. True when its exchange has ended.
  static Result<bool> GoOn(int poll, Connection& connection, unsigned events) {
    if ((events & EPOLLOUT) != 0) {
      BRAID_RETURN_IF_ERROR(connection.Send(MSG_DONTWAIT));
      if (connection.sent_all()) Watch(poll, connection, EPOLL_CTL_MOD);
    }
    return (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 ? connection.Receive(MSG_DONTWAIT)
                                                           : Result<bool>(false);
  }

  // Requests for which no connection is free wait for one.
  void RunOpenLoad(int slots, const Window& window, Recording& recording) const {
    const UniqueFd poll(epoll_create1(EPOLL_CLOEXEC));
    const UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    epoll_event due{.events = EPOLLIN, .data = {.ptr = nullptr}};
    epoll_ctl(poll.get(), EPOLL_CTL_ADD, timer.get(), &due);
    std::vector<std::unique_ptr<Connection>> connections;
    std::vector<Connection*> idle;
    for (int i = 0; i < slots; ++i) {
      auto connection = std::make_unique<Connection>(requests_.Make());
      if (!Reopen(*connection, window, recording)) return;
      Watch(poll.get(), *connection, EPOLL_CTL_ADD);
      idle.push_back(connection.get());
      connections.push_back(std::move(connection));
    }
    Arrivals arrivals(options_.rate / options_.threads, NextSeed(), SteadyNowNs());
    std::vector<epoll_event> events(connections.size() + 1);
    int64_t give_up_ns = std::numeric_limits<int64_t>::max();
    while (SteadyNowNs() < give_up_ns) {
      const bool stopped = window.stop.load(std::memory_order_relaxed);
      if (stopped && idle.size() == connections.size()) break;
      if (stopped && give_up_ns == std::numeric_limits<int64_t>::max()) {
        give_up_ns = SteadyNowNs() + static_cast<int64_t>(options_.timeout_s * 1e9);
      }
      while (!stopped && !idle.empty() && arrivals.next_ns() <= SteadyNowNs()) {
        Connection& connection = *idle.back();
        if (const Status sent = BeginWatched(poll.get(), connection, arrivals.next_ns()); !sent.ok()) {
          recording.Failure(sent.message());
          return;
        }
        idle.pop_back();
        arrivals.Advance();
      }
      // With no connection free, an answer is what is waited for.
      if (!stopped && !idle.empty()) {
        const int64_t ns = arrivals.next_ns();
        const itimerspec at{{0, 0}, {ns / 1'000'000'000, ns % 1'000'000'000}};
        timerfd_settime(timer.get(), TFD_TIMER_ABSTIME, &at, nullptr);
      }
      const int ready = epoll_wait(poll.get(), events.data(), static_cast<int>(events.size()), 100);
      for (int i = 0; i < ready; ++i) {
        const epoll_event& event = events[static_cast<size_t>(i)];
        if (event.data.ptr == nullptr) {
          uint64_t times = 0;
          [[maybe_unused]] const ssize_t taken = ::read(timer.get(), &times, sizeof times);
          continue;
        }
        Connection& connection = *static_cast<Connection*>(event.data.ptr);
        const auto whole = GoOn(poll.get(), connection, event.events);
        if (!whole.ok()) {
          recording.Failure(whole.status().message());
          return;
        }
        if (!*whole) continue;
        connection.Record(options_, window, recording);
        idle.push_back(&connection);
      }
    }
    for (size_t i = idle.size(); i < connections.size(); ++i) recording.Unanswered();
    if (!RateHeld(arrivals.next_ns(), window.end_ns.load(std::memory_order_relaxed))) recording.RateNotHeld();
  }

  const Options& options_;
  const HttpCycle::Maker requests_;
};

}  // namespace

std::unique_ptr<Driver> MakeHttpDriver(const Options& options) {
  return std::make_unique<HttpDriver>(options);
}

}  // namespace braid::bench
