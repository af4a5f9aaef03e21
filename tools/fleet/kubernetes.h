// The replicas behind a Service of Kubernetes, by the EndpointSlices that its API server has of it. For processes in a pod whose service
// account may list them: deploy/kubernetes has the Role.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "fleet/endpoint.h"

namespace braid::fleet {

// Reads [NAMESPACE/]SERVICE[:PORTS][?terminating=true], with ports as ParseEndpoint() has them. Errors: INVALID_ARGUMENT.
Result<KubernetesService> ParseKubernetesService(std::string_view text);

// Asks the API server where the environment says that it is, as the account whose folder is there (BRAID_KUBERNETES_ACCOUNT for another
// one). Blocks, for seconds. Errors: UNAVAILABLE, with what was expected and is not there.
Result<std::vector<Endpoint>> AskKubernetes(const KubernetesService& service);

// The replicas in a list of EndpointSlices: those that are ready, and, where the service asks for them, those that are ending. By their names
// where they have some that last, as pods of a StatefulSet do, else by their addresses; in order. REQUIRES: the service has its namespace.
Result<std::vector<Endpoint>> ReadEndpointSlices(std::string_view json, const KubernetesService& service);

}  // namespace braid::fleet
