#include "protocols/http/route.h"

#include <algorithm>
#include <charconv>

#include "protocols/http/protocol.h"

namespace braid {
namespace {

// The variable parts of a path, not decoded; "" for those that its pattern does not have.
struct PathVariables {
  std::string_view model;
  std::string_view version;
  std::string_view region;
};

// Removes the next segment from a path that starts with '/'.
std::string_view TakeSegment(std::string_view& path) {
  path.remove_prefix(1);
  const size_t end = std::min(path.find('/'), path.size());
  const std::string_view segment = path.substr(0, end);
  path.remove_prefix(end);
  return segment;
}

bool MatchVariable(std::string_view expected, std::string_view segment, PathVariables& variables) {
  const std::string_view verb = expected.substr(3);
  if (segment.size() <= verb.size() || !segment.ends_with(verb)) return false;
  segment.remove_suffix(verb.size());
  const bool has_colon = segment.find(':') != std::string_view::npos;
  switch (expected[1]) {
    case 'm':
      variables.model = segment;
      return true;
    case 'n':
      variables.model = segment;
      return !has_colon;
    case 'l':
      return !has_colon;
    case 'r':
      variables.region = segment;
      return true;
    case 'v':
      variables.version = segment;
      return std::all_of(segment.begin(), segment.end(), [](char c) { return c >= '0' && c <= '9'; });
  }
  return true;
}

// Does not allocate.
bool MatchPath(std::string_view pattern, std::string_view path, PathVariables& variables) {
  variables = {};
  if (!path.starts_with('/')) return false;
  while (!pattern.empty() && !path.empty()) {
    const std::string_view expected = TakeSegment(pattern);
    const std::string_view segment = TakeSegment(path);
    const bool matches =
        expected.starts_with('{') ? MatchVariable(expected, segment, variables) : segment == expected;
    if (!matches) return false;
  }
  return pattern.empty() && path.empty();
}

}  // namespace

HttpMatch MatchRoute(std::span<const HttpRoute> routes, std::string_view method, std::string_view path) {
  using Found = HttpMatch::Found;
  HttpMatch match;
  PathVariables variables;
  for (const HttpRoute& route : routes) {
    if (!MatchPath(route.pattern, path, variables)) continue;
    const std::string_view digits = variables.version;
    match.version_fits = std::from_chars(digits.data(), digits.data() + digits.size(), match.version).ec !=
                         std::errc::result_out_of_range;
    match.found = Found::kWrongMethod;
    if (route.method != method) continue;
    match.route = &route;
    if (!variables.model.empty()) match.model = PercentDecode(variables.model);
    const auto region = PercentDecode(variables.region);
    if (!match.version_fits) {
      match.found = Found::kBadVersion;
    } else if (!region || match.model.has_value() == variables.model.empty()) {
      match.found = Found::kBadEscape;
    } else {
      match.found = Found::kRoute;
      match.region = *region;
    }
    return match;
  }
  return match;
}

HttpRequest::HttpRequest(HttpProtocolHost& its_host, const std::shared_ptr<HttpExchange>& its_exchange,
                         std::span<const HttpRoute> routes)
    : HttpMatch(MatchRoute(routes, RouteMethod(its_exchange->head()), PathOf(its_exchange->head()))),
      host(its_host),
      exchange(its_exchange) {}

Rights::Subject HttpRequest::Subject() const {
  if (route->scope == HttpScope::kAll) return {route->api, ""};
  if (model) return {route->api, *model};
  if (route->scope == HttpScope::kNamedOrAll) return {route->api, ""};
  return {route->api, std::nullopt};
}

HttpService::Answer HttpRequest::WithBody(std::function<HttpResponse(std::string_view)> make) const {
  return std::make_shared<WholeBodyCall>(
      exchange, [make = std::move(make)](const std::shared_ptr<HttpExchange>& exchange, std::string body) {
        exchange->Respond(make(body));
      });
}

HttpService::Answer HttpRequest::Later(
    std::function<void(const std::shared_ptr<HttpExchange>&)> begin) const {
  return std::make_shared<WholeBodyCall>(
      exchange, [begin = std::move(begin)](const std::shared_ptr<HttpExchange>& exchange, std::string) {
        begin(exchange);
      });
}

HttpService::Answer HttpRequest::Blocking(std::string busy,
                                          std::function<Result<HttpResponse>(std::string_view)> make) const {
  return std::make_shared<WholeBodyCall>(
      exchange, [&host = host, busy = std::move(busy), make = std::move(make)](
                    const std::shared_ptr<HttpExchange>& exchange, std::string body) {
        const bool taken = host.RunBlocking([exchange, make, body = std::move(body)] {
          exchange->Respond(MakeResponse([&] { return make(body); }));
        });
        if (!taken) exchange->Respond(ErrorResponse(UnavailableError(busy)));
      });
}

}  // namespace braid
