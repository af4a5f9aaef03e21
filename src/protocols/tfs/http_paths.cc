#include "protocols/tfs/http_paths.h"

#include <charconv>

#include "protocols/http/message.h"
#include "protocols/http/path_pattern.h"

namespace braid {
namespace {

using A = TfsAction;

constexpr TfsRoute kRoutes[] = {
    {"POST", "/v1/models/{m}:predict", Api::kInference, A::kPredict},
    {"POST", "/v1/models/{m}/versions/{v}:predict", Api::kInference, A::kPredict},
    {"POST", "/v1/models/{m}/labels/{l}:predict", Api::kInference, A::kPredict},
    {"POST", "/v1/models/{m}:classify", Api::kInference, A::kNotServed},
    {"POST", "/v1/models/{m}/versions/{v}:classify", Api::kInference, A::kNotServed},
    {"POST", "/v1/models/{m}/labels/{l}:classify", Api::kInference, A::kNotServed},
    {"POST", "/v1/models/{m}:regress", Api::kInference, A::kNotServed},
    {"POST", "/v1/models/{m}/versions/{v}:regress", Api::kInference, A::kNotServed},
    {"POST", "/v1/models/{m}/labels/{l}:regress", Api::kInference, A::kNotServed},
    {"GET", "/v1/models/{m}", Api::kMetadata, A::kStatus},
    {"GET", "/v1/models/{m}/versions/{v}", Api::kMetadata, A::kStatus},
    {"GET", "/v1/models/{m}/labels/{l}", Api::kMetadata, A::kStatus},
    {"GET", "/v1/models/{m}/metadata", Api::kMetadata, A::kMetadata},
    {"GET", "/v1/models/{m}/versions/{v}/metadata", Api::kMetadata, A::kMetadata},
    {"GET", "/v1/models/{m}/labels/{l}/metadata", Api::kMetadata, A::kMetadata},
    {"GET", "/v1/config", Api::kModelRepository, A::kConfig},
    {"POST", "/v1/config/reload", Api::kModelRepository, A::kReload},
};

// A colon begins a verb, and is in no name.
bool HasColon(std::string_view text) { return text.find(':') != std::string_view::npos; }

}  // namespace

std::span<const TfsRoute> TfsHttpRoutes() { return kRoutes; }

TfsRouteMatch MatchTfsRoute(std::string_view method, std::string_view target) {
  using Kind = TfsRouteMatch::Kind;
  TfsRouteMatch match;
  const std::string_view path = target.substr(0, target.find('?'));
  if (path != "/v1" && !path.starts_with("/v1/")) return match;
  const auto decoded = PercentDecode(path);
  if (!decoded || decoded->find("..") != std::string::npos) {
    match.kind = Kind::kBadPath;
    return match;
  }
  match.kind = Kind::kNoSuchPath;
  for (const TfsRoute& route : kRoutes) {
    PathVariables variables;
    if (!MatchPath(route.pattern, path, variables)) continue;
    if (HasColon(variables.model) || HasColon(variables.label)) continue;
    if (route.method != method) {
      match.kind = Kind::kWrongMethod;
      continue;
    }
    const std::string_view digits = variables.version;
    if (!digits.empty() &&
        std::from_chars(digits.data(), digits.data() + digits.size(), match.version).ec != std::errc()) {
      match.kind = Kind::kBadVersion;
      return match;
    }
    match.kind = Kind::kFound;
    match.route = &route;
    // The whole path has been decoded without a fault.
    match.model = PercentDecode(variables.model).value_or("");
    return match;
  }
  return match;
}

}  // namespace braid
