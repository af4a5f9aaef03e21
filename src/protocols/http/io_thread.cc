#include "protocols/http/io_thread.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/guard.h"
#include "protocols/http/connection.h"

namespace braid {
namespace {

// How often the io thread looks for idle connections while the listener drains.
constexpr std::chrono::milliseconds kDrainSweep{20};

}  // namespace

IoThread::IoThread(size_t index, const HttpListenerOptions& options, HttpService& service,
                   std::atomic<size_t>& connection_count, std::unique_ptr<EventLoop> loop)
    : index_(index),
      options_(options),
      service_(service),
      connection_count_(connection_count),
      loop_(std::move(loop)) {}

IoThread::~IoThread() = default;

Result<std::shared_ptr<IoThread>> IoThread::Create(size_t index, const HttpListenerOptions& options,
                                                   HttpService& service,
                                                   std::atomic<size_t>& connection_count) {
  BRAID_ASSIGN_OR_RETURN(auto loop, EventLoop::Create(options.thread_name + "-" + std::to_string(index)));
  return std::shared_ptr<IoThread>(new IoThread(index, options, service, connection_count, std::move(loop)));
}

void IoThread::Start() {
  ArmSweep();
  loop_->Start(options_.thread_watch);
}

void IoThread::Adopt(AcceptedSocket socket) {
  if (draining()) return;
  Result<ClientSocket> client = ClientSocket::Create(std::move(socket.fd), options_.tls);
  if (!client.ok()) return;
  auto connection = std::make_shared<Connection>(shared_from_this(), std::move(client).value(),
                                                 std::move(socket.place), socket.is_unix);
  connections_.insert(connection);
  connection_count_.fetch_add(1, std::memory_order_relaxed);
  if (!Guarded([&] { return connection->Start(); }).ok()) connection->Abort();
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
  if (sweep_timer_) loop_->Withdraw(*sweep_timer_);
  const RetryingAllocation retrying;
  sweep_timer_ = loop_->At(SteadyNowNs() + std::chrono::nanoseconds(interval).count(), [this] {
    sweep_timer_.reset();
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
  const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
  for (const auto& connection : all) connection->GoOn();
  if (options_.limits->budget.tight()) {
    for (const auto& connection : connections_) connection->ReleaseIdleMemory();
  }
}

}  // namespace braid
