// Fronts: the ports of a server. Each has its addresses, transport, protocols and access policy.
//
//   Fronts fronts(options, log, loading, seen, limits, control);
//   BRAID_RETURN_IF_ERROR(fronts.Listen());
//   ...
//   fronts.Drain();
//   fronts.Shutdown(deadline_ns);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file_watcher.h"
#include "base/log.h"
#include "base/status.h"
#include "protocols/access/access_control.h"
#include "protocols/access/access_policy.h"
#include "protocols/grpc/server.h"
#include "protocols/http/server.h"
#include "protocols/inference/context.h"
#include "protocols/kserve/grpc/service.h"
#include "protocols/kserve/http/service.h"
#include "protocols/metrics/metrics_route.h"
#include "protocols/net/client_limits.h"
#include "protocols/net/tls.h"
#include "protocols/openai/routes.h"
#include "protocols/openapi/openapi_route.h"
#include "protocols/tfs/tfs_routes.h"
#include "protocols/tfs/tfs_services.h"
#include "server/console.h"
#include "server/loading.h"
#include "server/observability.h"
#include "server/options.h"
#include "server/rest_description.h"
#include "server/server_control.h"
#include "server/startup_report.h"

namespace braid {

class Fronts {
 public:
  // REQUIRES: `loading` is prepared. All arguments outlive the ports.
  Fronts(const ServerOptions& options, Logger& log, Loading& loading, Observability& seen,
         std::shared_ptr<ClientLimits> limits, ServerControl& control);

  // Opens the ports; each model is served as soon as it is loaded. Errors: a port in use, an unusable file.
  Status Listen();
  // Adds OpenVINO Model Server's metrics to the description of the HTTP port.
  Status DescribeOvmsMetrics();
  // Refuses new work from now on.
  void Drain();
  // Closes the ports. Answers made before the deadline still reach their clients.
  void Shutdown(int64_t deadline_ns);

  const ServerAddresses& addresses() const { return addresses_; }
  std::string console_url() const { return console_ ? console_->Url(addresses_) : ""; }

 private:
  struct HttpPort {
    AccessPolicy& access;
    OpenApiRoute openapi = {};
    std::unique_ptr<TfsRoutes> tfs = nullptr;        // null if the port does not serve it
    std::unique_ptr<OpenAiRoutes> openai = nullptr;  // with `tfs`
    std::unique_ptr<KserveHttp> kserve = nullptr;
    std::unique_ptr<HttpServer> server = nullptr;  // null: no such port
  };

  void ShareMemory();
  Status MakeAccess();
  Result<std::shared_ptr<TlsSource>> ReadCertificates(const TlsOptions& options, std::string protocol);
  void CollectMetrics();
  void MakeConsole();
  HttpServer::Options Reserved(const std::string& address, int port, std::string thread_name) const;
  Status OpenHttp(HttpPort& port, const HttpServer::Options& options, MetricsRoute& metrics,
                  const RestProtocols& rest, bool console, std::vector<std::string>& endpoints);
  Status OpenGrpc();
  Status OpenMetrics();
  Status Describe(HttpPort& port, const RestProtocols& rest) const;

  const ServerOptions& options_;
  Logger& log_;
  Loading& loading_;
  Observability& seen_;
  const std::shared_ptr<ClientLimits> limits_;  // shared with the ports
  ServerControl& control_;
  ProtocolContext context_;
  std::unique_ptr<AccessControl> access_control_;  // null without tokens and policy
  AccessPolicy metrics_access_{AccessPolicy::Wire::kHttp};
  AccessPolicy admin_access_{AccessPolicy::Wire::kHttp};
  std::shared_ptr<TlsSource> http_tls_;  // shared with all ports except gRPC's; null: no TLS
  std::shared_ptr<TlsSource> grpc_tls_;
  FileWatcher file_watcher_;
  std::unique_ptr<Console> console_;  // null: no console
  HttpPort http_{context_.http_access};
  HttpPort metrics_{metrics_access_};
  HttpPort admin_{admin_access_};
  std::unique_ptr<KserveGrpc> kserve_grpc_;
  std::unique_ptr<TfsServices> tfs_grpc_;
  std::unique_ptr<GrpcServer> grpc_;
  ServerAddresses addresses_;
};

}  // namespace braid
