// A connection of gRPC: HTTP/2 by nghttp2, with prior knowledge or over TLS, and gRPC's messages in it.
//
// Messages are sent from where they lie and given on in the blocks that they were read into. Flow control never holds the server up:
// the windows are as large as the protocol allows, so what bounds memory is what the server answers.
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
  // What is read from the socket. Shared by the pieces of messages that lie in it.
  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t used = 0;
  };
  struct Call;
  struct Callbacks;

  Call& NewCall();
  void QueueMessage(Call& call, const OutgoingMessage& message);
  // Takes bytes of a response's body.
  void TakeData(Call& call, std::string_view bytes);
  void End(Call& call, const Status& status);
  // A call that ends gives its message back; what of it is in a frame that has begun is sent from a copy.
  void KeepPayload(const Call& call);
  // The same for a stream that is still open: another frame of it may have been begun.
  void KeepNextFrame(Call& call);
  // Writes staged_, payload_ and behind_; false when there is no room for all of it.
  Result<bool> WriteStaged();
  void PrepareBlock();
  void Break(const Status& why);

  const std::unique_ptr<Socket> socket_;
  const std::string authority_;
  const std::string scheme_;
  const Headers headers_;
  nghttp2_session* session_ = nullptr;
  bool alive_ = true;
  std::vector<std::unique_ptr<Call>> calls_;  // all that were ever needed
  std::vector<Call*> free_calls_;

  // What is to be written: small frames as copies, then at most one large payload where it lies, then what came behind it.
  std::string staged_;
  size_t staged_sent_ = 0;
  std::string_view payload_;
  std::string kept_;  // payload_, when its call has ended
  std::string behind_;

  std::shared_ptr<Block> block_;
  std::vector<std::shared_ptr<Block>> blocks_;  // that can be used again when no message lies in them
};

}  // namespace braid::load
