// FleetView: the console's access to several servers. The surrounding program queries them (fleet/), because
// the server's own code has no client for servers.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

struct FleetQuestion {
  const std::string& where;  // --fleet-endpoints
  // The viewer's Authorization header, so that each server applies the viewer's rights; empty: none.
  const std::string& authorization;
  bool tls = false;            // like this server
  const std::string& ca_file;  // for verifying certificates; empty: the system's
};

struct FleetView {
  // Checks that the text names servers. Errors: INVALID_ARGUMENT.
  Status (*check)(std::string_view where);
  // Returns the output of `braid fleet status` as JSON. Blocks for a few seconds.
  Result<std::string> (*look)(const FleetQuestion& question);
};

}  // namespace braid
