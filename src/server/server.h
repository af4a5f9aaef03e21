// Server: all parts of Braid, built and wired, from options to a clean end.
//
//   BRAID_ASSIGN_OR_RETURN(auto server, Server::Start(options, *log, &recent_log, loaded));   // listens, then loads models
//   ... wait for a signal ...
//   Status stopped = server->Stop();
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/recent_log.h"
#include "base/status.h"
#include "gpu/devices.h"
#include "protocols/net/client_limits.h"
#include "server/fronts.h"
#include "server/heap_trimmer.h"
#include "server/loading.h"
#include "server/observability.h"
#include "server/options.h"
#include "server/server_control.h"
#include "server/startup_report.h"

namespace braid {

class Server {
 public:
  // Binds the ports, so that a conflict shows at once, answers health checks from then on, and loads the
  // startup set; blocks until every load has ended. `load_status` says which of them failed; what did load is
  // served. Errors: an option that makes no sense, a port in use, no usable interpreter.
  // `recent_log` has the last lines of the log, for the console; null: it shows none. Both outlive the server.
  // Destroy the server within a RetryingAllocation: its end allocates, too.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options, Logger& log,
                                               const RecentLog* recent_log, Status& load_status);

  const ServerAddresses& addresses() const { return fronts_->addresses(); }
  const Catalog& catalog() const { return loading_.catalog(); }
  // What models can be placed on.
  const std::vector<GpuDevice>& gpus() const { return loading_.gpus().devices; }
  // Where a browser finds the console; empty without one.
  std::string console_url() const { return fronts_->console_url(); }

  // Stops to accept, lets requests in flight end, finalizes every model; all within the exit timeout. Errors:
  // user code could not be ended in time; the process is then to leave by _exit().
  Status Stop();

 private:
  Server(const ServerOptions& options, Logger& log, const RecentLog* recent_log);

  Status Open(Status& load_status);
  Status Load(Status& load_status);
  void GiveNotice();
  void DrainSequences();

  // In the order in which the parts depend on one another; they are destroyed in the reverse order, under a
  // RetryingAllocation of the owner.
  const ServerOptions options_;
  Logger& log_;
  HeapTrimmer heap_trimmer_;
  Observability seen_;
  const std::shared_ptr<ClientLimits> limits_;  // shared with the ports
  Loading loading_;
  std::optional<ServerControl> control_;
  std::unique_ptr<Fronts> fronts_;
};

}  // namespace braid
