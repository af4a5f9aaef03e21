#include "load/connection.h"

#include "load/grpc_connection.h"
#include "load/http_connection.h"

namespace braid::load {

Result<std::unique_ptr<Connection>> Connection::Open(Protocol protocol, const Dialer& dialer,
                                                     double timeout_s, const Headers& headers,
                                                     size_t most_bytes) {
  Result<std::unique_ptr<Socket>> dialed = Socket::Dial(dialer, protocol == Protocol::kGrpc, timeout_s);
  if (!dialed.ok()) {
    return Status(dialed.status().code(),
                  "cannot connect to " + dialer.address().name() + ": " + dialed.status().message());
  }
  std::unique_ptr<Socket> socket = std::move(dialed).value();
  if (protocol == Protocol::kHttp) {
    return std::unique_ptr<Connection>(std::make_unique<HttpConnection>(std::move(socket), most_bytes));
  }
  return std::unique_ptr<Connection>(std::make_unique<GrpcConnection>(
      std::move(socket), dialer.address().http_host(), dialer.tls(), headers));
}

}  // namespace braid::load
