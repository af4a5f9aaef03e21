// An HTTP/1.1 connection, kept alive, with one exchange at a time. A response is one message; if it is a
// stream of server-sent events, each event's data is one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http_client/http_head.h"
#include "load/connection.h"

namespace braid::load {

// Returns the text of {"error": "..."}, of {"error": {"message": "..."}} as in OpenAI's API, or of
// {"message": "..."} as in Kubernetes; otherwise the body.
std::string ErrorText(std::string_view body);

class HttpConnection : public Connection {
 public:
  // `most_bytes`: a larger response is an error.
  HttpConnection(std::unique_ptr<Socket> socket, size_t most_bytes);
  ~HttpConnection() override;

  int fd() const override { return socket_->fd(); }
  bool alive() const override { return alive_; }
  size_t capacity() const override { return 1; }
  void Start(Exchange& exchange, const OutgoingMessage& message, bool stays_open) override;
  void Send(Exchange& exchange, const OutgoingMessage& message) override;
  void EndSending(Exchange& exchange) override;
  void Cancel(Exchange& exchange) override;
  void Flush() override;
  bool wants_to_write() const override { return sent_ < outgoing_.size(); }
  void Receive(bool wait) override;

 private:
  // Parses the bytes received so far; true when the exchange has ended.
  Result<bool> TakeResponse();
  // Gives the exchange each whole event. Returns the number of bytes taken.
  size_t TakeEvents(std::string_view bytes);
  void Answer(std::string_view body);
  void Break(const Status& why);

  const std::unique_ptr<Socket> socket_;
  const size_t most_bytes_;
  bool alive_ = true;
  Exchange* exchange_ = nullptr;
  std::string_view outgoing_;
  size_t sent_ = 0;
  std::vector<char> buffer_;
  size_t received_ = 0;
  std::optional<client::HttpHead> head_;
  std::string body_;  // chunks so far
};

}  // namespace braid::load
