// RedisClient: one connection to a Redis, on a thread of its own ("brd-store").
//
//   BRAID_ASSIGN_OR_RETURN(auto client, RedisClient::Start(options, log));
//   client->Send(RedisClient::Words({"GET", key}), [](Result<RedisReply> reply) { ... });
//
// Commands go out in the order in which they were given, several at a time, and replies come in that order.
// Nobody but the client's thread waits for the network.
//
// The store is *away* from the moment at which a connection cannot be made until one is. What is given then
// fails, at once between two attempts, else with the attempt. A connection that breaks fails all that was sent
// on it, of which nobody knows whether it was done; what was not sent waits for one new connection. A Redis
// that does not answer within the time-out, or is a replica that takes no writes, breaks the connection. Attempts to connect are made after 0.1 s,
// then after twice as long, up to 2 s. Where the URL names sentinels, each attempt asks them for the master.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "http_client/socket.h"
#include "store/redis_url.h"

struct redisReader;

namespace braid {

struct RedisReply {
  enum class Kind : unsigned char { kNothing, kText, kNumber, kList, kError };
  Kind kind = Kind::kNothing;
  std::string text;  // of an error too
  int64_t number = 0;
  std::vector<RedisReply> list;
};

class RedisClient {
 public:
  struct Options {
    RedisUrl url;
    // Read anew for each connection; "": there is no password.
    std::string password_file;
    std::string ca_file;  // "": the system's
    std::string cert_file;
    std::string key_file;
    int64_t connect_timeout_ns = int64_t{1} * 1000000000;
    int64_t command_timeout_ns = int64_t{1} * 1000000000;
    // What is said first on each connection, e.g. the loading of scripts.
    std::vector<std::vector<std::string>> greeting;
  };
  // A reply, an error among them; or UNAVAILABLE, when there is none.
  using Done = std::function<void(Result<RedisReply>)>;
  // The words of a command; shared, as who gives them may want to give them again, and they may be large.
  using SharedWords = std::shared_ptr<const std::vector<std::string>>;
  static SharedWords Words(std::vector<std::string> words) {
    return std::make_shared<const std::vector<std::string>>(std::move(words));
  }

  // Begins to connect. `log` outlives the client. Errors: INVALID_ARGUMENT for a file of TLS that cannot be
  // used. That the Redis cannot be reached is none: the log says so.
  static Result<std::unique_ptr<RedisClient>> Start(const Options& options, Logger& log);
  // What is left fails.
  ~RedisClient();
  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  // Any thread. `done` is called once, on the client's thread, and must not block.
  void Send(SharedWords command, Done done);

 private:
  struct Command {
    SharedWords words;
    Done done;
    int64_t deadline_ns = 0;  // once it is sent
  };

  RedisClient(Options options, client::TlsOptions tls, UniqueFd wake, Logger& log);

  void Run();
  bool Stopping();
  // One connection, from the attempt to its end.
  void Connect();
  Status Dial(const client::Address& address, int64_t deadline_ns);
  // Where the master is, as the first sentinel says that answers.
  Result<client::Address> AskSentinels(int64_t deadline_ns);
  Status Greet(int64_t deadline_ns);
  Result<RedisReply> AskNow(const std::vector<std::string>& words, int64_t deadline_ns);
  Status Exchange();
  // Takes what was given into out_.
  void TakeQueued();
  Status WriteSome();
  Status ReadSome();
  Result<bool> NextReply(RedisReply& reply);
  void Break(const Status& why);
  void FailQueued(const Status& why);
  void Sleep(int64_t until_ns);
  void DrainWake() const;
  static void Finish(Command& command, Result<RedisReply> reply);

  const Options options_;
  const client::TlsOptions tls_;
  const UniqueFd wake_;
  Logger& log_;

  Mutex mutex_;
  std::deque<Command> queued_ BRAID_GUARDED_BY(mutex_);
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;

  // Of the client's thread.
  std::unique_ptr<client::Socket> socket_;
  redisReader* reader_ = nullptr;
  std::deque<Command> sent_;
  std::string out_;
  size_t out_at_ = 0;
  bool away_ = false;
  std::string away_reason_;
  int failures_ = 0;

  std::thread thread_;
};

}  // namespace braid
