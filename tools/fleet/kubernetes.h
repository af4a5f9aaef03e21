// Finds the replicas behind a Service of Kubernetes, by the EndpointSlices of its API server. Works in a pod
// whose service account may list them; deploy/kubernetes has the Role.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "fleet/endpoint.h"

namespace braid::fleet {

// Parses [NAMESPACE/]SERVICE[:PORTS][?terminating=true]; PORTS as in ParseEndpoint(). Errors:
// INVALID_ARGUMENT.
Result<KubernetesService> ParseKubernetesService(std::string_view text);

// Asks the API server that the environment names, with the pod's service account (BRAID_KUBERNETES_ACCOUNT:
// another account's folder). Blocks for up to several seconds. Errors: UNAVAILABLE, which names the missing
// part.
Result<std::vector<Endpoint>> AskKubernetes(const KubernetesService& service);

// Returns the replicas in a list of EndpointSlices: the ready ones and, if the service includes them,
// terminating ones. A replica with a stable host name, as in a StatefulSet, is listed by it, others by their
// addresses. The result is sorted. REQUIRES: the service has its namespace.
Result<std::vector<Endpoint>> ReadEndpointSlices(std::string_view json, const KubernetesService& service);

}  // namespace braid::fleet
