#include "protocols/http/io_thread.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"
#include "protocols/http/connection.h"

namespace braid {
namespace {

// How often idle connections are looked for while the listener drains.
constexpr std::chrono::milliseconds kDrainSweep{20};

}  // namespace

IoThread::IoThread(size_t index, const HttpListenerOptions& options, HttpService& service,
                   std::atomic<size_t>& connection_count)
    : index_(index), options_(options), service_(service), connection_count_(connection_count) {}

IoThread::~IoThread() = default;

void IoThread::Start() {
  ArmSweep();
  thread_ = StartThread(options_.thread_name + "-" + std::to_string(index_), [this] {
    auto work = boost::asio::make_work_guard(context_);
    // A handler that throws leaves the loop, which then goes on with the next.
    while (!context_.stopped()) GuardedOrReport(options_.thread_name, [this] { context_.run(); });
  });
}

void IoThread::Stop() {
  {
    MutexLock lock(post_mutex_);
    stopped_ = true;
  }
  context_.stop();
  if (thread_.joinable()) thread_.join();
  sweep_timer_.cancel();
  // Handlers that were cancelled hold their connections, and those hold this object: they must run or go.
  context_.restart();
  context_.poll();
}

bool IoThread::Post(std::function<void()> task) {
  MutexLock lock(post_mutex_);
  if (stopped_) return false;
  boost::asio::post(context_, std::move(task));
  return true;
}

void IoThread::Adopt(AcceptedSocket socket) {
  if (draining()) return;
  Result<ClientSocket> client = ClientSocket::Create(std::move(socket.fd), options_.tls);
  if (!client.ok()) return;
  auto connection =
      std::make_shared<Connection>(shared_from_this(), std::move(client).value(), std::move(socket.place));
  connections_.insert(connection);
  connection_count_.fetch_add(1, std::memory_order_relaxed);
  connection->Start();
}

void IoThread::Drain() {
  draining_.store(true, std::memory_order_relaxed);
  Sweep();
  ArmSweep();
}

void IoThread::AbortAll() {
  const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
  for (const auto& connection : all) connection->Abort();
}

void IoThread::Forget(const std::shared_ptr<Connection>& connection) {
  if (connections_.erase(connection) != 0) connection_count_.fetch_sub(1, std::memory_order_release);
}

void IoThread::ArmSweep() {
  using std::chrono::milliseconds;
  const milliseconds shortest =
      std::min({options_.idle_timeout, options_.header_timeout, options_.body_timeout, options_.write_timeout,
                options_.linger_timeout});
  const milliseconds interval =
      draining() ? kDrainSweep : std::clamp(shortest / 4, milliseconds(10), milliseconds(500));
  sweep_timer_.expires_after(interval);
  sweep_timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    GuardedOrReport(options_.thread_name, [this] { Sweep(); });
    ArmSweep();
  });
}

void IoThread::Sweep() {
  const int64_t now = SteadyNowNs();
  std::vector<std::shared_ptr<Connection>> ended;
  for (const auto& connection : connections_) {
    if (connection->Expired(now, draining())) ended.push_back(connection);
  }
  for (const auto& connection : ended) connection->Close();
  std::vector<std::shared_ptr<Connection>> stalled;
  for (const auto& connection : connections_) {
    if (connection->Stalled(now)) stalled.push_back(connection);
  }
  for (const auto& connection : stalled) connection->Abort();
  for (const auto& connection : connections_) connection->LookForClient();
  if (options_.limits->budget.tight()) {
    for (const auto& connection : connections_) connection->ReleaseIdleMemory();
  }
}

}  // namespace braid
