#include "sequences/redis_state_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <memory>
#include <string>

#include "base/clock.h"
#include "sequences/sequence_record.h"
#include "sequences/testing/real_redis.h"

namespace braid {
namespace {

using Verdict = StateStore::Verdict;
using Finding = StateStore::Finding;

std::shared_ptr<const std::vector<Tensor>> States(int32_t value) {
  return std::make_shared<const std::vector<Tensor>>(
      std::vector<Tensor>{{"s", DataType::kInt32, {1}, CopyToHeap(std::as_bytes(std::span(&value, 1)))}});
}

class RedisStateStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<RedisStateStore> Open(StoreMode mode = StoreMode::kDurable) {
    RedisStateStore::Options options;
    options.client = redis_.options();
    options.policy.mode = mode;
    return RedisStateStore::Open(options, log_).value();
  }
  template <class T, class Call>
  static Result<T> Wait(Call&& call) {
    std::promise<Result<T>> promise;
    call([&](Result<T> result) { promise.set_value(std::move(result)); });
    return promise.get_future().get();
  }
  StateStore::Written Write(StateStore& store, OwnershipLease lease, int32_t value, bool takes_back = false,
                            const StateStore::Name& name = kName) {
    return Wait<StateStore::Written>([&](auto done) {
             store.Write(name, "identity", {takes_back, lease, States(value)}, done);
           })
        .value();
  }
  StateStore::Taken Take(StateStore& store, const std::string& identity = "identity",
                         const StateStore::Name& name = kName) {
    return Wait<StateStore::Taken>([&](auto done) { store.Take(name, identity, done); }).value();
  }
  Verdict End(StateStore& store, const OwnershipLease& lease) {
    return Wait<StateStore::Written>([&](auto done) { store.End(kName, lease, done); }).value().verdict;
  }
  static int32_t ValueOf(const StateStore::Taken& taken) {
    int32_t value = -1;
    if (taken.states.size() == 1 && taken.states[0].data.size() == sizeof(value)) {
      std::memcpy(&value, taken.states[0].data.data(), sizeof(value));
    }
    return value;
  }
  static OwnershipLease Tenure(uint64_t epoch, uint64_t steps, uint64_t life = 1) {
    return {.life = life, .epoch = epoch, .steps = steps};
  }

