// What an HTTP port of the server says of its REST API at /openapi.json and /.
//
//   BRAID_RETURN_IF_ERROR(DescribeRest({.tensorflow_serving = true}, access, has_tokens, route));
#pragma once

#include "base/status.h"
#include "protocols/access/access_policy.h"
#include "protocols/openapi/openapi_route.h"

namespace braid {

// The protocols of a port, beside KServe, which every port has.
struct RestProtocols {
  bool tensorflow_serving = false;
  bool metrics = false;
};

// Publishes the description at `route`: the routes of the protocols whose groups `access` serves. `has_tokens`: whether
// senders show tokens. Errors: INTERNAL, where the routes and their descriptions do not fit each other.
Status DescribeRest(const RestProtocols& protocols, const AccessPolicy& access, bool has_tokens,
                    OpenApiRoute& route);

}  // namespace braid
