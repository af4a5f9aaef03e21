#include "protocols/grpc/server.h"

#include <algorithm>
#include <chrono>
#include <semaphore>
#include <thread>

#include "base/clock.h"
#include "base/guard.h"
#include "protocols/grpc/protocol.h"
#include "protocols/grpc/reflection.h"
#include "protocols/grpc/server_state.h"
#include "protocols/grpc/thread.h"
#include "protocols/net/acceptor.h"
#include "protocols/net/event_loop.h"

namespace braid {
namespace {

constexpr std::chrono::milliseconds kShutdownPoll{5};

int64_t Nanoseconds(int milliseconds) { return int64_t{milliseconds} * 1'000'000; }

GrpcConnectionOptions ConnectionOptions(const GrpcServer::Options& options) {
  GrpcConnectionOptions connections;
  connections.keepalive_ns = Nanoseconds(options.keepalive_time_ms);
  connections.keepalive_timeout_ns = Nanoseconds(options.keepalive_timeout_ms);
  connections.keepalive_without_calls = options.keepalive_permit_without_calls;
  connections.pings_without_data = options.http2_max_pings_without_data;
  connections.ping_interval_ns = Nanoseconds(options.http2_min_recv_ping_interval_without_data_ms);
  connections.ping_strikes = options.http2_max_ping_strikes;
  connections.idle_ns = Nanoseconds(options.max_connection_idle_ms);
  connections.handshake_ns = Nanoseconds(options.handshake_timeout_ms);
  connections.message_ns = Nanoseconds(options.message_timeout_ms);
  connections.age_ns = Nanoseconds(options.max_connection_age_ms);
  connections.age_grace_ns = Nanoseconds(options.max_connection_age_grace_ms);
  return connections;
}

// Returns zlib's level.
int CompressionLevel(GrpcServer::Compression compression) {
  switch (compression) {
    case GrpcServer::Compression::kNone:
      return 0;
    case GrpcServer::Compression::kLow:
      return 1;
    case GrpcServer::Compression::kMedium:
      return 6;
    case GrpcServer::Compression::kHigh:
      return 9;
  }
  return 0;
}

}  // namespace

GrpcServer::GrpcServer() = default;

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(const Dependencies& dependencies,
                                                      std::vector<GrpcProtocol*> protocols,
                                                      const Options& options) {
  BRAID_ASSIGN_OR_RETURN(std::vector<ListeningSocket> sockets,
                         ListenOn(options.address, static_cast<uint16_t>(options.port), options.reuse_port,
                                  options.unix_socket_mode));
  std::unique_ptr<GrpcServer> self(new GrpcServer());
  self->port_ = PortOf(sockets);
  Http2Session::Limits http2;
  http2.streams = static_cast<uint32_t>(options.max_concurrent_streams);
  http2.head_bytes = static_cast<size_t>(options.max_metadata_bytes);
  http2.head_fields = options.max_metadata_fields;
  http2.resets_per_second = static_cast<uint64_t>(options.max_resets_per_second);
  http2.reset_burst = 5 * http2.resets_per_second;
  std::shared_ptr<ClientLimits> limits = dependencies.limits;
  if (limits == nullptr) limits = std::make_shared<ClientLimits>(ClientLimits::Options(), &dependencies.log);
  self->state_.reset(new GrpcServerState{
      dependencies.catalog, dependencies.control, dependencies.log, dependencies.access, http2,
      ConnectionOptions(options), options.max_input_bytes,
      CompressionLevel(options.infer_response_compression), limits, options.tls, std::move(protocols)});
  std::vector<std::string>& names = self->state_->service_names;
  names = ReflectionServices();
  for (GrpcProtocol* protocol : self->state_->protocols) {
    for (std::string& name : protocol->ServiceNames()) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  const int threads = options.infer_threads > 0 ? options.infer_threads : HalfOfCores();
  for (int i = 0; i < threads; ++i) {
    BRAID_ASSIGN_OR_RETURN(auto loop, EventLoop::Create("brd-grpc-" + std::to_string(i)));
    self->threads_.push_back(std::make_unique<GrpcThread>(*self->state_, std::move(loop)));
  }
  std::vector<Acceptor::Taker> takers;
  for (const auto& thread : self->threads_) {
    takers.push_back(
        {&thread->loop(), [&thread = *thread](AcceptedSocket client) { thread.Adopt(std::move(client)); }});
  }
  const auto acceptor = std::make_shared<Acceptor>(std::move(sockets), std::move(limits), std::move(takers));
  BRAID_RETURN_IF_ERROR(acceptor->Start());
  self->acceptor_ = acceptor;
  for (auto& thread : self->threads_) thread->loop().Start(dependencies.thread_watch);
  return self;
}

GrpcServer::~GrpcServer() {
  if (acceptor_ != nullptr) Shutdown(SteadyNowNs());
  if (state_ == nullptr) return;
  // These threads use the I/O threads' calls, so they stop before the I/O threads are destroyed.
  state_->inflating.Stop();
  state_->tasks.Stop();
  for (GrpcProtocol* protocol : state_->protocols) protocol->Stop();
}

size_t GrpcServer::connection_count() const {
  size_t count = 0;
  for (const auto& thread : threads_) count += thread->connection_count();
  return count;
}

void GrpcServer::Drain() {
  state_->draining = true;
  for (auto& thread : threads_) {
    thread->loop().Post([&thread] { thread->DrainCalls(); });
  }
}

void GrpcServer::Shutdown(int64_t deadline_ns) {
  if (std::exchange(shut_down_, true)) return;
  Drain();
  threads_.front()->loop().Post([acceptor = acceptor_] { acceptor->Stop(); });
  for (auto& thread : threads_) {
    thread->loop().Post([&thread] { thread->Drain(); });
  }
  const auto connected = [this] {
    return std::any_of(threads_.begin(), threads_.end(),
                       [](const auto& thread) { return thread->connection_count() > 0; });
  };
  while (connected() && SteadyNowNs() < deadline_ns) std::this_thread::sleep_for(kShutdownPoll);
  for (auto& thread : threads_) {
    std::binary_semaphore aborted(0);
    const bool posted = thread->loop().Post([&] {
      GuardedOrReport("gRPC server", [&] { thread->AbortAll(); });
      aborted.release();
    });
    if (posted) aborted.acquire();
  }
  for (auto& thread : threads_) thread->loop().Stop();
}

}  // namespace braid
