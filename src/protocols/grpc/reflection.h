// gRPC's reflection service: which services there are, and what their messages look like. It passes the gate
// as every other method does (group "reflection"), which gRPC's own implementation of it would not.
#pragma once

#include <string>
#include <vector>

#include "reflection.pb.h"

namespace braid {

class GrpcQueue;

// Answers one question; `services` are the full names of what is served.
grpc::reflection::v1alpha::ServerReflectionResponse AnswerReflection(
    const grpc::reflection::v1alpha::ServerReflectionRequest& request,
    const std::vector<std::string>& services);

// Makes one more call wait for a client. On the queue's thread.
void ArmReflectionCall(GrpcQueue& queue);

}  // namespace braid
