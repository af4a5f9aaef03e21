#include "protocols/http/listener.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <semaphore>

#include "base/clock.h"
#include "protocols/http/io_thread.h"
#include "protocols/net/listening_socket.h"

namespace braid {
namespace {

// How long the acceptor rests when the process has no descriptors left.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kShutdownPoll{5};

}  // namespace

// Lives on the first io thread.
class HttpListener::Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(UniqueFd fd, std::shared_ptr<ClientLimits> limits,
           const std::vector<std::shared_ptr<IoThread>>& threads)
      : limits_(std::move(limits)),
        threads_(threads),
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
    if (!stream_.is_open()) return;
    const bool all = AcceptAll(fd_, *limits_->connections, [this](AcceptedSocket client) {
      IoThread& thread = *threads_[next_++ % threads_.size()];
      if (&thread == threads_.front().get()) {
        thread.Adopt(std::move(client));
        return;
      }
      // std::function must be copyable, so the descriptor travels in a shared pointer.
      thread.Post([&thread, shared = std::make_shared<AcceptedSocket>(std::move(client))] {
        thread.Adopt(std::move(*shared));
      });
    });
    if (all) {
      Arm();
      return;
    }
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error) self->Arm();
    });
  }

  const std::shared_ptr<ClientLimits> limits_;
  const std::vector<std::shared_ptr<IoThread>> threads_;
  const int fd_;
  boost::asio::posix::stream_descriptor stream_;
  boost::asio::steady_timer pause_;
  size_t next_ = 0;
};

Result<std::unique_ptr<HttpListener>> HttpListener::Start(const HttpListenerOptions& options,
                                                          HttpService& service) {
  if (options.limits == nullptr) {
    HttpListenerOptions with_limits = options;
    with_limits.limits = std::make_shared<ClientLimits>();
    return Start(with_limits, service);
  }
  BRAID_ASSIGN_OR_RETURN(UniqueFd fd, ListenOn(options.address, options.port, options.reuse_port));
  std::unique_ptr<HttpListener> listener(new HttpListener);
  listener->port_ = PortOf(fd.get());
  for (int i = 0; i < std::max(1, options.threads); ++i) {
    listener->threads_.push_back(
        std::make_shared<IoThread>(static_cast<size_t>(i), options, service, listener->connection_count_));
  }
  listener->acceptor_ = std::make_shared<Acceptor>(std::move(fd), options.limits, listener->threads_);
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
