// RedisStateStore: a StateStore in a Redis or a Redis Cluster.
//
// A sequence is a hash, whose key is "braid:{MODEL:VERSION:KIND:ID}" (KIND n: ID is a number, t: a text):
//
//   e   epoch
//   o   life of the sequence at its owner, so that a retried write is recognised; removed by a take-over
//   s   number of steps
//   i   identity of the model
//   d   states, see sequence_record.h
//
// Each call is a script, and so atomic. Scripts use one key, so they work in a cluster too. A new epoch is at
// least the Redis's time in microseconds. After a key was deleted, its sequence therefore gets an epoch that
// no owner holds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "sequences/redis_client.h"
#include "sequences/state_store.h"

namespace braid {

class RedisStateStore final : public StateStore {
 public:
  struct Options {
    RedisClient::Options client;
    StorePolicy policy;
    // A sequence that is unused for this long is deleted.
    int64_t ttl_ms = int64_t{3600} * 1000;
  };

  // `log` outlives the store. Errors: those of RedisClient::Start().
  static Result<std::unique_ptr<RedisStateStore>> Open(Options options, Logger& log);

  void Take(const Name& name, const std::string& identity, TakenDone done) override;
  void Write(const Name& name, const std::string& identity, const Step& step, WrittenDone done) override;
  void End(const Name& name, const OwnershipLease& lease, WrittenDone done) override;
  const StorePolicy& policy() const override { return policy_; }

  static std::string KeyOf(const Name& name);

 private:
  RedisStateStore(const Options& options, std::unique_ptr<RedisClient> client);
  // Runs a script; its first argument is the key.
  void Run(const std::string& digest, std::vector<std::string> arguments, RedisClient::Done done);

  const StorePolicy policy_;
  const std::string ttl_ms_;
  const std::unique_ptr<RedisClient> client_;
};

}  // namespace braid
