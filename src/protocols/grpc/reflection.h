// gRPC's reflection service, v1 and v1alpha: which services there are, and what their messages look like. It
// passes the gate as every other method does (group "reflection").
#pragma once

#include <string>
#include <vector>

#include "protocols/grpc/protocol.h"
#include "reflection.pb.h"

namespace braid {

// Answers one question; `services` are the full names of what is served.
grpc::reflection::v1alpha::ServerReflectionResponse AnswerReflection(
    const grpc::reflection::v1alpha::ServerReflectionRequest& request,
    const std::vector<std::string>& services);

// The full names of the two services, and their methods.
std::vector<std::string> ReflectionServices();
std::vector<GrpcRoute> ReflectionRoutes();

}  // namespace braid
