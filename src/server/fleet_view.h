// What the console shows of several servers. The program around the server asks them (fleet/): the server's own code has no client
// of servers.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

struct FleetQuestion {
  const std::string& where;  // --fleet-endpoints
  // What the viewer has shown, so that each server says what it would say to the viewer; empty: nothing.
  const std::string& authorization;
  bool tls = false;            // as this server
  const std::string& ca_file;  // by which certificates are known; empty: the system's
};

struct FleetView {
  // Whether the text names servers. Errors: INVALID_ARGUMENT.
  Status (*check)(std::string_view where);
  // What `braid fleet status` says, as JSON. Blocks for a few seconds.
  Result<std::string> (*look)(const FleetQuestion& question);
};

}  // namespace braid
