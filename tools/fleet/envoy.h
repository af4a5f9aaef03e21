// Generates Envoy configurations for the proxy of a fleet; see docs/fleet-routing.md. Pure functions of the
// replicas' state. The templates are the files of the folder envoy/.
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
  std::string cert_file;  // of the listeners; "": plain text without TLS
  std::string key_file;
  // Request headers, besides braid-sequence-id, whose value selects the replica.
  std::vector<std::string> hash_headers;
  // The header that carries a client's replica in responses and requests; "": none.
  std::string session_header;
  // Read the sequence id from the body of a request without the header.
  bool lift_sequence_ids = false;
  // A larger request is not retried, and the Lua filter cannot read its body.
  uint32_t buffer_bytes = 4 << 20;
  // TLS between Envoy and the replicas.
  load::TlsOptions tls;
};

// A replica in Envoy's configuration.
struct Upstream {
  Endpoint endpoint;
  std::string address;    // its address; "": Envoy resolves the endpoint's host
  bool draining = false;  // receives no new requests
};

struct EnvoyFleet {
  std::vector<Upstream> upstreams;
  // The only endpoint stands for all addresses of its name; Envoy resolves it repeatedly.
  bool by_dns = false;
  std::vector<std::string> sequence_models;
};

// Returns the whole configuration as one file.
Json EnvoyConfiguration(const EnvoyFleet& fleet, const EnvoyOptions& options);

// Returns the same as several files of a folder: names and contents. Envoy starts with the first one. It
// reloads another one when a new file is renamed over it. `folder` is absolute.
std::vector<std::pair<std::string, Json>> EnvoyFiles(const EnvoyFleet& fleet, const EnvoyOptions& options,
                                                     const std::string& folder);

// Returns the Lua filter that reads the sequence id of requests to `models` from their bodies. It writes the
// id to the header braid-sequence-id if the request has none. A request without an id in its body passes
// unchanged. Braid compares header and body, and refuses a request with a wrong header.
std::string LiftSequenceIdScript(const std::vector<std::string>& models);

}  // namespace braid::fleet
