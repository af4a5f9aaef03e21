// Who may call what, by the metadata of a gRPC call.
#pragma once

#include <array>
#include <string>

#include "base/status.h"
#include "protocols/http2/session.h"
#include "protocols/net/access_policy.h"

namespace braid {

// The restrictions of an AccessPolicy as gRPC's metadata carries their secrets: in headers
// "triton-grpc-protocol-{header}". Constant; any thread.
class GrpcAccess {
 public:
  explicit GrpcAccess(const AccessPolicy& policy);

  // UNAVAILABLE when the API is restricted and the call does not carry its secret.
  Status Check(Api api, const Http2Head& head) const;

 private:
  struct Requirement {
    std::string header;  // empty: the API is open
    std::string value;
  };
  std::array<Requirement, kApiCount> requirements_;
};

}  // namespace braid
