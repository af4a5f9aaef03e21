// The metadata of a gRPC call, and who may call what by it.
#pragma once

#include <grpcpp/server_context.h>

#include <array>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocols/net/access_policy.h"

namespace braid {

inline std::string_view ToStd(grpc::string_ref text) { return {text.data(), text.size()}; }

// The value of a header that can be there once; "" when it is not. A view into the context.
std::string_view GrpcHeader(const grpc::ServerContextBase& context, const char* name);

// The restrictions of an AccessPolicy as gRPC's metadata carries their secrets: in headers
// "triton-grpc-protocol-{header}". Constant; any thread.
class GrpcAccess {
 public:
  explicit GrpcAccess(const AccessPolicy& policy);

  // UNAVAILABLE when the API is restricted and the call does not carry its secret.
  Status Check(Api api, const grpc::ServerContextBase& context) const;

 private:
  struct Requirement {
    std::string header;  // empty: the API is open
    std::string value;
  };
  std::array<Requirement, kApiCount> requirements_;
};

}  // namespace braid
