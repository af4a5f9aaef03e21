// Server: all parts of Braid, built and connected, from start to shutdown.
//
//   BRAID_ASSIGN_OR_RETURN(auto server, Server::Start(options, *log, &recent_log));   // listens
//   BRAID_RETURN_IF_ERROR(server->Load(loaded));
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
#include "server/spin_control.h"
#include "server/startup_report.h"

namespace braid {

class Server {
 public:
  // Binds the ports, so that a conflict shows at once, and then answers health checks. Errors: an invalid
  // option, a port in use, no usable interpreter. `recent_log` has the last lines of the log, for the
  // console; null: none. Both logs outlive the server. Destroy the server within a RetryingAllocation,
  // because its shutdown allocates memory.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options, Logger& log,
                                               const RecentLog* recent_log);
  // Loads the startup set. Blocks until every load has ended, or until Stop() on another thread has ended
  // them. `load_status` tells the failed loads; the other models are served. Called once. Errors: as
  // Manager::Start(); options that the config.json contradicts.
  Status Load(Status& load_status);

  const ServerAddresses& addresses() const { return fronts_->addresses(); }
  const Catalog& catalog() const { return loading_.catalog(); }
  // Returns the GPUs for models.
  const std::vector<GpuDevice>& gpus() const { return loading_.gpus().devices; }
  // Returns the console's address for a browser; empty without a console.
  std::string console_url() const { return fronts_->console_url(); }

  // Refuses new requests, waits for those in flight, and finalizes every model, all within the exit timeout.
  // After OK, Load() has returned or returns soon. Errors: user code did not end in time; the process must
  // then exit with _exit().
  Status Stop();

 private:
  Server(const ServerOptions& options, Logger& log, const RecentLog* recent_log);

  Status Open();
  Status LoadModels(Status& load_status);
  void GiveNotice();
  void DrainSequences();

  // In the order of their dependencies; destroyed in reverse order, under the owner's RetryingAllocation.
  const ServerOptions options_;
  Logger& log_;
  HeapTrimmer heap_trimmer_;
  SpinControl spin_control_;
  Observability seen_;
  const std::shared_ptr<ClientLimits> limits_;  // shared with the ports
  Loading loading_;
  std::optional<ServerControl> control_;
  std::unique_ptr<Fronts> fronts_;
};

}  // namespace braid
