// The addresses of a fleet's replicas, and the sources that list them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace braid::fleet {

// One Braid server.
struct Endpoint {
  std::string host;  // a name or an address; IPv6 addresses without brackets
  uint16_t http = 8000;
  uint16_t grpc = 8001;     // 0: unknown
  uint16_t metrics = 8002;  // 0: unknown
  bool ending = false;      // the source marked it as terminating

  // Returns "host:http", the name of the replica in all output and on Envoy's hash ring.
  std::string name() const;
  bool operator==(const Endpoint&) const = default;
};

// Parses a decimal number from 0 to 65535; nullopt for any other text.
std::optional<uint16_t> ReadPort(std::string_view text);

// Parses HOST, HOST:HTTP, HOST:GRPC:HTTP or HOST:GRPC:HTTP:METRICS; IPv6 addresses stand in brackets. HOST
// alone has Braid's default ports. In the other forms, ports that are not given are unknown. Errors:
// INVALID_ARGUMENT.
Result<Endpoint> ParseEndpoint(std::string_view text);

// Parses a comma-separated list. Errors: INVALID_ARGUMENT, also for an endpoint that occurs twice.
Result<std::vector<Endpoint>> ParseEndpoints(std::string_view text);

// Returns every address of the host in sorted order, with the endpoint's ports. Errors: UNAVAILABLE if the
// name has no address.
Result<std::vector<Endpoint>> Resolve(const Endpoint& endpoint);

// A Service of Kubernetes; each of its endpoints is a replica.
struct KubernetesService {
  std::string space;  // its namespace; "": that of the calling pod
  std::string name;
  std::optional<Endpoint> ports;  // nullopt: the Service's ports named http, grpc and metrics
  bool terminating = false;       // include terminating endpoints

  std::string path() const { return space + "/" + name; }
};

// The operator's source of replicas.
struct EndpointSource {
  std::vector<Endpoint> endpoints;
  bool by_dns = false;  // the only endpoint is a DNS name, and each of its addresses is a replica
  std::optional<KubernetesService> kubernetes = {};  // if set, `endpoints` is empty
};

// Parses a list as ParseEndpoints() does, dns://ENDPOINT with a DNS name, or kubernetes:// followed by the
// text of ParseKubernetesService(). Errors: INVALID_ARGUMENT.
Result<EndpointSource> ParseEndpointSource(std::string_view text);

// Returns the current replicas. Blocks. Errors: those of Resolve() and AskKubernetes().
Result<std::vector<Endpoint>> FindReplicas(const EndpointSource& where);

// Whether the host is an IP address.
bool IsAddress(const std::string& host);

}  // namespace braid::fleet
