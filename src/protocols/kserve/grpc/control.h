// The unary methods of the control plane: one table says which API each belongs to, where it runs, and what
// answers it.
#pragma once

#include <vector>

#include "protocols/grpc/protocol.h"

namespace braid {

class KserveGrpc;

std::vector<GrpcRoute> ControlRoutes(KserveGrpc& kserve);

}  // namespace braid
