// Console: the console of one server, wired: what it shows, and its routes.
//
//   Console console(options, context, limits, http_connections, grpc_connections);   // before its port listens
//   console.SetAddresses(addresses);                                                 // once all ports do
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/published.h"
#include "protocols/access/api.h"
#include "protocols/console/console_context.h"
#include "protocols/console/console_routes.h"
#include "server/options.h"
#include "server/startup_report.h"

namespace braid {

class Console {
 public:
  // Of a request at the port of metrics, where the page tries models: less than clients of models may send.
  static constexpr size_t kMostInputBytes = size_t{8} << 20;

  // The references outlive it. The functions count connections, from any thread.
  Console(const ServerOptions& options, const ProtocolContext& context, const ClientLimits& limits,
          std::function<size_t()> http_connections, std::function<size_t()> grpc_connections);

  ConsoleRoutes& routes() { return routes_; }
  // Where the ports are, for the page to tell.
  void SetAddresses(const ServerAddresses& addresses);
  // "http://127.0.0.1:8002/console/"
  std::string Url(const ServerAddresses& addresses) const;

  // What is served at the port of metrics for the sake of the console: what the page asks for.
  static ApiSet Apis();

 private:
  const ServerOptions& options_;
  Published<ServerAddresses> addresses_;
  const ConsoleContext context_;
  ConsoleRoutes routes_;
};

}  // namespace braid
