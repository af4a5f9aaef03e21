// Console: the console of one server with its data sources and routes.
//
//   Console console({...});             // before its port listens
//   console.SetAddresses(addresses);    // once all ports listen
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
  // Limit on a request at the metrics port, where the page tries models. Lower than the limit for models'
  // clients.
  static constexpr size_t kMostInputBytes = size_t{8} << 20;

  // The parts of the server that the console shows or uses. All outlive it.
  struct Dependencies {
    const ServerOptions& options;
    const ProtocolContext& context;
    const ClientLimits& limits;
    Observability& seen;
    Timers& timers;
    // Return the numbers of connections. Any thread.
    std::function<size_t()> http_connections;
    std::function<size_t()> grpc_connections;
  };
  // Starts to sample the counters on the timers' thread.
  explicit Console(Dependencies dependencies);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  ConsoleRoutes& routes() { return routes_; }
  // Sets the addresses of the ports, for the page to show.
  void SetAddresses(const ServerAddresses& addresses);
  // Returns nullopt if the program was built without the page, or if the port has Unix sockets only.
  std::optional<ConsolePort> Port(const ServerAddresses& addresses) const;
  // Returns "http://127.0.0.1:8002/console/"; empty without Port().
  std::string Url(const ServerAddresses& addresses) const;

  // Returns the API groups that the page needs at the metrics port.
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
