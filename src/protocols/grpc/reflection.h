// gRPC's reflection service, v1 and v1alpha: the names of the services, and the types of their messages. It
// passes the access policy like every other method (group "reflection").
#pragma once

#include <string>
#include <vector>

#include "protocols/grpc/protocol.h"
#include "reflection.pb.h"

namespace braid {

// Answers one request. `services`: the full names of all services.
grpc::reflection::v1alpha::ServerReflectionResponse AnswerReflection(
    const grpc::reflection::v1alpha::ServerReflectionRequest& request,
    const std::vector<std::string>& services);

// The full names of the two reflection services, and their methods.
std::vector<std::string> ReflectionServices();
std::vector<GrpcRoute> ReflectionRoutes();

}  // namespace braid
