// The unary methods of the control plane: one table says which API each belongs to, where it runs, and what
// answers it.
#pragma once

namespace braid {

struct KserveQueue;

// Makes one more call of every control method wait for a client. On the queue's thread.
void ArmControlCalls(KserveQueue& queue);

}  // namespace braid
