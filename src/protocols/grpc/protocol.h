// GrpcProtocol: a protocol that a GrpcServer serves, such as KServe v2 or TensorFlow Serving. Several share
// one port.
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

// A method that clients can call.
struct GrpcRoute {
  std::string path;  // "/package.Service/Method"
  Api api;
  // Makes a call whose client has the right to the API. Its first message follows once it has arrived. Runs
  // on the I/O thread, under the connection's mutex, so it must be short. Errors are the response.
  std::function<Result<std::shared_ptr<GrpcCall>>(GrpcThread& thread, GrpcCall::Setup setup)> make;
};

// A protocol belongs to one server, and outlives it.
class GrpcProtocol {
 public:
  // The state of a protocol for the calls of one I/O thread. Used on that thread only.
  class ThreadState {
   public:
    virtual ~ThreadState() = default;
  };

  virtual ~GrpcProtocol() = default;

  // Returns the full names of its services, for reflection.
  virtual std::vector<std::string> ServiceNames() const = 0;
  // Returns its methods. Called once for each I/O thread, before it starts. `state` is destroyed with the
  // thread.
  virtual std::vector<GrpcRoute> Routes(GrpcThread& thread, std::unique_ptr<ThreadState>& state) = 0;

  // Waits for work on the protocol's own threads. Called after the last client has disconnected.
  virtual void Stop() {}
};

}  // namespace braid
