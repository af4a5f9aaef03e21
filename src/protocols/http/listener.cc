#include "protocols/http/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <semaphore>

#include "base/clock.h"
#include "base/guard.h"
#include "protocols/http/io_thread.h"

namespace braid {
namespace {

// How long the acceptor rests when the process has no descriptors left.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kShutdownPoll{5};

struct AddressInfoDeleter {
  void operator()(addrinfo* info) const { ::freeaddrinfo(info); }
};

using AddressInfo = std::unique_ptr<addrinfo, AddressInfoDeleter>;

// The first is what is listened on.
Result<AddressInfo> Resolve(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure == 0) return AddressInfo(found);
  return InvalidArgumentError("cannot resolve the address '" + address + "': " + ::gai_strerror(failure));
}

Result<UniqueFd> Listen(const HttpListenerOptions& options) {
  const std::string where = options.address + ":" + std::to_string(options.port);
  BRAID_ASSIGN_OR_RETURN(const AddressInfo info, Resolve(options.address, options.port));
  UniqueFd fd(::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError("cannot make a socket for " + where, errno);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (options.reuse_port && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) {
    return ErrnoError("cannot share the port of " + where, errno);
  }
  if (::bind(fd.get(), info->ai_addr, info->ai_addrlen) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE) return UnavailableError("Socket '" + where + "' already in use");
    return ErrnoError("cannot listen on " + where, errno);
  }
  return fd;
}

uint16_t PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof(v6));
    return ntohs(v6.sin6_port);
  }
  sockaddr_in v4{};
  std::memcpy(&v4, &address, sizeof(v4));
  return ntohs(v4.sin_port);
}

}  // namespace

bool IsLoopback(const std::string& address) {
  const auto info = Resolve(address, 0);
  if (!info.ok()) return false;
  if ((*info)->ai_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, (*info)->ai_addr, sizeof(v4));
    return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, (*info)->ai_addr, std::min<size_t>(sizeof(v6), (*info)->ai_addrlen));
  return (*info)->ai_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

// Lives on the first io thread.
class HttpListener::Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(UniqueFd fd, const std::vector<std::shared_ptr<IoThread>>& threads)
      : threads_(threads),
        fd_(fd.get()),
        stream_(threads.front()->context(), fd.Release()),
        pause_(threads.front()->context()) {}

  void Arm() {
    stream_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [self = shared_from_this()](boost::system::error_code error) {
                         if (!error) self->Accept();
                       });
  }

  void Close() {
    boost::system::error_code ignored;
    stream_.close(ignored);
    pause_.cancel();
  }

 private:
  void Accept() {
    while (stream_.is_open()) {
      UniqueFd client(::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!client.valid()) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
          Arm();
        } else {
          pause_.expires_after(kAcceptPause);
          pause_.async_wait([self = shared_from_this()](boost::system::error_code error) {
            if (!error) self->Arm();
          });
        }
        return;
      }
      const int on = 1;
      ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      IoThread& thread = *threads_[next_++ % threads_.size()];
      GuardedOrReport("HTTP listener", [&] {
        if (&thread == threads_.front().get()) {
          thread.Adopt(std::move(client));
        } else {
          // std::function must be copyable, so the descriptor travels in a shared pointer.
          thread.Post([&thread, shared = std::make_shared<UniqueFd>(std::move(client))] {
            thread.Adopt(std::move(*shared));
          });
        }
      });
    }
  }

  const std::vector<std::shared_ptr<IoThread>> threads_;
  const int fd_;
  boost::asio::posix::stream_descriptor stream_;
  boost::asio::steady_timer pause_;
  size_t next_ = 0;
};

Result<std::unique_ptr<HttpListener>> HttpListener::Start(const HttpListenerOptions& options,
                                                          HttpService& service) {
  BRAID_ASSIGN_OR_RETURN(UniqueFd fd, Listen(options));
  std::unique_ptr<HttpListener> listener(new HttpListener);
  listener->port_ = PortOf(fd.get());
  for (int i = 0; i < std::max(1, options.threads); ++i) {
    listener->threads_.push_back(
        std::make_shared<IoThread>(static_cast<size_t>(i), options, service, listener->connection_count_));
  }
  listener->acceptor_ = std::make_shared<Acceptor>(std::move(fd), listener->threads_);
  listener->acceptor_->Arm();
  for (const auto& thread : listener->threads_) thread->Start();
  return listener;
}

HttpListener::~HttpListener() { Shutdown(SteadyNowNs()); }

void HttpListener::Shutdown(int64_t deadline_ns) {
  if (down_ || threads_.empty()) return;
  down_ = true;
  threads_.front()->Post([acceptor = acceptor_] { acceptor->Close(); });
  for (const auto& thread : threads_) {
    thread->Post([&thread] { thread->Drain(); });
  }
  while (connection_count_.load(std::memory_order_acquire) != 0 && SteadyNowNs() < deadline_ns) {
    std::this_thread::sleep_for(kShutdownPoll);
  }
  for (const auto& thread : threads_) {
    std::binary_semaphore aborted(0);
    if (thread->Post([&] {
          thread->AbortAll();
          aborted.release();
        })) {
      aborted.acquire();
    }
  }
  for (const auto& thread : threads_) thread->Stop();
  // The acceptor and the first thread hold each other.
  acceptor_.reset();
}

}  // namespace braid
