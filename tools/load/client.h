// One question to a server after the other: what it serves, statistics, inference. Blocks its thread, each call for the time-out at
// most. Any server that speaks KServe v2 will do; what one does not have is said so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/connection.h"
#include "load/messages.h"
#include "load/tensor.h"

namespace braid::load {

struct TensorInfo {
  std::string name;
  std::string datatype;        // empty: the metadata does not tell it, as that of a graph
  std::vector<int64_t> shape;  // -1: of any size
  bool optional = false;       // a request may leave it out
  bool any_shape = false;      // the metadata tells not even how many dimensions it has
};

struct ModelInfo {
  std::string name;
  std::vector<std::string> versions;
  std::string platform;
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  // From the configuration, which only servers with Triton's extension tell.
  bool has_config = false;
  int64_t max_batch_size = 0;
  bool decoupled = false;
  bool sequences = false;
};

// What a server has counted for a model since its start: over its versions, or of one.
struct ServerStatistics {
  uint64_t requests = 0;  // that succeeded
  uint64_t failures = 0;
  uint64_t inferences = 0;  // requests by their batch
  uint64_t executions = 0;
  uint64_t request_ns = 0;
  uint64_t queue_ns = 0;
  uint64_t input_ns = 0;
  uint64_t infer_ns = 0;
  uint64_t output_ns = 0;

  ServerStatistics operator+(const ServerStatistics& other) const;
  ServerStatistics operator-(const ServerStatistics& before) const;
};

class Client {
 public:
  // `headers`: names in lower case, for each request. `most_bytes`: what an answer of HTTP may have.
  Client(Protocol protocol, std::shared_ptr<const Dialer> dialer, Connection::Headers headers,
         double timeout_s, size_t most_bytes = SIZE_MAX);
  ~Client();
  Client(Client&&) noexcept;

  // Whether the server and the model are ready.
  bool Ready(const std::string& model);
  // Metadata, and the configuration where there is one. Errors say which models there are instead.
  Result<ModelInfo> Model(const std::string& name, const std::string& version);
  // Names of models that are ready, in order. Errors: the server does not list them.
  Result<std::vector<std::string>> Models();
  // Errors: the server has no statistics.
  Result<ServerStatistics> Statistics(const std::string& model, const std::string& version);
  // "name version", or "" where the server does not tell.
  std::string ServerName();
  // Over HTTP alone: the body of the answer. Errors: none came in time, or one whose status is an error; its text begins with "HTTP ".
  Result<std::string> AskHttp(std::string_view method, const std::string& path, std::string_view body = {});

  // Shared memory: the region of that name is the file /dev/shm + `key`.
  Status RegisterMemory(const std::string& name, const std::string& key, size_t bytes);
  Status UnregisterMemory(const std::string& name);

  // Sends a request, and calls take(response) for each response. With `stream` (gRPC) there may be several: it ends with the one marked
  // final, or the first one where `single`; take() says whether it wants more. What a response refers to is good until take()
  // returns.
  Status Infer(const InferRequest& request, const Encoding& encoding, bool stream, bool single,
               const std::function<bool(const InferResponse&)>& take);

 private:
  // The bytes of the answer.
  Result<std::string> Ask(const OutgoingMessage& message);
  // By the protocol: over HTTP `method`, `path` and `body`; else `message` to the method `rpc`.
  Result<std::string> Ask(std::string_view method, const std::string& path, std::string_view body,
                          std::string_view rpc, std::string message);
  Result<std::string> AskGrpc(std::string_view method, std::string message);
  Status Connect();
  // Works the connection until `done`.
  Status WaitUntil(const bool& done, Exchange& exchange);

  const Protocol protocol_;
  const std::shared_ptr<const Dialer> dialer_;
  const Connection::Headers headers_;
  const double timeout_s_;
  const size_t most_bytes_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace braid::load
