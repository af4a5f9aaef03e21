// The unary methods of TensorFlow Serving except Predict. One table lists each method's API and function.
#pragma once

#include <vector>

#include "protocols/grpc/protocol.h"

namespace braid {

class TfsServices;

std::vector<GrpcRoute> TfsControlRoutes(TfsServices& tfs);

}  // namespace braid
