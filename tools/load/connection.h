// A connection to a server, over which requests go and responses come, without a thread of its own: its owner calls Flush() and
// Receive() when the descriptor is ready. gRPC has many exchanges at a time, HTTP one.
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
using client::Socket;
using client::TlsOptions;

enum class Protocol { kHttp, kGrpc };

// What is sent, ready-made: it may be sent any number of times, by any thread.
struct OutgoingMessage {
  std::string path;   // of gRPC: "/package.Service/Method"
  std::string bytes;  // of HTTP: head and body; of gRPC: the message behind its five bytes of prefix
};

// A message that has come.
struct ReceivedMessage {
  const Pieces& body;
  size_t json_bytes = 0;  // of HTTP: the JSON before binary tensors; 0: the body is JSON alone
};

// A request on its way, and who takes its responses. The functions are called within Receive(), Flush() or the connection's
// destructor, and may start other exchanges, but not on a connection that has broken.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // A response. What it refers to is good until this returns.
  virtual void OnMessage(const ReceivedMessage& message) = 0;
  // The end: OK, or why there is no (further) response. Nothing is called after it.
  virtual void OnEnd(const Status& status) = 0;

 private:
  friend class GrpcConnection;
  void* call_ = nullptr;  // the connection's
};

class Connection {
 public:
  // `headers` go with each gRPC call; names in lower case. HTTP has them in its messages.
  using Headers = std::vector<std::pair<std::string, std::string>>;

  // `most_bytes`: what a response of HTTP may have.
  static Result<std::unique_ptr<Connection>> Open(Protocol protocol, const Dialer& dialer, double timeout_s,
                                                  const Headers& headers, size_t most_bytes = SIZE_MAX);
  // Ends what is under way.
  virtual ~Connection() = default;

  virtual int fd() const = 0;
  // False: it is broken, all exchanges have ended, and none may start.
  virtual bool alive() const = 0;
  // How many exchanges may be under way at a time.
  virtual size_t capacity() const = 0;

  // Starts an exchange. `message` lives until its end. With `stays_open` (gRPC) more messages may follow.
  virtual void Start(Exchange& exchange, const OutgoingMessage& message, bool stays_open) = 0;
  // The next message of an exchange that stays open. REQUIRES: the one before has been answered.
  virtual void Send(Exchange& exchange, const OutgoingMessage& message) = 0;
  // No message follows on an exchange that stays open.
  virtual void EndSending(Exchange& exchange) = 0;
  // Gives the exchange up; nothing more is called for it. A connection of HTTP is broken by it.
  virtual void Cancel(Exchange& exchange) = 0;

  // Sends what waits to be sent, as far as there is room.
  virtual void Flush() = 0;
  // Something is left to be sent when there is room.
  virtual bool wants_to_write() const = 0;
  // Takes what has come; with `wait` waits for something, for 100 ms at most.
  virtual void Receive(bool wait) = 0;
};

}  // namespace braid::load
