// The routes of a protocol: a table of rows, each with the function that answers, and the one matcher of all tables.
//
//   static constexpr HttpRoute kRoutes[] = {
//       {"GET", "/v2/models/{m}", Api::kMetadata, HttpScope::kNamed, kAnsweredBy<&Protocol::ModelMetadata>}};
//   HttpRequest request(host, exchange, kRoutes);
//   if (request.found == HttpMatch::Found::kRoute) return host.Dispatch(protocol, request);
//
// A protocol serves the rows of its tables and nothing else.
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

// Which models the access policy is asked about.
enum class HttpScope : unsigned char {
  kOne,         // the one that the request names, which the protocol sees to
  kNamed,       // the one that it names; without one, a right to any will do
  kNamedOrAll,  // the one that it names; without one, all
  kAll,
};

enum class HttpRouteKind : unsigned char {
  kUsual,
  kAtAnyTime,    // answered also while the server starts and while it exits, as health and metrics are
  kOnlyRefuses,  // has no other answer than an error, which says that this is not served; is not described
};

struct HttpRoute {
  using Function = HttpService::Answer (*)(HttpProtocol& protocol, HttpRequest& request);

  std::string_view method;
  // As "/v2/models/{m}/versions/{v}/infer": each segment is the same, or {m} a model, {n} a model without a colon, {v} a
  // version in digits, {l} a label without a colon, {r} a region or a repository, all of which have a character at
  // least. A verb may follow in the same segment: "{n}:predict".
  std::string_view pattern;
  Api api;
  HttpScope scope;
  // On the exchange's io thread, once the sender is known to have the right.
  Function answer;
  HttpRouteKind kind = HttpRouteKind::kUsual;
};

// What a table has for a request.
struct HttpMatch {
  enum class Found : unsigned char {
    kRoute,
    kNoSuchPath,
    kWrongMethod,
    kBadVersion,  // too many digits
    kBadEscape,
  } found = Found::kNoSuchPath;
  const HttpRoute* route = nullptr;
  std::optional<std::string> model;  // decoded; nothing where the path has none
  std::string region;                // likewise, and ""
  int64_t version = -1;              // -1: none in the path
  bool version_fits = true;          // false also where the method is wrong
};

// The first row of the method and the path. Rows with fixed segments stand before those with variable ones of the same
// place.
HttpMatch MatchRoute(std::span<const HttpRoute> routes, std::string_view method, std::string_view path);

// A request on its way to what answers it.
struct HttpRequest : HttpMatch {
  HttpRequest(HttpProtocolHost& its_host, const std::shared_ptr<HttpExchange>& its_exchange,
              std::span<const HttpRoute> routes);

  // What the access policy is asked about. REQUIRES: a route is found.
  Rights::Subject Subject() const;

  // Ways to answer once the body is there: with what `make` returns, on the io thread;
  HttpService::Answer WithBody(std::function<HttpResponse(std::string_view body)> make) const;
  // by whatever `begin` begins, which needs no body;
  HttpService::Answer Later(std::function<void(const std::shared_ptr<HttpExchange>&)> begin) const;
  // with what `make` returns, on a thread for calls that block. `busy`: UNAVAILABLE when too many wait for one.
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

// A member function of a protocol as HttpRoute::answer.
template <auto function>
inline constexpr HttpRoute::Function kAnsweredBy =
    [](HttpProtocol& protocol, HttpRequest& request) { return CallRoute(function, protocol, request); };

}  // namespace braid
