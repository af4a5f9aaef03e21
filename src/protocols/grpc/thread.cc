#include "protocols/grpc/thread.h"

#include "base/guard.h"
#include "protocols/grpc/connection.h"
#include "protocols/grpc/reflection.h"

namespace braid {

GrpcThread::GrpcThread(GrpcServerState& state, std::unique_ptr<EventLoop> loop)
    : state_(state), loop_(std::move(loop)), catalog_(state.catalog), access_(state.access.Reader()) {
  for (GrpcRoute& route : ReflectionRoutes()) AddRoute(std::move(route));
  for (GrpcProtocol* protocol : state.protocols) {
    for (GrpcRoute& route : protocol->Routes(*this, protocols_.emplace_back())) AddRoute(std::move(route));
  }
}

GrpcThread::~GrpcThread() = default;

void GrpcThread::AddRoute(GrpcRoute route) {
  const auto& added = routes_.emplace_back(std::make_unique<const GrpcRoute>(std::move(route)));
  by_path_.emplace(added->path, added.get());
}

const GrpcRoute* GrpcThread::FindRoute(std::string_view path) const {
  const auto found = by_path_.find(path);
  return found == by_path_.end() ? nullptr : found->second;
}

void GrpcThread::Adopt(AcceptedSocket socket) {
  if (draining_) return;
  Result<ClientSocket> client = ClientSocket::Create(std::move(socket.fd), state_.tls);
  if (!client.ok()) return;
  auto connection =
      std::make_shared<GrpcConnection>(*this, std::move(client).value(), std::move(socket.place));
  connections_.insert(connection);
  connection_count_.fetch_add(1, std::memory_order_relaxed);
  if (!Guarded([&] { return connection->Start(); }).ok()) connection->Abort();
}

void GrpcThread::Forget(const std::shared_ptr<GrpcConnection>& connection) {
  if (connections_.erase(connection) != 0) connection_count_.fetch_sub(1, std::memory_order_release);
}

void GrpcThread::DrainCalls() {
  const std::vector<std::shared_ptr<GrpcConnection>> all(connections_.begin(), connections_.end());
  for (const auto& connection : all) connection->DrainCalls();
}

void GrpcThread::Drain() {
  draining_ = true;
  const std::vector<std::shared_ptr<GrpcConnection>> all(connections_.begin(), connections_.end());
  for (const auto& connection : all) connection->Drain();
}

void GrpcThread::AbortAll() {
  const std::vector<std::shared_ptr<GrpcConnection>> all(connections_.begin(), connections_.end());
  for (const auto& connection : all) connection->Abort();
}

}  // namespace braid
