// RedisConnection: one connection to a Redis. Open() blocks until it is made; all else does not block.
//
//   BRAID_ASSIGN_OR_RETURN(auto connection, RedisConnection::Open(options, tls, address));
//   connection->Add({"GET", key});
//   ... poll connection->fd(), WriteSome(), ReadSome(), and NextReply() for each reply, in the order of what was added ...
//
// One thread at a time. An error ends it.
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
  // Read anew for each connection; "": there is no password.
  std::string password_file;
  std::string ca_file;  // "": the system's
  std::string cert_file;
  std::string key_file;
  int64_t connect_timeout_ns = int64_t{1} * 1000000000;
  int64_t command_timeout_ns = int64_t{1} * 1000000000;
  // What is said first on each connection: the loading of scripts. Said again where a script is not known.
  std::vector<std::vector<std::string>> greeting;
};

// What is shown of an error that a Redis answers.
std::string ShownError(const RedisReply& reply);

class RedisConnection {
 public:
  // A connection to `address`, or where the URL names sentinels, to the master that the first of them names which
  // answers; with the password shown and the greeting said. Waits, within the time-out of `options`. Errors: UNAVAILABLE.
  static Result<std::unique_ptr<RedisConnection>> Open(const RedisOptions& options,
                                                       const client::TlsOptions& tls,
                                                       const client::Address& address);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  int fd() const { return socket_->fd(); }
  // There is something to read of which the descriptor does not tell.
  bool buffered() const { return socket_->buffered(); }
  // Not all of what was added is written.
  bool writing() const { return out_at_ < out_.size(); }

  void Add(const std::vector<std::string>& words);
  Status WriteSome();
  Status ReadSome();
  // False: the next one is not whole yet.
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
