// The unary methods of TensorFlow Serving but Predict: one table says which API each belongs to, and what
// answers it.
#pragma once

namespace braid {

class GrpcQueue;
class TfsServices;

// Makes calls of every such method wait for clients. On the queue's thread.
void ArmTfsControlCalls(GrpcQueue& queue, TfsServices& tfs);

}  // namespace braid
