// OpenApiDocument: the REST API of a port as an OpenAPI 3.0 document, built from the routing tables.
//
//   const OpenApiPart metrics{OpenApiPartText("metrics"), MetricsRoute::Routes()};
//   auto description = OpenApiDocument(
//       {.version = "1.0", .document_api = Api::kMetrics, .served = served}, {metrics});
//
// A part (parts.h) describes each route; only the tables define which routes and paths exist. A route without
// a description, or a description without a route, is an error.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocols/access/api.h"
#include "protocols/http/route.h"

namespace braid {

// The document's own path.
inline constexpr std::string_view kOpenApiPath = "/openapi.json";

struct OpenApiPart {
  std::string_view text;
  std::span<const HttpRoute> routes;
};

struct OpenApiOptions {
  std::string version;      // the API group of the document's own route
  Api document_api;         // the groups of this port; other routes are omitted
  ApiSet served;            // whether senders use tokens
  bool has_tokens = false;  // whether senders use tokens
};

struct PortRoute {
  Api api;
  std::string method;
  std::string path;  // without the alternatives that name a version
  std::string summary;
};

struct PortDescription {
  std::string version;            // of the server
  std::string document;           // OpenAPI, as JSON
  std::vector<PortRoute> routes;  // in the order of the parts, including the document's own
};

// Adds to each operation the answers of routing and transport: the variables of its path, and the statuses
// from before a protocol gets a request. Omits components without references. Errors: INTERNAL.
Result<PortDescription> OpenApiDocument(const OpenApiOptions& options, const std::vector<OpenApiPart>& parts);

}  // namespace braid
