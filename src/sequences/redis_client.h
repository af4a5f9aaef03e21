// RedisClient: a Redis, or a Redis Cluster, that is asked on a thread of its own ("brd-store").
//
//   BRAID_ASSIGN_OR_RETURN(auto client, RedisClient::Start(options, log));
//   client->Send(key, RedisClient::Words({"GET", key}), [](Result<RedisReply> reply) { ... });
//
// One Redis: commands are pipelined in the order in which they were given, and replies come in that order. The client's
// thread waits for the network alone, callers never do. Connections are made on threads of their own, since looking a
// name up blocks, and one node that is away must not hold the others up.
//
// The store is *away* from the first failed attempt to connect until one succeeds. Commands that are given then
// fail: at once between two attempts, else with the attempt. A connection that breaks fails all commands that were sent
// on it, which may have been done or not; what was not sent waits for one new connection. A Redis that does not answer
// within the time-out, or is a replica that takes no writes, breaks the connection. Attempts to connect are made after
// 0.1 s, then after twice as long, up to 2 s. Where the URL names sentinels, each attempt asks them for the master.
//
// A cluster: one connection to each master that is needed, by the slots of keys (redis_slots.h). All of the above holds
// for each node by itself. Besides:
//  - One command of a key is under way at a time; the next one goes when it has its reply. So redirects change no order.
//  - MOVED and ASK are followed. The map of slots is read anew after a MOVED, and when a node cannot do a command: it is
//    away, or answers CLUSTERDOWN, LOADING, TRYAGAIN or MASTERDOWN. Such a command waits for that map, and is sent once
//    more by it. Maps are read at least 0.1 s apart: within that time of one, a command for a node that is away fails at once.
//  - A command is not sent again once its time-out is over.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "http_client/socket.h"
#include "sequences/redis_connection.h"
#include "sequences/redis_slots.h"

namespace braid {

class RedisClient {
 public:
  using Options = RedisOptions;
  // A reply, an error among them; or UNAVAILABLE, when there is none.
  using Done = std::function<void(Result<RedisReply>)>;
  // The words of a command; shared, since they may be large, and are kept until it has its reply.
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

  // Any thread. `key` is the one that the command touches. `done` is called once, on the client's thread, and must not block.
  void Send(std::string key, SharedWords command, Done done);

 private:
  struct Command {
    std::string key = {};
    SharedWords words = {};
    Done done = {};
    bool own = false;         // the client's, of no key
    int64_t deadline_ns = 0;  // of its reply, or of its connection
    int64_t give_up_ns = 0;   // it is not sent again
    int redirects = 0;
    bool asking = false;   // the node has the slot for who asks alone
    bool parked = false;   // has waited for a map
    bool greeted = false;  // its node was told the scripts again
    Status why = {};       // it waits for a map
  };
  // A connection that is being made.
  struct Attempt {
    std::thread thread;
    std::atomic<bool> ended{false};
    Status status;
    std::unique_ptr<RedisConnection> connection;
  };
  // One Redis.
  struct Node {
    explicit Node(client::Address where) : address(std::move(where)) {}
    const client::Address address;
    std::unique_ptr<RedisConnection> connection;
    std::unique_ptr<Attempt> attempt;
    std::deque<Command> waiting;  // for a connection
    std::deque<Command> sent;
    bool wanted = false;  // a connection is kept, or tried for
    // Has keys: the one Redis, or a node of a cluster by the map or by a redirect.
    bool owns = false;
    bool away = false;
    std::string away_reason;
    int failures = 0;
    int64_t retry_ns = 0;
    bool readable = false;
  };

  RedisClient(Options options, client::TlsOptions tls, UniqueFd wake, Logger& log);

  void Run();
  bool Stopping();
  void Wake() const;
  void DrainWake() const;
  // The queues, as far as they go without waiting.
  void Work(int64_t now_ns);
  // Until something has come, or has to be done.
  void Wait(int64_t now_ns);
  void TakeQueued();
  void Stop();

  // Where a command goes.
  void Route(Command command);
  void Give(Node& node, Command command);
  void Push(Node& node, Command command);
  void PushOwn(Node& node, const std::vector<std::string>& words);
  // It was not done.
  void NotDone(Command command, const Status& why);
  void NowhereToGo(Command command, const Status& why);
  void Park(Command command, Status why);
  void Redirect(Command command, const RedisRedirect& redirect);
  void Finish(Command& command, Result<RedisReply> reply);

  // One node.
  Node& NodeAt(const client::Address& address);
  std::string Who(const Node& node) const;
  void Connect(Node& node);
  void OnConnected(Node& node);
  Status Serve(Node& node);
  Status OnReply(Node& node, Command command, RedisReply reply);
  void Break(Node& node, const Status& why);
  void SayAway(Node& node, const Status& why);
  void FailLate(std::deque<Command>& commands, int64_t now_ns);

  // The map.
  void ReadMap(int64_t now_ns);
  void AskForMap();
  void OnMap(const client::Address& asked, const Result<RedisReply>& reply);
  void EndReading(const Status& status);
  void DropUnused();

  const Options options_;
  const client::TlsOptions tls_;
  const UniqueFd wake_;
  Logger& log_;

  Mutex mutex_;
  std::deque<Command> queued_ BRAID_GUARDED_BY(mutex_);
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;

  // Of the client's thread.
  std::map<std::string, Node> nodes_;  // by address
  std::deque<Command> ready_;          // to be routed
  // Of a cluster: keys of which a command is under way, and what waits for its end.
  std::unordered_map<std::string, std::deque<Command>> chains_;
  std::vector<Node*> slots_;
  std::deque<Command> parked_;  // wait for a map
  bool stale_ = false;          // the map is to be read anew
  bool reading_ = false;
  uint64_t reading_number_ = 0;
  Status reading_status_;
  size_t asked_ = 0;  // nodes which have not answered
  std::deque<client::Address> to_ask_;
  int64_t read_ns_ = 0;  // when the last reading ended
  Status map_status_;

  std::thread thread_;
};

}  // namespace braid
