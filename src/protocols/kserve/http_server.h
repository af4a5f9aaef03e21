// HttpServer: the KServe v2 protocol over HTTP/1.1.
//
//   HttpServer::Options options;
//   options.port = 8000;
//   BRAID_ASSIGN_OR_RETURN(auto server, HttpServer::Start(context, options));
//   ...
//   server->Shutdown(SteadyNowNs() + 30'000'000'000);
//
// Every request passes one place: its sender is checked (http_gate.h), it is looked up in the table of routes
// (http_routes.h), checked against the access policy, and refused while the server does not serve. Tensors in
// binary form go from the socket to the memory of the servable's allocator, and from the response's buffers
// to the socket, without a copy in between. Calls that block, such as loading a model, run on threads of
// their own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocols/kserve/kserve_context.h"

namespace inference {
class ModelConfig;
}

namespace braid {

class HttpExtension;

class HttpServer {
 public:
  struct Options {
    std::string address = "0.0.0.0";
    uint16_t port = 0;  // 0: the system chooses
    bool reuse_port = false;
    int threads = 2;
    // Of a body, and of one input.
    size_t max_input_bytes = size_t{64} * 1024 * 1024;
    // Request headers whose whole name matches this regular expression (RE2, case does not matter) become
    // parameters of the request. Empty: none.
    std::string header_forward_pattern;
    // See HttpGate.
    std::vector<std::string> allowed_origins;
    std::vector<std::string> allowed_hosts;
    // JSON text of a configuration, for the config route.
    std::function<std::string(const inference::ModelConfig&)> config_to_json;
    // Threads for calls of the model repository.
    int control_threads = 4;
    // Other protocols on this port. Not owned; they outlive the server.
    std::vector<HttpExtension*> extensions;
  };

  // Listens and serves. `context` outlives the server.
  // Errors: as HttpListener::Start; INVALID_ARGUMENT for a pattern that is no regular expression.
  static Result<std::unique_ptr<HttpServer>> Start(KserveContext& context, Options options);
  ~HttpServer();

  uint16_t bound_port() const;

  // Answers what is under way until `deadline_ns` (SteadyNowNs() time), cancels the rest. Blocks; also until
  // a load that was asked for over HTTP has returned.
  void Shutdown(int64_t deadline_ns);

 private:
  class Service;
  explicit HttpServer(std::unique_ptr<Service> service);
  std::unique_ptr<Service> service_;
};

}  // namespace braid
