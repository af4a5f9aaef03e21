// The unary methods of the control plane. One table lists each method's API, its thread and its function.
#pragma once

#include <vector>

#include "protocols/grpc/protocol.h"

namespace braid {

class KserveGrpc;

std::vector<GrpcRoute> ControlRoutes(KserveGrpc& kserve);

}  // namespace braid
