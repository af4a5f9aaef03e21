// The unary methods of TensorFlow Serving but Predict: one table says which API each belongs to, and what
// answers it.
#pragma once

#include <vector>

#include "protocols/grpc/protocol.h"

namespace braid {

class TfsServices;

std::vector<GrpcRoute> TfsControlRoutes(TfsServices& tfs);

}  // namespace braid
