// Console: the console of one server, wired: what it shows, and its routes.
//
//   Console console({...});             // before its port listens
//   console.SetAddresses(addresses);    // once all ports do
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/published.h"
#include "protocols/access/api.h"
#include "protocols/console/console_context.h"
#include "protocols/console/console_routes.h"
#include "protocols/console/history.h"
#include "protocols/openapi/front_page.h"
#include "scheduling/timer_service.h"
#include "server/observability.h"
#include "server/options.h"
#include "server/startup_report.h"

namespace braid {

class Console {
 public:
  // Of a request at the port of metrics, where the page tries models: less than clients of models may send.
  static constexpr size_t kMostInputBytes = size_t{8} << 20;

  // What of the server it shows, and needs. All of it outlives the console.
  struct Dependencies {
    const ServerOptions& options;
    const ProtocolContext& context;
    const ClientLimits& limits;
    Observability& seen;
    Timers& timers;
    // Count connections, from any thread.
    std::function<size_t()> http_connections;
    std::function<size_t()> grpc_connections;
  };
  // Looks at the counters from now on, on the timers' thread.
  explicit Console(Dependencies dependencies);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  ConsoleRoutes& routes() { return routes_; }
  // Where the ports are, for the page to tell.
  void SetAddresses(const ServerAddresses& addresses);
  // Nothing where the program was built without the page.
  std::optional<ConsolePort> Port(const ServerAddresses& addresses) const;
  // "http://127.0.0.1:8002/console/"; empty where the program was built without the page.
  std::string Url(const ServerAddresses& addresses) const;

  // What is served at the port of metrics for the sake of the console: what the page asks for.
  static ApiSet Apis();

 private:
  void Sample();

  const Dependencies dependencies_;
  Published<ServerAddresses> addresses_;
  ConsoleHistory history_;
  const ConsoleContext context_;
  ConsoleRoutes routes_;
  Mutex mutex_;
  bool stopped_ BRAID_GUARDED_BY(mutex_) = false;
  TimerId timer_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
