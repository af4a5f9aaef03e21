// A StateStore in a Redis or a Redis Cluster.
//
// A sequence is a hash, whose key is "braid:{MODEL:VERSION:KIND:ID}" (KIND n: ID is a number, t: a text):
//
//   e   epoch
//   o   the life of the one that has begun it, for who asks again; gone with a take-over
//   s   number of steps
//   i   identity of the model
//   d   states, see sequence_record.h
//
// Each call is a script, so it happens as a whole; scripts touch one key, so a cluster does it as well. A new epoch is at least the Redis's time
// in microseconds, so one that is used again after a key has gone is none that anybody holds.
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
    // A sequence that nobody uses for so long is gone.
    int64_t ttl_ms = int64_t{3600} * 1000;
  };

  // `log` outlives the store. Errors: as RedisClient::Start().
  static Result<std::unique_ptr<RedisStateStore>> Open(Options options, Logger& log);

  void Take(const Name& name, const std::string& identity, TakenDone done) override;
  void Write(const Name& name, const std::string& identity, const Step& step, WrittenDone done) override;
  void End(const Name& name, const OwnershipLease& lease, WrittenDone done) override;
  const StorePolicy& policy() const override { return policy_; }

  static std::string KeyOf(const Name& name);

 private:
  RedisStateStore(const Options& options, std::unique_ptr<RedisClient> client);
  // Runs a script; the first of its arguments is the key.
  void Run(const std::string& digest, std::vector<std::string> arguments, RedisClient::Done done);

  const StorePolicy policy_;
  const std::string ttl_ms_;
  const std::unique_ptr<RedisClient> client_;
};

}  // namespace braid
