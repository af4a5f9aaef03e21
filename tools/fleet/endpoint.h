// Where the replicas of a fleet are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace braid::fleet {

// One Braid.
struct Endpoint {
  std::string host;  // a name or an address; one of IPv6 without brackets
  uint16_t http = 8000;
  uint16_t grpc = 8001;     // 0: not known
  uint16_t metrics = 8002;  // 0: not known
  bool ending = false;      // whoever told of it has said that it will go

  // "host:http", as the replica is called in all that is printed, and as Envoy places it on its ring.
  std::string name() const;
  bool operator==(const Endpoint&) const = default;
};

// A number from 0 to 65535 in digits, and nothing else.
std::optional<uint16_t> ReadPort(std::string_view text);

// Reads HOST, HOST:HTTP, HOST:GRPC:HTTP or HOST:GRPC:HTTP:METRICS, with IPv6 addresses in brackets. HOST alone has the ports that Braid
// has by default; of the others those that are not named are not known. Errors: INVALID_ARGUMENT.
Result<Endpoint> ParseEndpoint(std::string_view text);

// Reads a list with commas between. Errors: INVALID_ARGUMENT; also for one that is named twice.
Result<std::vector<Endpoint>> ParseEndpoints(std::string_view text);

// Every address of the host, in order, with its ports. Errors: UNAVAILABLE where the name has none.
Result<std::vector<Endpoint>> Resolve(const Endpoint& endpoint);

// A Service of Kubernetes, each of whose endpoints is a replica.
struct KubernetesService {
  std::string space;  // its namespace; "": that of the pod that asks
  std::string name;
  std::optional<Endpoint> ports;  // nothing: those that the Service calls http, grpc and metrics
  bool terminating = false;       // those that are ending, too

  std::string path() const { return space + "/" + name; }
};

// Where an operator says that the replicas are.
struct EndpointSource {
  std::vector<Endpoint> endpoints;
  bool by_dns = false;  // the one endpoint has a name, each of whose addresses is a replica
  std::optional<KubernetesService> kubernetes = {};  // there are no endpoints then
};

// Reads a list as ParseEndpoints() does; dns://NAME, where NAME has the form of an endpoint; or kubernetes:// and what
// ParseKubernetesService() reads. Errors: INVALID_ARGUMENT.
Result<EndpointSource> ParseEndpointSource(std::string_view text);

// The replicas of the moment. Blocks. Errors: as Resolve() and AskKubernetes().
Result<std::vector<Endpoint>> FindReplicas(const EndpointSource& where);

// Whether the host is an address already.
bool IsAddress(const std::string& host);

}  // namespace braid::fleet
