// The unary methods of the control plane: one table says which API each belongs to, where it runs, and what
// answers it.
#pragma once

#include "protocols/kserve/grpc_queue.h"

namespace braid {

// Makes one more call of every control method wait for a client. On the queue's thread.
void ArmControlCalls(GrpcQueue& queue);

}  // namespace braid
