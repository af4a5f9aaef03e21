// More services on the port of a GrpcServer: a protocol that shares it, such as TensorFlow Serving's.
#pragma once

#include <string>
#include <vector>

namespace grpc {
class ServerBuilder;
}

namespace braid {

class GrpcQueue;

// Belongs to one server, and outlives it.
class GrpcExtension {
 public:
  virtual ~GrpcExtension() = default;

  // Before the server is built: adds the services, which outlive the server.
  virtual void Register(grpc::ServerBuilder& builder) = 0;
  // Their full names.
  virtual std::vector<std::string> ServiceNames() const = 0;

  // Makes calls of each method wait for clients; see GrpcUnaryCall. Called by the thread of each queue when
  // it begins. A call checks the access policy of its API before it is handled.
  virtual void Arm(GrpcQueue& queue) = 0;
};

}  // namespace braid
