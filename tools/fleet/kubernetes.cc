#include "fleet/kubernetes.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "base/json.h"
#include "fleet/replica.h"

namespace braid::fleet {
namespace {

// Names that are safe in the path of a request to the API server.
bool IsLabel(std::string_view name) {
  return !name.empty() && name.size() <= 63 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

Result<std::string> Variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value != nullptr && *value != 0) return std::string(value);
  return UnavailableError(fmt::format("kubernetes:// works only in a pod: the environment has no {}", name));
}

std::string AccountFolder() {
  const char* const folder = std::getenv("BRAID_KUBERNETES_ACCOUNT");
  return folder != nullptr ? folder : "/var/run/secrets/kubernetes.io/serviceaccount";
}

// Returns the file without its line end.
Result<std::string> ReadOfAccount(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  if (!text.empty()) return text;
  return UnavailableError(
      fmt::format("{} cannot be read, or is empty: the pod needs the token of its service account "
                  "(automountServiceAccountToken: true)",
                  file));
}

Result<load::Client> ClientOfApi() {
  Endpoint api;
  BRAID_ASSIGN_OR_RETURN(api.host, Variable("KUBERNETES_SERVICE_HOST"));
  BRAID_ASSIGN_OR_RETURN(const std::string port, Variable("KUBERNETES_SERVICE_PORT"));
  const std::optional<uint16_t> number = ReadPort(port);
  if (!number)
    return UnavailableError(fmt::format("KUBERNETES_SERVICE_PORT is '{}', which is not a port", port));
  BRAID_ASSIGN_OR_RETURN(const std::string token, ReadOfAccount(AccountFolder() + "/token"));
  Asking asking;
  asking.headers = {{"authorization", "Bearer " + token}, {"accept", "application/json"}};
  asking.tls.enabled = true;
  asking.tls.ca_file = AccountFolder() + "/ca.crt";
  Result<load::Client> client = ClientOf(api, *number, asking);
  if (!client.ok()) return UnavailableError(client.status().message());
  return client;
}

struct Conditions {
  bool ready = true;
  bool terminating = false;
};

// Unset conditions count as ready and as not terminating.
Conditions ConditionsOf(const Json& endpoint) {
  const Json said = endpoint.value("conditions", Json::object());
  const auto of = [&said](const char* key, bool unknown) {
    const auto found = said.find(key);
    return found == said.end() || found->is_null() ? unknown : found->get<bool>();
  };
  const bool terminating = of("terminating", false);
  // `ready` is true for all endpoints if the Service publishes addresses that are not ready.
  return {of("serving", of("ready", true)) && !terminating, terminating};
}

// Returns the ports of a slice that have the names of Braid's chart.
Endpoint PortsOf(const Json& slice) {
  std::map<std::string, uint16_t> named;
  const Json ports = slice.value("ports", Json());
  if (ports.is_array()) {
    for (const Json& port : ports) {
      // A port without a number stands for all ports.
      const auto number = port.find("port");
      if (number != port.end() && number->is_number_unsigned()) named[port.value("name", "")] = *number;
    }
  }
  return {"", named["http"], named["grpc"], named["metrics"], false};
}

// Throws nlohmann's exceptions for values of unexpected types.
Result<std::vector<Endpoint>> Read(const Json& list, const KubernetesService& service) {
  std::map<std::string, Endpoint> found;
  std::set<std::string> pods;
  size_t others = 0;
  std::vector<const Json*> slices;
  for (const Json& slice : list.at("items")) slices.push_back(&slice);
  // A pod with IPv4 and IPv6 addresses has a slice of each.
  std::ranges::stable_sort(
      slices, {}, [](const Json* slice) { return slice->value("addressType", "") == "IPv4" ? 0 : 1; });
  for (const Json* const slice : slices) {
    const Json endpoints = slice->value("endpoints", Json());
    if (!endpoints.is_array()) continue;
    const Endpoint ports = service.ports ? *service.ports : PortsOf(*slice);
    for (const Json& each : endpoints) {
      const std::string pod = each.value("targetRef", Json::object()).value("uid", "");
      if (!pod.empty() && !pods.insert(pod).second) continue;
      const Conditions conditions = ConditionsOf(each);
      if (!conditions.ready && !(conditions.terminating && service.terminating)) {
        ++others;
        continue;
      }
      if (ports.http == 0) {
        return UnavailableError(
            fmt::format("the Service {} has no port named http; name the ports: "
                        "kubernetes://{}:8001:8000:8002",
                        service.path(), service.path()));
      }
      Endpoint endpoint = ports;
      endpoint.ending = conditions.terminating;
      const std::string hostname = each.value("hostname", "");
      endpoint.host = hostname.empty() ? each.at("addresses").at(0).get<std::string>()
                                       : fmt::format("{}.{}.{}.svc", hostname, service.name, service.space);
      found.emplace(endpoint.name(), endpoint);
    }
  }
  if (slices.empty()) {
    return UnavailableError(fmt::format("no EndpointSlices of a Service {} found", service.path()));
  }
  if (found.empty()) {
    return UnavailableError(
        fmt::format("the Service {} has no ready endpoint; there are {} others", service.path(), others));
  }
  std::vector<Endpoint> replicas;
  for (auto& [name, endpoint] : found) replicas.push_back(std::move(endpoint));
  return replicas;
}

}  // namespace

Result<KubernetesService> ParseKubernetesService(std::string_view text) {
  constexpr std::string_view kTerminating = "?terminating=true";
  const Status refused =
      InvalidArgumentError(fmt::format("'kubernetes://{}': expected kubernetes://NAMESPACE/SERVICE. "
                                       "NAMESPACE/ defaults to the pod's. Ports follow as in an "
                                       "endpoint; {} adds terminating pods",
                                       text, kTerminating));
  KubernetesService service;
  service.terminating = text.ends_with(kTerminating);
  if (service.terminating) text.remove_suffix(kTerminating.size());
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    service.space = text.substr(0, slash);
    if (!IsLabel(service.space)) return refused;
    text.remove_prefix(slash + 1);
  }
  const Result<Endpoint> named = ParseEndpoint(text);
  if (!named.ok() || !IsLabel(named->host)) return refused;
  service.name = named->host;
  if (text.size() > service.name.size()) service.ports = *named;
  return service;
}

Result<std::vector<Endpoint>> ReadEndpointSlices(std::string_view json, const KubernetesService& service) {
  try {
    return Read(ParseJson(json), service);
  } catch (const Json::exception&) {
    return UnavailableError("the Kubernetes API server returned no list of EndpointSlices");
  }
}

Result<std::vector<Endpoint>> AskKubernetes(const KubernetesService& named) {
  BRAID_ASSIGN_OR_RETURN(load::Client client, ClientOfApi());
  KubernetesService service = named;
  if (service.space.empty()) {
    BRAID_ASSIGN_OR_RETURN(service.space, ReadOfAccount(AccountFolder() + "/namespace"));
    if (!IsLabel(service.space)) return UnavailableError(AccountFolder() + "/namespace has no valid name");
  }
  const Result<std::string> answer =
      client.AskHttp("GET", fmt::format("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
                                        "?labelSelector=kubernetes.io%2Fservice-name%3D{}",
                                        service.space, service.name));
  if (!answer.ok()) {
    return UnavailableError(
        fmt::format("cannot list the EndpointSlices of the Service {}; the pod's service account needs the "
                    "right to do so: {}",
                    service.path(), answer.status().message()));
  }
  return ReadEndpointSlices(*answer, service);
}

}  // namespace braid::fleet
