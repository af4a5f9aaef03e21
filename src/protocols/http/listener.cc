#include "protocols/http/listener.h"

#include <chrono>
#include <semaphore>

#include "base/clock.h"
#include "base/guard.h"
#include "protocols/http/io_thread.h"
#include "protocols/net/acceptor.h"
#include "protocols/net/listening_socket.h"

namespace braid {
namespace {

constexpr std::chrono::milliseconds kShutdownPoll{5};

}  // namespace

Result<std::unique_ptr<HttpListener>> HttpListener::Start(const HttpListenerOptions& options,
                                                          HttpService& service) {
  if (options.limits == nullptr) {
    HttpListenerOptions with_limits = options;
    with_limits.limits = std::make_shared<ClientLimits>();
    return Start(with_limits, service);
  }
  BRAID_ASSIGN_OR_RETURN(
      std::vector<ListeningSocket> sockets,
      ListenOn(options.address, options.port, options.reuse_port, options.unix_socket_mode));
  std::unique_ptr<HttpListener> listener(new HttpListener);
  listener->port_ = PortOf(sockets);
  std::vector<std::shared_ptr<IoThread>> threads;
  for (int i = 0; i < std::max(1, options.threads); ++i) {
    BRAID_ASSIGN_OR_RETURN(
        auto thread, IoThread::Create(static_cast<size_t>(i), options, service, listener->connection_count_));
    threads.push_back(std::move(thread));
  }
  std::vector<Acceptor::Taker> takers;
  for (const auto& thread : threads) {
    takers.push_back(
        {&thread->loop(), [&thread = *thread](AcceptedSocket client) { thread.Adopt(std::move(client)); }});
  }
  listener->acceptor_ = std::make_shared<Acceptor>(std::move(sockets), options.limits, std::move(takers));
  BRAID_RETURN_IF_ERROR(listener->acceptor_->Start());
  listener->threads_ = std::move(threads);
  for (const auto& thread : listener->threads_) thread->Start();
  return listener;
}

HttpListener::~HttpListener() { Shutdown(SteadyNowNs()); }

void HttpListener::Shutdown(int64_t deadline_ns) {
  if (down_ || threads_.empty()) return;
  down_ = true;
  threads_.front()->Post([acceptor = acceptor_] { acceptor->Stop(); });
  for (const auto& thread : threads_) {
    thread->Post([&thread] { thread->Drain(); });
  }
  while (connection_count_.load(std::memory_order_acquire) != 0 && SteadyNowNs() < deadline_ns) {
    std::this_thread::sleep_for(kShutdownPoll);
  }
  for (const auto& thread : threads_) {
    std::binary_semaphore aborted(0);
    if (thread->Post([&] {
          GuardedOrReport("HTTP server", [&] { thread->AbortAll(); });
          aborted.release();
        })) {
      aborted.acquire();
    }
  }
  for (const auto& thread : threads_) thread->Stop();
}

}  // namespace braid
