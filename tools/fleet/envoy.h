// Configurations of Envoy as the front of a fleet: what docs/fleet-routing.md describes. Pure functions of what the replicas serve;
// the texts are those of the folder envoy/.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "fleet/replica.h"

namespace braid::fleet {

struct EnvoyOptions {
  std::string listen_grpc = "0.0.0.0:8001";
  std::string listen_http = "0.0.0.0:8000";
  std::string admin = "127.0.0.1:9901";
  std::string cert_file;  // of the listeners; "": they do not speak TLS
  std::string key_file;
  // Beside braid-sequence-id: other headers by which requests go to one replica.
  std::vector<std::string> hash_headers;
  // The header by which Envoy tells clients their replica, and is told it; "": there is none.
  std::string session_header;
  // The id is read out of the bodies of requests that have no header.
  bool lift_sequence_ids = false;
  // A request of which more is there cannot be sent again, nor be read by the filter.
  uint32_t buffer_bytes = 4 << 20;
  // How Envoy speaks to the replicas.
  load::TlsOptions tls;
};

// A replica as Envoy is to know it.
struct Upstream {
  Endpoint endpoint;
  std::string address;    // where it is; "": Envoy asks for the addresses of the endpoint's host
  bool draining = false;  // nothing new is sent there
};

struct EnvoyFleet {
  std::vector<Upstream> upstreams;
  // One endpoint stands for all addresses of its name, which Envoy looks for again and again.
  bool by_dns = false;
  std::vector<std::string> sequence_models;
};

// The whole configuration as one file.
Json EnvoyConfiguration(const EnvoyFleet& fleet, const EnvoyOptions& options);

// The same as files of a folder: name and content. The first is what Envoy is started with; the others it reads again when one of the same
// name is renamed to them. `folder`: absolute.
std::vector<std::pair<std::string, Json>> EnvoyFiles(const EnvoyFleet& fleet, const EnvoyOptions& options,
                                                     const std::string& folder);

// The filter in Lua that reads the sequence of a request to one of `models` out of its body, where the request has no header
// braid-sequence-id, and writes it there. A request in whose body it finds nothing goes on as it came. Braid itself compares header and body,
// and refuses a request whose id was read wrongly.
std::string LiftSequenceIdScript(const std::vector<std::string>& models);

}  // namespace braid::fleet
