// Describes the REST API of an HTTP port at /openapi.json and /.
//
//   BRAID_RETURN_IF_ERROR(DescribeRest({.tensorflow_serving = true}, access, has_tokens, route));
#pragma once

#include "base/status.h"
#include "protocols/access/access_policy.h"
#include "protocols/openapi/openapi_route.h"

namespace braid {

// The protocols of a port in addition to KServe, which every port has.
struct RestProtocols {
  bool tensorflow_serving = false;  // and OpenAI's API
  bool metrics = false;
};

// Publishes the description at `route`: the protocols' routes whose groups `access` serves. `has_tokens`:
// whether senders use tokens. Errors: INTERNAL if routes and descriptions do not match.
Status DescribeRest(const RestProtocols& protocols, const AccessPolicy& access, bool has_tokens,
                    OpenApiRoute& route);

}  // namespace braid
