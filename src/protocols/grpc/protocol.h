// A protocol that a GrpcServer serves: KServe v2, TensorFlow Serving. Several share one port.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace grpc {
class ServerBuilder;
}

namespace braid {

class GrpcQueue;

// Belongs to one server, and outlives it.
class GrpcProtocol {
 public:
  // What a protocol keeps for the calls of one queue. Used on that queue's thread alone, and destroyed when
  // none of its calls uses gRPC any more.
  class QueueState {
   public:
    virtual ~QueueState() = default;
  };

  virtual ~GrpcProtocol() = default;

  // Before the server is built: adds the services.
  virtual void Register(grpc::ServerBuilder& builder) = 0;
  // Their full names.
  virtual std::vector<std::string> ServiceNames() const = 0;

  // Makes calls of each method wait for clients; see GrpcUnaryCall. Called by the thread of each queue when
  // it begins. A call checks the access policy of its API before it is handled.
  virtual std::unique_ptr<QueueState> Arm(GrpcQueue& queue) = 0;

  // The server drains: calls that stay open without anything under way end. Any thread, more than once.
  virtual void Drain() {}
  // No call uses gRPC any more. Waits for what still runs on threads of the protocol's own.
  virtual void Stop() {}
};

}  // namespace braid
