// What the metadata of a gRPC call means to the server: who may call what, which headers become parameters,
// and the switches of a stream. Constant after construction; any thread.
#pragma once

#include <grpcpp/server_context.h>

#include <array>
#include <memory>
#include <string>

#include "base/status.h"
#include "protocols/kserve/access_policy.h"
#include "serving/parameters.h"
#include "serving/servable.h"

namespace re2 {
class RE2;
}

namespace braid {

class GrpcMetadataRules {
 public:
  // `forward_pattern`: metadata keys that match it whole, whatever their case, become parameters; empty
  // forwards nothing. Errors: INVALID_ARGUMENT when the pattern is no regular expression.
  static Result<std::unique_ptr<GrpcMetadataRules>> Create(const AccessPolicy& access,
                                                           const std::string& forward_pattern);
  ~GrpcMetadataRules();

  // UNAVAILABLE when the API is restricted and the call does not carry its secret.
  Status CheckAccess(Api api, const grpc::ServerContextBase& context) const;

  // Errors: INVALID_ARGUMENT when a header that matches has the name of a reserved parameter.
  Result<Parameters> ForwardedHeaders(const grpc::ServerContextBase& context) const;

  // The value of a header that can be there once; "" when it is not. A view into the context.
  static std::string_view Header(const grpc::ServerContextBase& context, const char* name);

  // The header that names the sequence of a request to such a servable; "" when it is not there, and, without
  // a look, where there are no sequences. A view into the context. Errors: INVALID_ARGUMENT when it is there
  // more than once with different values, or is no UTF-8.
  static Result<std::string_view> SequenceHeader(const ServableInfo& info,
                                                 const grpc::ServerContextBase& context);

  // Whether the client of a stream wants the first error to end it ("triton_grpc_error: true").
  static bool WantsGrpcErrors(const grpc::ServerContextBase& context);

 private:
  struct Requirement {
    std::string header;  // empty: the API is open
    std::string value;
  };

  GrpcMetadataRules();

  std::array<Requirement, kApiCount> requirements_;
  std::unique_ptr<re2::RE2> forward_pattern_;  // null: forwards nothing
};

}  // namespace braid
