#include "protocols/tfs/http_paths.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "protocols/http/message.h"

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

// Where the variable parts are.
struct Variables {
  std::string_view model;
  std::string_view version;
};

// Takes the next segment off a path that starts with '/'.
std::string_view TakeSegment(std::string_view& path) {
  path.remove_prefix(1);
  const size_t end = std::min(path.find('/'), path.size());
  const std::string_view segment = path.substr(0, end);
  path.remove_prefix(end);
  return segment;
}

bool MatchVariable(std::string_view expected, std::string_view segment, Variables& variables) {
  const std::string_view verb = expected.substr(3);
  if (!segment.ends_with(verb)) return false;
  segment.remove_suffix(verb.size());
  if (segment.empty() || segment.find(':') != std::string_view::npos) return false;
  if (expected[1] == 'm') variables.model = segment;
  if (expected[1] == 'v') {
    if (!std::all_of(segment.begin(), segment.end(), [](char c) { return c >= '0' && c <= '9'; }))
      return false;
    variables.version = segment;
  }
  return true;
}

std::optional<Variables> Match(std::string_view pattern, std::string_view path) {
  Variables variables;
  while (!pattern.empty() && !path.empty()) {
    const std::string_view expected = TakeSegment(pattern);
    const std::string_view segment = TakeSegment(path);
    const bool matches =
        expected.front() == '{' ? MatchVariable(expected, segment, variables) : segment == expected;
    if (!matches) return std::nullopt;
  }
  if (!pattern.empty() || !path.empty()) return std::nullopt;
  return variables;
}

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
    const auto variables = Match(route.pattern, path);
    if (!variables) continue;
    if (route.method != method) {
      match.kind = Kind::kWrongMethod;
      continue;
    }
    const std::string_view digits = variables->version;
    if (!digits.empty() &&
        std::from_chars(digits.data(), digits.data() + digits.size(), match.version).ec != std::errc()) {
      match.kind = Kind::kBadVersion;
      return match;
    }
    match.kind = Kind::kFound;
    match.route = &route;
    // The whole path has been decoded without a fault.
    match.model = PercentDecode(variables->model).value_or("");
    return match;
  }
  return match;
}

}  // namespace braid
