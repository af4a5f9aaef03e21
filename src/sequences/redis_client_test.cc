#include "sequences/redis_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "sequences/testing/fake_redis.h"
#include "sequences/testing/real_redis.h"

namespace braid {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A client, and the replies that it gets.
class Asking : public ::testing::Test {
 protected:
  void Open(RedisClient::Options options) {
    auto client = RedisClient::Start(options, log_);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = std::move(client).value();
  }
  std::future<Result<RedisReply>> Send(std::vector<std::string> words) {
    auto promise = std::make_shared<std::promise<Result<RedisReply>>>();
    auto future = promise->get_future();
    std::string key = words.size() > 1 ? words[1] : "";
    client_->Send(std::move(key), RedisClient::Words(std::move(words)),
                  [promise](Result<RedisReply> reply) { promise->set_value(std::move(reply)); });
    return future;
  }
  std::string Ask(std::vector<std::string> words) { return TextOf(Send(std::move(words)).get()); }
  static std::string TextOf(const Result<RedisReply>& reply) {
    if (!reply.ok()) return "failed: " + reply.status().message();
    switch (reply->kind) {
      case RedisReply::Kind::kNothing:
        return "nothing";
      case RedisReply::Kind::kNumber:
        return std::to_string(reply->number);
      case RedisReply::Kind::kList:
        return "a list of " + std::to_string(reply->list.size());
      default:
        return reply->text;
    }
  }
  // Repeats until the client has found the server.
  std::string AskUntilItAnswers(const std::vector<std::string>& words) {
    const int64_t deadline_ns = SteadyNowNs() + 20 * kSecondNs;
    std::string told;
    do {
      told = Ask(words);
    } while (told.starts_with("failed: ") && SteadyNowNs() < deadline_ns);
    return told;
  }

