// A protocol that a GrpcServer serves: KServe v2, TensorFlow Serving. Several share one port.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocols/access/api.h"
#include "protocols/grpc/call.h"

namespace braid {

class GrpcThread;

// A method, by which calls are made.
struct GrpcRoute {
  std::string path;  // "/package.Service/Method"
  Api api;
  // Makes the call of a client who may call it; its first message comes as soon as it is there. On the I/O
  // thread, under the connection's mutex: short. Errors are the answer.
  std::function<Result<std::shared_ptr<GrpcCall>>(GrpcThread& thread, GrpcCall::Setup setup)> make;
};

// Belongs to one server, and outlives it.
class GrpcProtocol {
 public:
  // What a protocol keeps for the calls of one I/O thread; used on that thread alone.
  class ThreadState {
   public:
    virtual ~ThreadState() = default;
  };

  virtual ~GrpcProtocol() = default;

  // The full names of its services, for reflection.
  virtual std::vector<std::string> ServiceNames() const = 0;
  // Its methods. Called once for each I/O thread, before it starts; `state` goes with the thread.
  virtual std::vector<GrpcRoute> Routes(GrpcThread& thread, std::unique_ptr<ThreadState>& state) = 0;

  // No client is connected any more. Waits for what still runs on threads of the protocol's own.
  virtual void Stop() {}
};

}  // namespace braid
