// RedisClient: an asynchronous client of a Redis or a Redis Cluster, with its own thread ("brd-store").
//
//   BRAID_ASSIGN_OR_RETURN(auto client, RedisClient::Start(options, log));
//   client->Send(key, RedisClient::Words({"GET", key}), [](Result<RedisReply> reply) { ... });
//
// One Redis: commands are pipelined in the order of the calls, and replies come in that order. Only the
// client's thread waits for the network; callers never do. Each connection is opened on a separate thread,
// because a name lookup blocks and an unreachable node must not delay the others.
//
// The store is *away* from the first failed attempt to connect until one succeeds. Commands given meanwhile
// fail: at once between two attempts, otherwise with the attempt. If a connection breaks, all commands sent
// on it fail; they may or may not have been executed. Commands that were not sent wait for one new
// connection. The client breaks the connection to a Redis that does not answer within the timeout, or that is
// a read-only replica. It tries to connect again after 0.1 s, then after twice as long each time, up to 2 s.
// If the URL names sentinels, each attempt asks them for the master.
//
// A cluster: one connection to each master that is needed, by the slots of keys (redis_slots.h). All of the
// above holds for each node separately. In addition:
//  - One command per key is in flight at a time; the next one is sent after its reply. So redirects keep the
//    order.
//  - MOVED and ASK are followed. The client reads the map of slots again after a MOVED, and when a node
//    cannot execute a command: it is away, or answers CLUSTERDOWN, LOADING, TRYAGAIN or MASTERDOWN. Such a
//    command waits for the new map and is sent once more. Maps are read at least 0.1 s apart. Within 0.1 s
//    after a map was read, a command for a node that is away fails at once.
//  - A command is not sent again once its timeout is over.
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
  // Called with the reply, which may be an error reply; or with UNAVAILABLE if there is none.
  using Done = std::function<void(Result<RedisReply>)>;
  // The words of a command. They are kept until the reply has come, and shared because they may be large.
  using SharedWords = std::shared_ptr<const std::vector<std::string>>;
  static SharedWords Words(std::vector<std::string> words) {
    return std::make_shared<const std::vector<std::string>>(std::move(words));
  }

  // Creates a client, which begins to connect. `log` outlives the client. Errors: INVALID_ARGUMENT for a TLS
  // file that cannot be used. An unreachable Redis is not an error: it is logged.
  static Result<std::unique_ptr<RedisClient>> Start(const Options& options, Logger& log);
  // Remaining commands fail.
  ~RedisClient();
  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  // Sends a command; `key` is the key that it uses. `done` is called once, on the client's thread, and must
  // not block. Any thread.
  void Send(std::string key, SharedWords command, Done done);

 private:
  struct Command {
    std::string key = {};
    SharedWords words = {};
    Done done = {};
    bool own = false;         // sent by the client itself, without a key
    int64_t deadline_ns = 0;  // for its reply, or for its connection
    int64_t give_up_ns = 0;   // not sent again after this time
    int redirects = 0;
    bool asking = false;   // to be sent with ASKING: the node has the slot only for such commands
    bool parked = false;   // has waited for a map
    bool greeted = false;  // the scripts were loaded again on its node
    Status why = {};       // why it waits for a map
  };
  // An attempt to connect.
  struct Attempt {
    std::thread thread;
    std::atomic<bool> ended{false};
    Status status;
    std::unique_ptr<RedisConnection> connection;
  };
  // One Redis server.
  struct Node {
    explicit Node(client::Address where) : address(std::move(where)) {}
    const client::Address address;
    std::unique_ptr<RedisConnection> connection;
    std::unique_ptr<Attempt> attempt;
    std::deque<Command> waiting;  // for a connection
    std::deque<Command> sent;
    bool wanted = false;  // keeps or tries to make a connection
    // Owns keys: the single Redis, or a node of a cluster by the map or by a redirect.
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
  // Handles the queues as far as possible without waiting.
  void Work(int64_t now_ns);
  // Waits for an event or the next deadline.
  void Wait(int64_t now_ns);
  void TakeQueued();
  void Stop();

  // Routing of commands.
  void Route(Command command);
  void Give(Node& node, Command command);
  void Push(Node& node, Command command);
  void PushOwn(Node& node, const std::vector<std::string>& words);
  // Handles a command that was not executed.
  void NotDone(Command command, const Status& why);
  void NowhereToGo(Command command, const Status& why);
  void Park(Command command, Status why);
  void Redirect(Command command, const RedisRedirect& redirect);
  void Finish(Command& command, Result<RedisReply> reply);

  // Nodes.
  Node& NodeAt(const client::Address& address);
  std::string Who(const Node& node) const;
  void Connect(Node& node);
  void OnConnected(Node& node);
  Status Serve(Node& node);
  Status OnReply(Node& node, Command command, RedisReply reply);
  void Break(Node& node, const Status& why);
  void SayAway(Node& node, const Status& why);
  void FailLate(std::deque<Command>& commands, int64_t now_ns);

  // The map of slots.
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

  // Used only by the client's thread.
  std::map<std::string, Node> nodes_;  // by address
  std::deque<Command> ready_;          // to be routed
  // Cluster only: keys with a command in flight, and the commands that wait for its end.
  std::unordered_map<std::string, std::deque<Command>> chains_;
  std::vector<Node*> slots_;
  std::deque<Command> parked_;  // wait for a map
  bool stale_ = false;          // the map must be read again
  bool reading_ = false;
  uint64_t reading_number_ = 0;
  Status reading_status_;
  size_t asked_ = 0;  // nodes that have not answered
  std::deque<client::Address> to_ask_;
  int64_t read_ns_ = 0;  // when the last reading ended
  Status map_status_;

  std::thread thread_;
};

}  // namespace braid
