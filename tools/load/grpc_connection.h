// A gRPC connection: gRPC messages over HTTP/2 by nghttp2, with prior knowledge or over TLS.
//
// Messages are sent without copies and delivered in the blocks that they were read into. The flow control
// windows are as large as the protocol allows, so they never slow the server down. Memory is bounded only by
// the size of the server's responses.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "load/connection.h"

struct nghttp2_session;

namespace braid::load {

class GrpcConnection : public Connection {
 public:
  GrpcConnection(std::unique_ptr<Socket> socket, std::string authority, bool tls, const Headers& headers);
  ~GrpcConnection() override;

  int fd() const override { return socket_->fd(); }
  bool alive() const override { return alive_; }
  size_t capacity() const override { return 1000; }
  void Start(Exchange& exchange, const OutgoingMessage& message, bool stays_open) override;
  void Send(Exchange& exchange, const OutgoingMessage& message) override;
  void EndSending(Exchange& exchange) override;
  void Cancel(Exchange& exchange) override;
  void Flush() override;
  bool wants_to_write() const override;
  void Receive(bool wait) override;

 private:
  // A buffer for bytes from the socket. Shared by the message pieces in it.
  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t used = 0;
  };
  struct Call;
  struct Callbacks;

  Call& NewCall();
  void QueueMessage(Call& call, const OutgoingMessage& message);
  // Consumes bytes of a response's body.
  void TakeData(Call& call, std::string_view bytes);
  void End(Call& call, const Status& status);
  // Ends the call's use of its message: copies the part that belongs to a frame in progress.
  void KeepPayload(const Call& call);
  // The same for a stream that is still open; another of its frames may be in progress.
  void KeepNextFrame(Call& call);
  // Writes staged_, payload_ and behind_; false if the socket does not take all of it.
  Result<bool> WriteStaged();
  void PrepareBlock();
  void Break(const Status& why);

  const std::unique_ptr<Socket> socket_;
  const std::string authority_;
  const std::string scheme_;
  const Headers headers_;
  nghttp2_session* session_ = nullptr;
  bool alive_ = true;
  std::vector<std::unique_ptr<Call>> calls_;  // in use and free ones
  std::vector<Call*> free_calls_;

  // Pending bytes: small frames as copies, then at most one large payload without a copy, then the bytes
  // behind it.
  std::string staged_;
  size_t staged_sent_ = 0;
  std::string_view payload_;
  std::string kept_;  // copy of payload_ after its call has ended
  std::string behind_;

  std::shared_ptr<Block> block_;
  std::vector<std::shared_ptr<Block>> blocks_;  // reused when no message refers to them
};

}  // namespace braid::load
