#include "protocols/grpc/server.h"

#include <grpcpp/grpcpp.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "protocols/grpc/protocol.h"
#include "protocols/grpc/queue.h"
#include "protocols/grpc/server_state.h"

namespace braid {
namespace {

Result<std::string> ReadFile(const std::string& path, std::string_view what) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return InvalidArgumentError("cannot read the " + std::string(what) + " '" + path + "'");
  return text.str();
}

Result<std::shared_ptr<grpc::ServerCredentials>> MakeCredentials(const GrpcServer::Options& options) {
  if (!options.use_ssl && !options.ssl_mutual) return grpc::InsecureServerCredentials();
  BRAID_ASSIGN_OR_RETURN(std::string key, ReadFile(options.server_key_file, "server key"));
  BRAID_ASSIGN_OR_RETURN(std::string certificate, ReadFile(options.server_cert_file, "server certificate"));
  grpc::SslServerCredentialsOptions ssl(options.ssl_mutual
                                            ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                            : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  ssl.pem_key_cert_pairs.push_back({std::move(key), std::move(certificate)});
  if (!options.root_cert_file.empty()) {
    BRAID_ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadFile(options.root_cert_file, "root certificate"));
  } else if (options.ssl_mutual) {
    return InvalidArgumentError("mutual authentication needs a root certificate");
  }
  return grpc::SslServerCredentials(ssl);
}

// Why gRPC could not listen: it does not say.
Status ListenError(const GrpcServer::Options& options) {
  const std::string where = options.address + ":" + std::to_string(options.port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(options.address.c_str(), std::to_string(options.port).c_str(), &hints, &found) != 0) {
    return InvalidArgumentError("cannot listen on '" + where + "': the address is not known");
  }
  const UniqueFd fd(socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0));
  const int result = fd.get() < 0 ? -1 : bind(fd.get(), found->ai_addr, found->ai_addrlen);
  const int error = errno;
  freeaddrinfo(found);
  if (result != 0 && error != EADDRINUSE) return ErrnoError("cannot listen on '" + where + "'", error);
  if (result == 0 && (options.use_ssl || options.ssl_mutual)) {
    return InvalidArgumentError("cannot listen on '" + where + "': the key or a certificate is not valid");
  }
  return UnavailableError("Socket '" + where + "' already in use");
}

grpc_compression_level ToGrpcLevel(GrpcServer::Compression compression) {
  switch (compression) {
    case GrpcServer::Compression::kNone:
      return GRPC_COMPRESS_LEVEL_NONE;
    case GrpcServer::Compression::kLow:
      return GRPC_COMPRESS_LEVEL_LOW;
    case GrpcServer::Compression::kMedium:
      return GRPC_COMPRESS_LEVEL_MED;
    case GrpcServer::Compression::kHigh:
      return GRPC_COMPRESS_LEVEL_HIGH;
  }
  return GRPC_COMPRESS_LEVEL_NONE;
}

void SetChannelArguments(grpc::ServerBuilder& builder, const GrpcServer::Options& options) {
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.SetMaxSendMessageSize(options.max_send_bytes);
  // Without this a second server on the same port would start and get half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, options.reuse_port ? 1 : 0);
  builder.AddChannelArgument("grpc.experimental.tcp_read_chunk_size", options.tcp_read_chunk_bytes);
  builder.AddChannelArgument("grpc.experimental.tcp_max_read_chunk_size", options.tcp_max_read_chunk_bytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, options.keepalive_time_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options.keepalive_timeout_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS,
                             options.keepalive_permit_without_calls ? 1 : 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, options.http2_max_pings_without_data);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             options.http2_min_recv_ping_interval_without_data_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, options.http2_max_ping_strikes);
  if (options.max_connection_age_ms > 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, options.max_connection_age_ms);
  }
  if (options.max_connection_age_grace_ms > 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, options.max_connection_age_grace_ms);
  }
  for (const auto& [key, value] : options.channel_arguments) {
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc() && end == value.data() + value.size()) {
      builder.AddChannelArgument(key, number);
    } else {
      builder.AddChannelArgument(key, value);
    }
  }
}

}  // namespace

bool GrpcOpenCalls::Add(grpc::ServerContext& context) {
  MutexLock lock(mutex_);
  if (!draining_) contexts_.insert(&context);
  return !draining_;
}

void GrpcOpenCalls::Remove(grpc::ServerContext& context) {
  MutexLock lock(mutex_);
  contexts_.erase(&context);
}

void GrpcOpenCalls::CancelAll() {
  MutexLock lock(mutex_);
  draining_ = true;
  for (grpc::ServerContext* context : contexts_) context->TryCancel();
}

GrpcServer::GrpcServer() = default;

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(const Surroundings& surroundings,
                                                      std::vector<GrpcProtocol*> protocols,
                                                      const Options& options) {
  BRAID_ASSIGN_OR_RETURN(auto credentials, MakeCredentials(options));
  std::unique_ptr<GrpcServer> self(new GrpcServer());
  self->state_.reset(new GrpcServerState{
      surroundings.catalog, surroundings.control, surroundings.log, GrpcAccess(surroundings.access),
      ToGrpcLevel(options.infer_response_compression), std::move(protocols)});

  grpc::ServerBuilder builder;
  SetChannelArguments(builder, options);
  const bool ipv6 = options.address.find(':') != std::string::npos && options.address[0] != '[';
  const std::string host = ipv6 ? "[" + options.address + "]" : options.address;
  builder.AddListeningPort(host + ":" + std::to_string(options.port), credentials, &self->port_);
  builder.RegisterService(&self->state_->reflection);
  std::vector<std::string>& names = self->state_->service_names;
  names = {grpc::reflection::v1alpha::ServerReflection::service_full_name()};
  for (GrpcProtocol* protocol : self->state_->protocols) {
    protocol->Register(builder);
    for (std::string& name : protocol->ServiceNames()) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  // Two that wait on the queues of one small machine wake each other up for every call.
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = options.infer_threads > 0 ? options.infer_threads : std::max(1, cores / 2);
  for (int i = 0; i < threads; ++i) {
    self->queues_.push_back(std::make_unique<GrpcQueue>(*self->state_, builder.AddCompletionQueue(), i));
  }
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr || self->port_ == 0) {
    if (self->server_ != nullptr) self->server_->Shutdown();
    return ListenError(options);
  }
  for (auto& queue : self->queues_) queue->Start();
  return self;
}

GrpcServer::~GrpcServer() {
  if (server_ != nullptr) Shutdown(SteadyNowNs());
  if (state_ == nullptr) return;
  for (GrpcProtocol* protocol : state_->protocols) protocol->Stop();
}

void GrpcServer::Drain() {
  state_->draining = true;
  for (GrpcProtocol* protocol : state_->protocols) protocol->Drain();
  state_->reflections.CancelAll();
}

void GrpcServer::Shutdown(int64_t deadline_ns) {
  if (std::exchange(shut_down_, true)) return;
  Drain();
  const int64_t left_ns = std::max<int64_t>(0, deadline_ns - SteadyNowNs());
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::nanoseconds(left_ns));
  for (auto& queue : queues_) queue->Stop();
}

}  // namespace braid
