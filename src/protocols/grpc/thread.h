// GrpcThread: one I/O thread of a gRPC server ("brd-grpc-N") with its connections, and what their calls
// share.
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

  // The rest: on the loop's thread.
  CatalogReader& catalog() { return catalog_; }
  AccessReader& access() { return access_; }
  // What its connections read into; the large one for a client that has much to send.
  ReadBlock& block(bool large) { return large ? large_block_ : block_; }
  // Null when there is no such method.
  const GrpcRoute* FindRoute(std::string_view path) const;
  // Takes over a connected socket.
  void Adopt(AcceptedSocket socket);
  void Forget(const std::shared_ptr<GrpcConnection>& connection);
  // Tells all calls that the server drains.
  void DrainCalls();
  // Connections take no more calls, and close with the last of those that run.
  void Drain();
  // Cancels what runs and closes everything.
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