  inline static const StateStore::Name kName{"m", 1, uint64_t{7}};
  Logger log_;
  RealRedis redis_;
};

TEST_F(RedisStateStoreTest, GivesASequenceToWhoAsksForIt) {
  const auto store = Open();
  EXPECT_EQ(Take(*store).finding, Finding::kMissing);
  const uint64_t epoch = Write(*store, Tenure(0, 1), 5).epoch;
  EXPECT_EQ(Write(*store, Tenure(epoch, 2), 6).epoch, epoch);
  const auto taken = Take(*store);
  EXPECT_EQ(taken.finding, Finding::kFound);
  EXPECT_GT(taken.epoch, epoch);
  EXPECT_EQ(taken.steps, 2u);
  EXPECT_EQ(ValueOf(taken), 6);
  EXPECT_EQ(Take(*store, "another").finding, Finding::kOtherModel);
  EXPECT_EQ(Write(*store, Tenure(taken.epoch, 3), 7).verdict, Verdict::kAccepted)
      << "that has changed nothing";
}

TEST_F(RedisStateStoreTest, FencesTheOwnerBefore) {
  const auto store = Open();
  const uint64_t first = Write(*store, Tenure(0, 1), 5).epoch;
  const uint64_t second = Take(*store).epoch;
  EXPECT_EQ(Write(*store, Tenure(first, 2), 9).verdict, Verdict::kFenced);
  EXPECT_EQ(End(*store, Tenure(first, 2)), Verdict::kFenced);
  EXPECT_EQ(Write(*store, Tenure(second, 2), 6).verdict, Verdict::kAccepted);
  EXPECT_EQ(End(*store, Tenure(second, 2)), Verdict::kAccepted);
  EXPECT_EQ(Write(*store, Tenure(second, 3), 9).verdict, Verdict::kMissing);
  EXPECT_EQ(End(*store, Tenure(second, 2)), Verdict::kMissing);
  // A sequence that begins after all keys are gone has an epoch that no owner had.
  EXPECT_GT(Write(*store, Tenure(0, 1), 1).epoch, second);
  EXPECT_EQ(Write(*store, Tenure(first, 2), 9).verdict, Verdict::kFenced);
}

TEST_F(RedisStateStoreTest, AStartTakesThePlaceOfWhatWasThere) {
  const auto store = Open();
  const uint64_t first = Write(*store, Tenure(0, 3, 1), 5).epoch;
  const auto begun = Take(*store, "");
  EXPECT_GT(begun.epoch, first);
  EXPECT_EQ(begun.before, first);
  EXPECT_TRUE(begun.states.empty());
  EXPECT_EQ(Write(*store, Tenure(first, 4, 1), 9).verdict, Verdict::kFenced);
  EXPECT_EQ(Write(*store, Tenure(begun.epoch, 1, 2), 6).verdict, Verdict::kAccepted);
  EXPECT_EQ(Write(*store, Tenure(begun.epoch, 1, 2), 6).verdict, Verdict::kAccepted) << "sent again";
  const auto taken = Take(*store);
  EXPECT_EQ(ValueOf(taken), 6);
  EXPECT_EQ(taken.steps, 1u);
}

TEST_F(RedisStateStoreTest, AStartIsItsOwnersBeforeItsFirstWrite) {
  const auto store = Open();
  const auto one = Take(*store, "");
  EXPECT_EQ(one.finding, Finding::kFound);
  EXPECT_EQ(one.before, 0u);
  EXPECT_EQ(Take(*store).finding, Finding::kMissing) << "there is nothing to go on with";
  const auto two = Take(*store, "");
  EXPECT_EQ(two.before, one.epoch);
  EXPECT_EQ(Write(*store, Tenure(two.epoch, 1, 2), 8).verdict, Verdict::kAccepted);
  EXPECT_EQ(Write(*store, Tenure(one.epoch, 1, 1), 5).verdict, Verdict::kFenced) << "it comes late";
  EXPECT_EQ(ValueOf(Take(*store)), 8);
  EXPECT_EQ(End(*store, {}), Verdict::kAccepted);
  EXPECT_EQ(Write(*store, Tenure(two.epoch, 2, 2), 8).verdict, Verdict::kMissing);
}

TEST_F(RedisStateStoreTest, AStartThatIsTriedAgainTakesNobodysPlace) {
  const auto store = Open();
  const uint64_t epoch = Write(*store, Tenure(0, 1, 1), 5).epoch;
  EXPECT_EQ(Write(*store, Tenure(0, 1, 1), 5).epoch, epoch) << "the first attempt had arrived";
  EXPECT_EQ(Write(*store, Tenure(0, 2, 1), 6).epoch, epoch);
  EXPECT_EQ(Write(*store, Tenure(0, 1, 2), 9).verdict, Verdict::kFenced);
  EXPECT_EQ(End(*store, Tenure(0, 1, 2)), Verdict::kFenced);
  EXPECT_EQ(ValueOf(Take(*store)), 6);
  EXPECT_EQ(Write(*store, Tenure(0, 2, 1), 9).verdict, Verdict::kFenced) << "it was taken over since";
}

TEST_F(RedisStateStoreTest, AWriteThatComesLateDoesNothing) {
  const auto store = Open();
  const uint64_t epoch = Write(*store, Tenure(0, 5), 5).epoch;
  EXPECT_EQ(Write(*store, Tenure(epoch, 4), 4).verdict, Verdict::kAccepted);
  EXPECT_EQ(ValueOf(Take(*store)), 5);
}

TEST_F(RedisStateStoreTest, AStepCanBeTakenBack) {
  const auto store = Open();
  const uint64_t epoch = Write(*store, Tenure(0, 5), 5).epoch;
  EXPECT_EQ(Write(*store, Tenure(epoch, 4), 4, true).verdict, Verdict::kAccepted);
  const auto taken = Take(*store);
  EXPECT_EQ(ValueOf(taken), 4);
  EXPECT_EQ(taken.steps, 4u);
}

TEST_F(RedisStateStoreTest, WhereStatesAreWrittenAtTheEndATakeOverRemovesThem) {
  const auto store = Open(StoreMode::kDrain);
  Write(*store, Tenure(0, 5, 1), 5);
  const auto taken = Take(*store);
  EXPECT_EQ(ValueOf(taken), 5);
  EXPECT_EQ(Take(*store).finding, Finding::kMissing);
  EXPECT_EQ(Write(*store, Tenure(taken.epoch, 6), 6).verdict, Verdict::kAccepted);
  EXPECT_EQ(ValueOf(Take(*store)), 6);
}

TEST_F(RedisStateStoreTest, GoesOnWhenTheRedisForgetsScripts) {
  const auto store = Open();
  Write(*store, Tenure(0, 1), 5);
  auto flusher = RedisClient::Start(redis_.options(), log_).value();
  std::promise<void> flushed;
  flusher->Send("", RedisClient::Words({"SCRIPT", "FLUSH"}), [&](const auto&) { flushed.set_value(); });
  flushed.get_future().get();
  EXPECT_EQ(ValueOf(Take(*store)), 5);
}

TEST_F(RedisStateStoreTest, WhatCannotBeReadIsAnError) {
  const auto store = Open();
  Write(*store, Tenure(0, 1), 5);
  auto other = RedisClient::Start(redis_.options(), log_).value();
  std::promise<void> written;
  other->Send("", RedisClient::Words({"HSET", RedisStateStore::KeyOf(kName), "d", "nonsense"}),
              [&](const auto&) { written.set_value(); });
  written.get_future().get();
  const auto taken = Wait<StateStore::Taken>([&](auto done) { store->Take(kName, "identity", done); });
  EXPECT_EQ(taken.status().code(), StatusCode::kInternal);
}

TEST_F(RedisStateStoreTest, KeysNameOneSequenceEach) {
  EXPECT_EQ(RedisStateStore::KeyOf(kName), "braid:{m:1:n:7}");
  EXPECT_EQ(RedisStateStore::KeyOf({"m", 1, "7"}), "braid:{m:1:t:7}");
  EXPECT_EQ(RedisStateStore::KeyOf({"a:b}", 12, "x:}{ %"}), "braid:{a%3Ab%7D:12:t:x%3A%7D%7B%20%25}");
}

TEST_F(RedisStateStoreTest, ARedisThatIsAwayIsSaidToBe) {
  const auto store = Open();
  Write(*store, Tenure(0, 1), 5);
  redis_.Kill();
  const auto taken = Wait<StateStore::Taken>([&](auto done) { store->Take(kName, "identity", done); });
  EXPECT_EQ(taken.status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace braid
