// Client: sends one request at a time to a server: metadata, statistics, inference. Each call blocks, for the
// timeout at most. It works with any server that speaks KServe v2; an error names a missing extension.
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
  std::string datatype;        // empty: the metadata has none, as for a graph
  std::vector<int64_t> shape;  // -1: of any size
  bool optional = false;       // a request may leave it out
  bool any_shape = false;      // the metadata has no shape, not even the number of dimensions
};

struct ModelInfo {
  std::string name;
  std::vector<std::string> versions;
  std::string platform;
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  // From the configuration, which only servers with Triton's extension provide.
  bool has_config = false;
  int64_t max_batch_size = 0;
  bool decoupled = false;
  bool sequences = false;
};

// A server's counters of a model since its start: of all versions, or of one.
struct ServerStatistics {
  uint64_t requests = 0;  // succeeded ones
  uint64_t failures = 0;
  uint64_t inferences = 0;  // samples: requests count by their batch size
  uint64_t executions = 0;
  uint64_t request_ns = 0;
  uint64_t queue_ns = 0;
  uint64_t input_ns = 0;
  uint64_t infer_ns = 0;
  uint64_t output_ns = 0;

  ServerStatistics operator+(const ServerStatistics& other) const;
  ServerStatistics operator-(const ServerStatistics& before) const;
};

// Returns "a, b", for errors. Of many names, the first and the number of others.
std::string ListNames(const std::vector<std::string>& names);

class Client {
 public:
  // `headers` go with each request; names in lower case. `most_bytes` limits an HTTP response.
  Client(Protocol protocol, std::shared_ptr<const Dialer> dialer, Connection::Headers headers,
         double timeout_s, size_t most_bytes = SIZE_MAX);
  ~Client();
  Client(Client&&) noexcept;

  // Whether the server and the model are ready.
  bool Ready(const std::string& model);
  // Returns the metadata, and the configuration if there is one. Errors list the available models.
  Result<ModelInfo> Model(const std::string& name, const std::string& version);
  // Returns the names of ready models in order. Errors: the server does not list them.
  Result<std::vector<std::string>> Models();
  // Errors: the server has no statistics.
  Result<ServerStatistics> Statistics(const std::string& model, const std::string& version);
  // Returns "name version", or "" if the server does not report it.
  std::string ServerName();
  // Returns the body of an HTTP response. Errors: no response in time, or an error status; the text then
  // begins with "HTTP ". REQUIRES: protocol HTTP.
  Result<std::string> AskHttp(std::string_view method, const std::string& path, std::string_view body = {});

  // Registers shared memory: the region `name` is the file /dev/shm + `key`.
  Status RegisterMemory(const std::string& name, const std::string& key, size_t bytes);
  Status UnregisterMemory(const std::string& name);

  // Sends a request and calls take(response) for each response. With `stream` (gRPC) there may be several.
  // The call ends with the first response if `single`, with the one marked final, or when take() returns
  // false. Data in a response is valid until take() returns.
  Status Infer(const InferRequest& request, const Encoding& encoding, bool stream, bool single,
               const std::function<bool(const InferResponse&)>& take);

 private:
  // Returns the response body.
  Result<std::string> Ask(const OutgoingMessage& message);
  // Over HTTP sends `method`, `path` and `body`; over gRPC sends `message` to the method `rpc`.
  Result<std::string> Ask(std::string_view method, const std::string& path, std::string_view body,
                          std::string_view rpc, std::string message);
  Result<std::string> AskGrpc(std::string_view method, std::string message);
  Status Connect();
  // Processes the connection until `done`.
  Status WaitUntil(const bool& done, Exchange& exchange);

  const Protocol protocol_;
  const std::shared_ptr<const Dialer> dialer_;
  const Connection::Headers headers_;
  const double timeout_s_;
  const size_t most_bytes_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace braid::load
