// The unary methods of TensorFlow Serving but Predict: one table says which API each belongs to, and what
// answers it.
#pragma once

#include "protocols/kserve/grpc_queue.h"
#include "protocols/tfs/raw_services.h"

namespace braid {

// Makes calls of every such method wait for clients. On the queue's thread. `services` outlive the server.
void ArmTfsControlCalls(GrpcQueue& queue, TfsRawServices& services);

}  // namespace braid
