// The REST API of a port as an OpenAPI 3.0 document, made from the tables that requests are routed by.
//
//   const OpenApiPart metrics{OpenApiMetricsPart(), MetricsRoute::Routes()};
//   auto description = OpenApiDocument({.version = "1.0", .document_api = Api::kMetrics, .served = served}, {metrics});
//
// What a route is for stands in a part (parts.h); that there is such a route, and under which paths, stands in the
// table alone. A route that no part describes, and a description that no route has, is an error.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocols/access/api.h"
#include "protocols/http/route.h"

namespace braid {

// The path of the document itself.
inline constexpr std::string_view kOpenApiPath = "/openapi.json";

struct OpenApiPart {
  std::string_view text;
  std::span<const HttpRoute> routes;
};

struct OpenApiOptions {
  std::string version;      // of the server
  Api document_api;         // that the document's own route belongs to
  ApiSet served;            // at this port; routes of others are left out
  bool has_tokens = false;  // whether senders show tokens
};

struct PortRoute {
  Api api;
  std::string method;
  std::string path;  // without the ways to name a version
  std::string summary;
};

struct PortDescription {
  std::string version;            // of the server
  std::string document;           // OpenAPI, as JSON
  std::vector<PortRoute> routes;  // in the order of the parts; the document's own among them
};

// Adds to each operation what the routing and the transport answer for all of them: the variables of its path, and
// the statuses from before a protocol sees a request. Leaves out components that nothing refers to.
// Errors: INTERNAL.
Result<PortDescription> OpenApiDocument(const OpenApiOptions& options, const std::vector<OpenApiPart>& parts);

}  // namespace braid
