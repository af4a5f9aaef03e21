// HttpRoute: a row in a protocol's table of routes, with the function that answers; and the matcher of all
// tables.
//
//   static constexpr HttpRoute kRoutes[] = {
//       {"GET", "/v2/models/{m}", Api::kMetadata, HttpScope::kNamed, kAnsweredBy<&Protocol::ModelMetadata>}};
//   HttpRequest request(host, exchange, kRoutes);
//   if (request.found == HttpMatch::Found::kRoute) return host.Dispatch(protocol, request);
//
// A protocol serves only the rows of its tables.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "protocols/access/rights.h"
#include "protocols/http/exchange.h"

namespace braid {

class HttpProtocol;
class HttpProtocolHost;
struct HttpRequest;

// The models for which the access policy is asked.
enum class HttpScope : unsigned char {
  kOne,         // the named one; the protocol makes sure that the request names one
  kNamed,       // the named one; without a name, a right to any model is enough
  kNamedOrAll,  // the named one; without a name, all
  kAll,
};

enum class HttpRouteKind : unsigned char {
  kUsual,
  kAtAnyTime,    // also answered while the server starts or exits, like health and metrics
  kOnlyRefuses,  // always answers with an error; is not in the API document
};

struct HttpRoute {
  using Function = HttpService::Answer (*)(HttpProtocol& protocol, HttpRequest& request);

  std::string_view method;
  // For example "/v2/models/{m}/versions/{v}/infer". A segment is literal or a variable, which has at least
  // one character: {m} a model, {n} a model without a colon, {v} a version in digits, {l} a label without a
  // colon, {r} a region or a repository. A verb may follow in the same segment: "{n}:predict".
  std::string_view pattern;
  Api api;
  HttpScope scope;
  // Called on the exchange's io thread, after the access policy has permitted the request.
  Function answer;
  HttpRouteKind kind = HttpRouteKind::kUsual;
};

// The result of a table lookup.
struct HttpMatch {
  enum class Found : unsigned char {
    kRoute,
    kNoSuchPath,
    kWrongMethod,
    kBadVersion,  // too many digits
    kBadEscape,
  } found = Found::kNoSuchPath;
  const HttpRoute* route = nullptr;
  std::optional<std::string> model;  // decoded; nullopt if the path has none
  std::string region;                // decoded; "" if the path has none
  int64_t version = -1;              // -1: none in the path
  bool version_fits = true;          // can be false for kWrongMethod too
};

// Returns the first row with the method and the path. REQUIRES: rows with a literal segment come before rows
// with a variable in the same place.
HttpMatch MatchRoute(std::span<const HttpRoute> routes, std::string_view method, std::string_view path);

// A request with the result of its lookup, which is passed to the route's function.
struct HttpRequest : HttpMatch {
  HttpRequest(HttpProtocolHost& its_host, const std::shared_ptr<HttpExchange>& its_exchange,
              std::span<const HttpRoute> routes);
  HttpRequest(HttpProtocolHost& its_host, const std::shared_ptr<HttpExchange>& its_exchange, HttpMatch match)
      : HttpMatch(std::move(match)), host(its_host), exchange(its_exchange) {}

  // Returns the subject of the access check. REQUIRES: a route is found.
  Rights::Subject Subject() const;

  // These answer once the body has arrived. WithBody(): `make` returns the response, on the io thread.
  HttpService::Answer WithBody(std::function<HttpResponse(std::string_view body)> make) const;
  // Later(): `begin` begins the work and needs no body.
  HttpService::Answer Later(std::function<void(const std::shared_ptr<HttpExchange>&)> begin) const;
  // Blocking(): `make` returns the response, on a thread for calls that block. `busy`: the text of
  // UNAVAILABLE when too many calls wait.
  HttpService::Answer Blocking(std::string busy,
                               std::function<Result<HttpResponse>(std::string_view body)> make) const;

  HttpProtocolHost& host;
  const std::shared_ptr<HttpExchange>& exchange;
};

template <class Protocol, class Returned, class Request>
HttpService::Answer CallRoute(Returned (Protocol::*function)(Request&), HttpProtocol& protocol,
                              HttpRequest& request) {
  return (static_cast<Protocol&>(protocol).*function)(static_cast<Request&>(request));
}

// Converts a member function of a protocol to HttpRoute::answer.
template <auto function>
inline constexpr HttpRoute::Function kAnsweredBy =
    [](HttpProtocol& protocol, HttpRequest& request) { return CallRoute(function, protocol, request); };

}  // namespace braid
