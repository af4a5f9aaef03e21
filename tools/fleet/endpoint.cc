#include "fleet/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <set>

#include <spdlog/fmt/fmt.h>

#include "fleet/kubernetes.h"

namespace braid::fleet {
namespace {

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::optional<uint16_t> ReadPort(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

std::string Endpoint::name() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, http)
                                             : fmt::format("[{}]:{}", host, http);
}

Result<Endpoint> ParseEndpoint(std::string_view text) {
  const auto refused = [text] {
    return InvalidArgumentError(fmt::format(
        "'{}' is not an endpoint; expected HOST, HOST:HTTP, HOST:GRPC:HTTP or HOST:GRPC:HTTP:METRICS", text));
  };
  Endpoint endpoint;
  std::string_view rest = text;
  if (rest.starts_with('[')) {
    const size_t bracket = rest.find(']');
    if (bracket == std::string_view::npos) return refused();
    endpoint.host = rest.substr(1, bracket - 1);
    rest.remove_prefix(bracket + 1);
    if (!rest.empty() && rest.front() != ':') return refused();
  } else {
    endpoint.host = rest.substr(0, rest.find(':'));
    rest.remove_prefix(endpoint.host.size());
  }
  const bool clean = std::ranges::none_of(endpoint.host, [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f || c == '/' || c == '@';
  });
  if (endpoint.host.empty() || !clean) return refused();
  if (rest.empty()) return endpoint;
  std::vector<uint16_t> ports;
  for (const std::string_view part : Split(rest.substr(1), ':')) {
    const std::optional<uint16_t> port = ReadPort(part);
    if (!port || *port == 0) return refused();
    ports.push_back(*port);
  }
  if (ports.size() > 3) return refused();
  endpoint.grpc = ports.size() > 1 ? ports[0] : 0;
  endpoint.http = ports.size() > 1 ? ports[1] : ports[0];
  endpoint.metrics = ports.size() > 2 ? ports[2] : 0;
  return endpoint;
}

Result<std::vector<Endpoint>> ParseEndpoints(std::string_view text) {
  std::vector<Endpoint> endpoints;
  std::set<std::string> names;
  for (const std::string_view part : Split(text, ',')) {
    BRAID_ASSIGN_OR_RETURN(endpoints.emplace_back(), ParseEndpoint(part));
    if (!names.insert(endpoints.back().name()).second) {
      return InvalidArgumentError(fmt::format("duplicate endpoint {}", endpoints.back().name()));
    }
  }
  return endpoints;
}

Result<std::vector<Endpoint>> Resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(endpoint.host.c_str(), nullptr, &hints, &found); error != 0) {
    return UnavailableError(fmt::format("{}: {}", endpoint.host, gai_strerror(error)));
  }
  std::set<std::string> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      addresses.insert(text);
  }
  freeaddrinfo(found);
  std::vector<Endpoint> resolved;
  for (const std::string& address : addresses) {
    resolved.push_back(endpoint);
    resolved.back().host = address;
  }
  if (resolved.empty()) return UnavailableError(endpoint.host + " has no address");
  return resolved;
}

Result<EndpointSource> ParseEndpointSource(std::string_view text) {
  constexpr std::string_view kDns = "dns://";
  constexpr std::string_view kKubernetes = "kubernetes://";
  EndpointSource where;
  if (text.starts_with(kKubernetes)) {
    BRAID_ASSIGN_OR_RETURN(where.kubernetes, ParseKubernetesService(text.substr(kKubernetes.size())));
    return where;
  }
  where.by_dns = text.starts_with(kDns);
  if (where.by_dns) text.remove_prefix(kDns.size());
  BRAID_ASSIGN_OR_RETURN(where.endpoints, ParseEndpoints(text));
  if (where.by_dns && where.endpoints.size() != 1) return InvalidArgumentError("dns:// takes one name");
  return where;
}

Result<std::vector<Endpoint>> FindReplicas(const EndpointSource& where) {
  if (where.kubernetes) return AskKubernetes(*where.kubernetes);
  return where.by_dns ? Resolve(where.endpoints.front()) : where.endpoints;
}

bool IsAddress(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 || inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace braid::fleet
