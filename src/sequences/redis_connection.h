// RedisConnection: one connection to a Redis. Open() blocks until it is connected; all other calls do not
// block.
//
//   BRAID_ASSIGN_OR_RETURN(auto connection, RedisConnection::Open(options, tls, address));
//   connection->Add({"GET", key});
//   ... poll connection->fd(), WriteSome(), ReadSome(), and NextReply() for each reply, in order of Add() ...
//
// One thread at a time. After an error the connection cannot be used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "http_client/socket.h"
#include "sequences/redis_url.h"

struct redisReader;

namespace braid {

struct RedisReply {
  enum class Kind : unsigned char { kNothing, kText, kNumber, kList, kError };
  Kind kind = Kind::kNothing;
  std::string text = {};  // of an error too
  int64_t number = 0;
  std::vector<RedisReply> list = {};
};

struct RedisOptions {
  RedisUrl url;
  // Read again for each connection; "": there is no password.
  std::string password_file;
  std::string ca_file;  // "": the system's
  std::string cert_file;
  std::string key_file;
  int64_t connect_timeout_ns = int64_t{1} * 1000000000;
  int64_t command_timeout_ns = int64_t{1} * 1000000000;
  // Sent first on each connection: the commands that load scripts. Sent again if a script is unknown.
  std::vector<std::vector<std::string>> greeting;
};

// Returns the text to show for an error reply.
std::string ShownError(const RedisReply& reply);

class RedisConnection {
 public:
  // Connects to `address`. If the URL names sentinels, connects to the master that the first answering
  // sentinel names. Authenticates and sends the greeting. Blocks, within the timeout of `options`. Errors:
  // UNAVAILABLE.
  static Result<std::unique_ptr<RedisConnection>> Open(const RedisOptions& options,
                                                       const client::TlsOptions& tls,
                                                       const client::Address& address);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  int fd() const { return socket_->fd(); }
  // Returns whether there is buffered input that polling the descriptor does not show.
  bool buffered() const { return socket_->buffered(); }
  // Returns whether added commands are not written completely.
  bool writing() const { return out_at_ < out_.size(); }

  void Add(const std::vector<std::string>& words);
  Status WriteSome();
  Status ReadSome();
  // Returns false if the next reply is not complete yet.
  Result<bool> NextReply(RedisReply& reply);

 private:
  explicit RedisConnection(std::unique_ptr<client::Socket> socket);
  static Result<std::unique_ptr<RedisConnection>> Dial(const client::TlsOptions& tls,
                                                       const client::Address& address, int64_t deadline_ns);
  static Result<client::Address> AskSentinels(const RedisOptions& options, const client::TlsOptions& tls,
                                              int64_t deadline_ns);
  Status Greet(const RedisOptions& options, int64_t deadline_ns);
  Result<RedisReply> AskNow(const std::vector<std::string>& words, int64_t deadline_ns);

  const std::unique_ptr<client::Socket> socket_;
  redisReader* const reader_;
  std::string out_;
  size_t out_at_ = 0;
};

}  // namespace braid
