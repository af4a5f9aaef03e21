// Connection: sends requests to a server and receives responses, without a thread. Its owner calls Flush()
// and Receive() when the descriptor is ready. gRPC runs many exchanges at a time, HTTP one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "http_client/socket.h"
#include "load/pieces.h"

namespace braid::load {

using client::Address;
using client::Dialer;
using client::ParseAddress;
using client::ParseServerAddress;
using client::Socket;
using client::TlsOptions;

enum class Protocol { kHttp, kGrpc };

// An encoded message. Any thread may send it, any number of times.
struct OutgoingMessage {
  std::string path;   // gRPC: "/package.Service/Method"
  std::string bytes;  // HTTP: head and body; gRPC: the message without its prefix of five bytes
};

// A message that has arrived.
struct ReceivedMessage {
  const Pieces& body;
  size_t json_bytes = 0;  // HTTP: size of the JSON before binary tensors; 0: the whole body is JSON
};

// A request in flight and the receiver of its responses. Connection calls these functions within Receive(),
// Flush() and its destructor. They may start other exchanges, but not on a broken connection.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // A response arrived. Data in it is valid until this returns.
  virtual void OnMessage(const ReceivedMessage& message) = 0;
  // The exchange ended: OK, or the reason why no (further) response follows. This is the last callback.
  virtual void OnEnd(const Status& status) = 0;

 private:
  friend class GrpcConnection;
  void* call_ = nullptr;  // owned by the connection
};

class Connection {
 public:
  // Headers of each gRPC call; names in lower case. HTTP messages contain theirs.
  using Headers = std::vector<std::pair<std::string, std::string>>;

  // `most_bytes` limits an HTTP response.
  static Result<std::unique_ptr<Connection>> Open(Protocol protocol, const Dialer& dialer, double timeout_s,
                                                  const Headers& headers, size_t most_bytes = SIZE_MAX);
  // Ends all exchanges in flight.
  virtual ~Connection() = default;

  virtual int fd() const = 0;
  // False: the connection is broken, all exchanges have ended, and none may start.
  virtual bool alive() const = 0;
  // The maximal number of exchanges in flight.
  virtual size_t capacity() const = 0;

  // Starts an exchange. `message` must outlive the exchange. With `stays_open` (gRPC) more messages may
  // follow.
  virtual void Start(Exchange& exchange, const OutgoingMessage& message, bool stays_open) = 0;
  // Sends the next message of an exchange that stays open. REQUIRES: the previous one has been answered.
  virtual void Send(Exchange& exchange, const OutgoingMessage& message) = 0;
  // Ends the messages of an exchange that stays open.
  virtual void EndSending(Exchange& exchange) = 0;
  // Cancels the exchange; it gets no further callbacks. This breaks an HTTP connection.
  virtual void Cancel(Exchange& exchange) = 0;

  // Writes pending bytes as far as the socket takes them.
  virtual void Flush() = 0;
  // Whether pending bytes wait for room in the socket.
  virtual bool wants_to_write() const = 0;
  // Reads bytes that have arrived. With `wait` blocks until some arrive, for 100 ms at most.
  virtual void Receive(bool wait) = 0;
};

}  // namespace braid::load
