#include "store/redis_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "store/testing/real_redis.h"

namespace braid {
namespace {

using ::testing::HasSubstr;

class RedisClientTest : public ::testing::Test {
 protected:
  void Open(RedisClient::Options options) {
    auto client = RedisClient::Start(options, log_);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = std::move(client).value();
  }
  std::future<Result<RedisReply>> Send(std::vector<std::string> words) {
    auto promise = std::make_shared<std::promise<Result<RedisReply>>>();
    auto future = promise->get_future();
    client_->Send(RedisClient::Words(std::move(words)),
                  [promise](Result<RedisReply> reply) { promise->set_value(std::move(reply)); });
    return future;
  }
  std::string Ask(std::vector<std::string> words) {
    const Result<RedisReply> reply = Send(std::move(words)).get();
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
  // Until the client has found it.
  std::string AskUntilItAnswers(const std::vector<std::string>& words) {
    const int64_t deadline_ns = SteadyNowNs() + 20 * kSecondNs;
    std::string told;
    do {
      told = Ask(words);
    } while (told.starts_with("failed: ") && SteadyNowNs() < deadline_ns);
    return told;
  }

  Logger log_;
  RealRedis redis_;
  std::unique_ptr<RedisClient> client_;
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
  EXPECT_EQ(Ask({"GET", "k"}), large);
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
  EXPECT_EQ(Ask({"PING"}), "PONG");
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
  // A Redis that is no sentinel.
  RedisClient::Options options = redis_.options();
  options.url.master = "main";
  Open(options);
  EXPECT_THAT(Ask({"PING"}), HasSubstr("no sentinel says where the master is: it knows no master 'main'"));
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
  EXPECT_THAT(Ask({"PING"}), HasSubstr("the file of its password cannot be read"));
}

}  // namespace
}  // namespace braid
