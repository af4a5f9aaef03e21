// Server: all parts of Braid, built and wired, from options to a clean end.
//
//   BRAID_ASSIGN_OR_RETURN(auto server, Server::Start(options, *log, &recent_log, loaded));   // listens, then loads models
//   ... wait for a signal ...
//   Status stopped = server->Stop();
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/recent_log.h"
#include "base/status.h"
#include "gpu/devices.h"
#include "server/options.h"
#include "server/startup_report.h"

namespace braid {

class Server {
 public:
  // Binds the ports, so that a conflict shows at once, answers health checks from then on, and loads the
  // startup set; blocks until every load has ended. `load_status` says which of them failed; what did load is
  // served. Errors: an option that makes no sense, a port in use, no usable interpreter.
  // `recent_log` has the last lines of the log, for the console; null: it shows none. Both outlive the server.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options, Logger& log,
                                               const RecentLog* recent_log, Status& load_status);
  ~Server();

  const ServerAddresses& addresses() const;
  const Catalog& catalog() const;
  // What models can be placed on.
  const std::vector<GpuDevice>& gpus() const;
  // Where a browser finds the console; empty without one.
  std::string console_url() const;

  // Stops to accept, lets requests in flight end, finalizes every model; all within the exit timeout. Errors:
  // user code could not be ended in time; the process is then to leave by _exit().
  Status Stop();

 private:
  class Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace braid
