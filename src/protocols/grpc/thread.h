// GrpcThread: one I/O thread of a gRPC server ("brd-grpc-N") with its connections, and the state that their
// calls share.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "protocols/access/access_control.h"
#include "protocols/grpc/protocol.h"
#include "protocols/grpc/read_block.h"
#include "protocols/grpc/server_state.h"
#include "protocols/net/event_loop.h"
#include "protocols/net/listening_socket.h"
#include "serving/catalog.h"

namespace braid {

class GrpcConnection;

class GrpcThread {
 public:
  GrpcThread(GrpcServerState& state, std::unique_ptr<EventLoop> loop);
  ~GrpcThread();
  GrpcThread(const GrpcThread&) = delete;
  GrpcThread& operator=(const GrpcThread&) = delete;

  EventLoop& loop() { return *loop_; }
  GrpcServerState& state() { return state_; }
  size_t connection_count() const { return connection_count_.load(std::memory_order_acquire); }

  // Call the functions below on the loop's thread.
  CatalogReader& catalog() { return catalog_; }
  AccessReader& access() { return access_; }
  // The block into which its connections read; the large one for a client that sends much.
  ReadBlock& block(bool large) { return large ? large_block_ : block_; }
  // Returns null for an unknown method.
  const GrpcRoute* FindRoute(std::string_view path) const;
  // Takes over an accepted socket.
  void Adopt(AcceptedSocket socket);
  void Forget(const std::shared_ptr<GrpcConnection>& connection);
  // Notifies all calls that the server drains.
  void DrainCalls();
  // Takes no more calls. Each connection closes with its last running call.
  void Drain();
  // Cancels running calls and closes all connections.
  void AbortAll();

 private:
  void AddRoute(GrpcRoute route);

  GrpcServerState& state_;
  const std::unique_ptr<EventLoop> loop_;
  CatalogReader catalog_;
  AccessReader access_;
  ReadBlock block_{size_t{64} << 10};
  ReadBlock large_block_{size_t{1} << 20};
  std::vector<std::unique_ptr<GrpcProtocol::ThreadState>> protocols_;
  std::vector<std::unique_ptr<const GrpcRoute>> routes_;
  std::unordered_map<std::string_view, const GrpcRoute*> by_path_;
  std::unordered_set<std::shared_ptr<GrpcConnection>> connections_;  // shared with their calls
  std::atomic<size_t> connection_count_{0};
  bool draining_ = false;
};

}  // namespace braid