  Logger log_;
  std::unique_ptr<RedisClient> client_;
};

TEST_F(Asking, AListWithoutEndIsAnError) {
  for (const char* head : {"*2305843009213693953\r\n", "*9223372036854775807\r\n", "*-2\r\n",
                           "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"}) {
    FakeRedis redis([head](const FakeRedis::Words&) { return std::string(head); });
    RedisClient::Options options;
    options.url.addresses = {redis.address()};
    Open(options);
    EXPECT_THAT(Ask({"GET", "b"}), HasSubstr("it does not speak the Redis protocol: ")) << head;
    client_.reset();
  }
}

class RedisClientTest : public Asking {
 protected:
  RealRedis redis_;
};

TEST_F(RedisClientTest, AsksAndHearsInOrder) {
  Open(redis_.options());
  EXPECT_EQ(Ask({"SET", "k", std::string("a\0b\r\n", 5)}), "OK");
  EXPECT_EQ(Ask({"GET", "k"}), std::string("a\0b\r\n", 5));
  EXPECT_EQ(Ask({"GET", "none"}), "nothing");
  EXPECT_EQ(Ask({"MGET", "k", "none"}), "a list of 2");
  EXPECT_THAT(Ask({"NO", "SUCH"}), HasSubstr("unknown command"));
  std::vector<std::future<Result<RedisReply>>> many;
  for (int i = 0; i < 1000; ++i) many.push_back(Send({"INCR", "n"}));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(many[i].get().value().number, i + 1);
}

TEST_F(RedisClientTest, SendsAndReadsWhatIsLarge) {
  Open(redis_.options());
  const std::string large(20'000'000, 'x');
  EXPECT_EQ(Ask({"SET", "k", large}), "OK");
  EXPECT_TRUE(Ask({"GET", "k"}) == large) << "which is too much to be shown";
}

TEST_F(RedisClientTest, SpeaksTheGreetingOnEachConnection) {
  RedisClient::Options options = redis_.options();
  options.url.database = 5;
  options.greeting = {{"INCR", "connections"}};
  Open(options);
  EXPECT_EQ(Ask({"GET", "connections"}), "1");
  EXPECT_THAT(Ask({"CLIENT", "INFO"}), HasSubstr("db=5"));
  EXPECT_EQ(Ask({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"}), "1");
  EXPECT_EQ(AskUntilItAnswers({"GET", "connections"}), "2");
}

TEST_F(RedisClientTest, ARedisThatDoesNotAnswerFailsWhatWasAsked) {
  RedisClient::Options options = redis_.options();
  options.connect_timeout_ns = options.command_timeout_ns = 100 * kMillisecondNs;
  Open(options);
  EXPECT_EQ(AskUntilItAnswers({"PING"}), "PONG");
  redis_.Signal(SIGSTOP);
  EXPECT_THAT(Ask({"PING"}), HasSubstr("it does not answer in time"));
  EXPECT_THAT(Ask({"PING"}), HasSubstr("failed: "));
  redis_.Signal(SIGCONT);
  EXPECT_EQ(AskUntilItAnswers({"PING"}), "PONG");
}

TEST_F(RedisClientTest, ComesBackToARedisThatComesBack) {
  Open(redis_.options());
  EXPECT_EQ(Ask({"SET", "k", "v"}), "OK");
  redis_.Kill();
  EXPECT_THAT(Ask({"PING"}), HasSubstr("failed: "));
  const int64_t begun_ns = SteadyNowNs();
  EXPECT_THAT(Ask({"PING"}), HasSubstr("failed: "));
  EXPECT_LT(SteadyNowNs() - begun_ns, kSecondNs) << "it is not waited for what is known to be away";
  redis_.Start();
  EXPECT_EQ(AskUntilItAnswers({"PING"}), "PONG");
  EXPECT_EQ(Ask({"GET", "k"}), "nothing");
}

TEST_F(RedisClientTest, WhatIsLeftFailsAtTheEnd) {
  Open(redis_.options());
  EXPECT_EQ(Ask({"PING"}), "PONG");
  redis_.Signal(SIGSTOP);
  std::vector<std::future<Result<RedisReply>>> left;
  for (int i = 0; i < 10; ++i) left.push_back(Send({"PING"}));
  client_.reset();
  for (auto& one : left) EXPECT_EQ(one.get().status().code(), StatusCode::kUnavailable);
}

TEST_F(RedisClientTest, SentinelsThatKnowNothingAreSaidTo) {
  // A Redis that is not a sentinel.
  RedisClient::Options options = redis_.options();
  options.url.master = "main";
  Open(options);
  EXPECT_THAT(Ask({"PING"}),
              HasSubstr("no sentinel returned the master's address: it does not know master 'main'"));
}

TEST_F(RedisClientTest, ShowsItsPassword) {
  RealRedis guarded("open-sesame");
  Open(guarded.options());
  EXPECT_EQ(Ask({"PING"}), "PONG");
  RedisClient::Options without = guarded.options();
  without.password_file.clear();
  without.greeting = {{"PING"}};
  Open(without);
  EXPECT_THAT(Ask({"PING"}), HasSubstr("it refuses PING: NOAUTH"));
  RedisClient::Options missing = guarded.options();
  missing.password_file = guarded.folder() / "none";
  Open(missing);
  EXPECT_THAT(Ask({"PING"}), HasSubstr("its password file cannot be read"));
}

// A cluster of two nodes that answer as a test says. "b" has slot 3300, which is on `low`; "foo" has slot
// 12182, which is on `high`.
class RedisClusterTest : public Asking {
 protected:
  using Words = FakeRedis::Words;
  static constexpr int kB = 3300;
  static constexpr int kFoo = 12182;

  RedisClient::Options options() {
    RedisClient::Options options;
    options.url.cluster = true;
    options.url.addresses = {low_->address()};
    return options;
  }
  // Sets the map that both nodes return: slots from `border` on are at `high_port`.
  void SetMap(int border, uint16_t high_port) {
    const std::lock_guard lock(mutex_);
    map_ = "*2\r\n" + Range(0, border - 1, low_->port()) + Range(border, 16383, high_port);
  }
  static std::string Range(int first, int last, uint16_t port) {
    return "*3\r\n:" + std::to_string(first) + "\r\n:" + std::to_string(last) +
           "\r\n*2\r\n$9\r\n127.0.0.1\r\n:" + std::to_string(port) + "\r\n";
  }
  std::unique_ptr<FakeRedis> Node(const std::string& name, FakeRedis::Answer& answer) {
    return std::make_unique<FakeRedis>([this, name, &answer](const Words& words) {
      const std::lock_guard lock(mutex_);
      if (words[0] == "CLUSTER") {
        ++maps_told_;
        return map_;
      }
      if (words[0] == "ASKING") return FakeRedis::Text("OK");
      return answer ? answer(words) : FakeRedis::Text(name);
    });
  }
  std::string Sent(const std::string& how, int slot, const FakeRedis& to) {
    return FakeRedis::Error(how + " " + std::to_string(slot) + " 127.0.0.1:" + std::to_string(to.port()));
  }
  void SetUp() override { SetMap(8192, high_->port()); }
  void TearDown() override { client_.reset(); }

  std::mutex mutex_;
  std::string map_;
  std::atomic<int> maps_told_ = 0;
  FakeRedis::Answer low_answer_;   // set before the client starts
  FakeRedis::Answer high_answer_;  // set before the client starts
  std::unique_ptr<FakeRedis> low_ = Node("low", low_answer_);
  std::unique_ptr<FakeRedis> high_ = Node("high", high_answer_);
};

TEST_F(RedisClusterTest, KeysGoToWhereTheirSlotIs) {
  Open(options());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ask({"GET", "b"}), "low");
    EXPECT_EQ(Ask({"GET", "foo"}), "high");
    EXPECT_EQ(Ask({"GET", "{foo}x"}), "high");
  }
  EXPECT_EQ(low_->asked().size(), 3u);
}

TEST_F(RedisClusterTest, AMovedSlotIsFollowedAndLearned) {
  SetMap(16383, high_->port());
  low_answer_ = [&](const Words& words) {
    if (words[1] == "b") return FakeRedis::Text("low");
    map_ = "*2\r\n" + Range(0, kFoo - 1, low_->port()) + Range(kFoo, 16383, high_->port());
    return Sent("MOVED", kFoo, *high_);
  };
  Open(options());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Ask({"GET", "foo"}), "high");
  EXPECT_EQ(Ask({"GET", "b"}), "low");
  EXPECT_THAT(low_->asked(), ElementsAre("GET foo", "GET b"));
  // The new map covers other slots that have moved.
  const int64_t deadline_ns = SteadyNowNs() + 20 * kSecondNs;
  std::string told;
  while (told != "high" && SteadyNowNs() < deadline_ns) told = Ask({"GET", "123456789"});
  EXPECT_EQ(told, "high");
}

TEST_F(RedisClusterTest, ASlotThatIsMovingIsAskedForOnce) {
  SetMap(16383, high_->port());
  low_answer_ = [&](const Words&) { return Sent("ASK", kFoo, *high_); };
  Open(options());
  EXPECT_EQ(Ask({"GET", "foo"}), "high");
  EXPECT_EQ(Ask({"GET", "foo"}), "high");
  EXPECT_THAT(low_->asked(), ElementsAre("GET foo", "GET foo"));
  EXPECT_THAT(high_->asked(), ElementsAre("ASKING", "GET foo", "ASKING", "GET foo"));
}

TEST_F(RedisClusterTest, RedirectsAndRefusalsChangeNoOrder) {
  SetMap(16383, high_->port());
  low_answer_ = [&](const Words&) { return Sent("MOVED", kFoo, *high_); };
  int refused = 0;
  high_answer_ = [&](const Words& words) {
    map_ = "*2\r\n" + Range(0, kFoo - 1, low_->port()) + Range(kFoo, 16383, high_->port());
    return ++refused == 1 ? FakeRedis::Error("TRYAGAIN later") : FakeRedis::Text(words[2]);
  };
  Open(options());
  std::vector<std::future<Result<RedisReply>>> many;
  for (int i = 0; i < 4; ++i) many.push_back(Send({"SET", "foo", std::to_string(i)}));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(TextOf(many[i].get()), std::to_string(i));
  EXPECT_THAT(high_->asked(), ElementsAre("SET foo 0", "SET foo 0", "SET foo 1", "SET foo 2", "SET foo 3"));
}

TEST_F(RedisClusterTest, NodesThatPointToEachOtherAreFollowedForAWhile) {
  low_answer_ = [&](const Words&) { return Sent("MOVED", kFoo, *high_); };
  high_answer_ = [&](const Words&) { return Sent("MOVED", kFoo, *low_); };
  RedisClient::Options given = options();
  given.command_timeout_ns = 500 * kMillisecondNs;
  Open(given);
  const int64_t begun_ns = SteadyNowNs();
  EXPECT_THAT(Ask({"GET", "foo"}),
              HasSubstr("the nodes of the cluster disagree about the owner of its slot"));
  EXPECT_LT(SteadyNowNs() - begun_ns, 5 * kSecondNs);
  EXPECT_LT(low_->asked().size() + high_->asked().size(), 20u);
}

TEST_F(RedisClusterTest, ARefusalThatStaysIsAnError) {
  high_answer_ = [&](const Words&) { return FakeRedis::Error("CLUSTERDOWN The cluster is down"); };
  Open(options());
  EXPECT_THAT(Ask({"GET", "foo"}), HasSubstr("it refuses: CLUSTERDOWN The cluster is down"));
  EXPECT_EQ(Ask({"GET", "b"}), "low");
  EXPECT_THAT(high_->asked(), AnyOf(ElementsAre("GET foo"), ElementsAre("GET foo", "GET foo")));
}

TEST_F(RedisClusterTest, ANodeThatHangsHoldsNoOtherUp) {
  high_answer_ = [](const Words&) { return ""; };
  RedisClient::Options given = options();
  given.command_timeout_ns = kSecondNs;
  Open(given);
  EXPECT_EQ(Ask({"GET", "b"}), "low");
  auto hanging = Send({"GET", "foo"});
  auto behind = Send({"GET", "foo"});
  EXPECT_EQ(Ask({"GET", "b"}), "low");
  EXPECT_EQ(hanging.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_THAT(hanging.get().status().message(), HasSubstr("it does not answer in time"));
  EXPECT_FALSE(behind.get().ok());
}

TEST_F(RedisClusterTest, WhatANodeThatIsAwayHadGoesOnWhereTheMapSays) {
  Open(options());
  EXPECT_EQ(Ask({"GET", "foo"}), "high");
  const auto begun_ns = SteadyNowNs();
  high_.reset();
  std::string told = Ask({"GET", "foo"});
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(told, HasSubstr("failed: 127.0.0.1:"));
    EXPECT_EQ(Ask({"GET", "b"}), "low");
    told = Ask({"GET", "foo"});
  }
  EXPECT_LT(SteadyNowNs() - begun_ns, 5 * kSecondNs) << "it is not waited for what is known to be away";
  SetMap(16383, low_->port());
  EXPECT_EQ(AskUntilItAnswers({"GET", "foo"}), "low");
}

TEST_F(RedisClusterTest, WhatWasNotSentToANodeThatIsAwayFindsTheOneInItsPlace) {
  const FakeRedis third([](const Words&) { return FakeRedis::Text("third"); });
  const uint16_t nobody = [] { return FakeRedis([](const Words&) { return ""; }).port(); }();
  SetMap(8192, nobody);
  low_answer_ = [&](const Words&) {
    map_ = "*2\r\n" + Range(0, 8191, low_->port()) + Range(8192, 16383, third.port());
    return FakeRedis::Text("low");
  };
  Open(options());
  EXPECT_EQ(Ask({"GET", "b"}), "low");
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // the map is older than that
  EXPECT_EQ(Ask({"GET", "foo"}), "third") << "the first one to be told of it";
}

TEST_F(RedisClusterTest, ScriptsThatANodeDoesNotKnowAreTold) {
  int loaded = 0;
  high_answer_ = [&](const Words& words) {
    if (words[0] == "SCRIPT") return FakeRedis::Text(std::to_string(++loaded));
    return loaded < 2 ? FakeRedis::Error("NOSCRIPT No matching script.") : FakeRedis::Text(words.back());
  };
  RedisClient::Options given = options();
  given.greeting = {{"SCRIPT", "LOAD", "text"}};
  Open(given);
  // The fixture uses the second word as the key.
  auto one = Send({"EVALSHA", "foo", "1"});
  auto two = Send({"EVALSHA", "foo", "2"});
  EXPECT_EQ(TextOf(one.get()), "1");
  EXPECT_EQ(TextOf(two.get()), "2");
  EXPECT_THAT(high_->asked(), ElementsAre("SCRIPT LOAD text", "EVALSHA foo 1", "SCRIPT LOAD text",
                                          "EVALSHA foo 1", "EVALSHA foo 2"));
}

TEST_F(RedisClusterTest, AnyOfItsNodesTellsTheMap) {
  RedisClient::Options given = options();
  const uint16_t nobody = [] { return FakeRedis([](const Words&) { return ""; }).port(); }();
  given.url.addresses = {{"127.0.0.1", std::to_string(nobody)}, high_->address()};
  Open(given);
  EXPECT_EQ(Ask({"GET", "b"}), "low");
  given.url.addresses.pop_back();
  Open(given);
  EXPECT_THAT(Ask({"GET", "b"}), HasSubstr("Connection refused"));
}

TEST_F(RedisClusterTest, ANodeOfTheUrlThatIsGoneIsNotAskedAgainAndAgain) {
  RedisClient::Options given = options();
  const uint16_t gone = [] { return FakeRedis([](const Words&) { return ""; }).port(); }();
  given.url.addresses.push_back({"127.0.0.1", std::to_string(gone)});
  Open(given);
  EXPECT_EQ(Ask({"GET", "b"}), "low");
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_EQ(Ask({"GET", "foo"}), "high");
  EXPECT_LE(maps_told_, 4) << "two readings: the first one, and one for what was asked meanwhile";
}

TEST_F(RedisClusterTest, AClusterThatIsAwayIsTriedLessAndLess) {
  FakeRedis refusing([](const Words&) { return FakeRedis::Error("ERR no"); });
  RedisClient::Options given = options();
  given.greeting = {{"SCRIPT", "LOAD", "text"}};
  given.url.addresses = {refusing.address()};
  Open(given);
  const int64_t until_ns = SteadyNowNs() + 1500 * kMillisecondNs;
  while (SteadyNowNs() < until_ns) {
    EXPECT_THAT(Ask({"GET", "b"}), HasSubstr("it refuses SCRIPT: ERR no"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // After 0.1, 0.3, 0.7 and 1.5 s.
  EXPECT_LE(refusing.asked().size(), 5u);
}

TEST_F(RedisClusterTest, ARedisThatIsNoneIsSaidToBe) {
  {
    const std::lock_guard lock(mutex_);
    map_ = FakeRedis::Error("ERR This instance has cluster support disabled");
  }
  Open(options());
  EXPECT_THAT(Ask({"GET", "b"}), HasSubstr("it refuses CLUSTER SLOTS: ERR This instance has cluster"));
}

TEST_F(RedisClusterTest, ANodeThatIsAskedAloneNamesTheOtherUrl) {
  low_answer_ = [&](const Words&) { return Sent("MOVED", kB, *high_); };
  RedisClient::Options given = options();
  given.url.cluster = false;
  Open(given);
  const Result<RedisReply> reply = Send({"GET", "b"}).get();
  EXPECT_THAT(ShownError(*reply), HasSubstr("use redis+cluster://"));
}

}  // namespace
}  // namespace braid
