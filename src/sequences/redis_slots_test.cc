#include "sequences/redis_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace braid {
namespace {

using ::testing::HasSubstr;

const client::Address kAsked{"asked.example", "7000"};

RedisReply Text(std::string text) { return {.kind = RedisReply::Kind::kText, .text = std::move(text)}; }
RedisReply Number(int64_t number) { return {.kind = RedisReply::Kind::kNumber, .number = number}; }
RedisReply List(std::vector<RedisReply> list) {
  return {.kind = RedisReply::Kind::kList, .list = std::move(list)};
}

TEST(RedisSlotsTest, KeysHaveTheSlotsThatTheClusterSays) {
  // As CLUSTER KEYSLOT answers.
  EXPECT_EQ(RedisSlotOf("123456789"), 0x31c3u);
  EXPECT_EQ(RedisSlotOf(""), 0u);
  EXPECT_EQ(RedisSlotOf("foo"), 12182u);
  EXPECT_EQ(RedisSlotOf("braid:{foo}"), 12182u);
  EXPECT_EQ(RedisSlotOf("{foo}{bar}"), 12182u);
  EXPECT_EQ(RedisSlotOf("foo{}{bar}"), 8363u);
  EXPECT_EQ(RedisSlotOf("foo{{bar}}zap"), RedisSlotOf("{bar"));
  EXPECT_EQ(RedisSlotOf("\xff"), 7920u);
}

TEST(RedisSlotsTest, ReadsWhoHasWhichSlots) {
  const auto ranges =
      ReadRedisSlots(
          List({List({Number(0), Number(5460), List({Text("10.0.0.1"), Number(7001), Text("id")}),
                      List({Text("10.0.0.9"), Number(7009), Text("replica")})}),
                List({Number(5461), Number(5461), List({Text("a.example"), Number(7002), Text("id")})}),
                List({Number(5462), Number(5470), List({Text(""), Number(7003), Text("id")})}),
                List({Number(5471), Number(5471), List({RedisReply{}, Number(7004), Text("id")})}),
                List({Number(5472), Number(16383),
                      List({Text("?"), Number(7005), Text("id"), List({Text("ip"), Text("10.0.0.5")})})})}),
          kAsked)
          .value();
  ASSERT_EQ(ranges.size(), 5u);
  EXPECT_EQ(ranges[0].first, 0u);
  EXPECT_EQ(ranges[0].last, 5460u);
  EXPECT_EQ(ranges[0].master.authority(), "10.0.0.1:7001");
  EXPECT_EQ(ranges[1].master.authority(), "a.example:7002");
  EXPECT_EQ(ranges[2].master.authority(), "asked.example:7003");
  EXPECT_EQ(ranges[3].master.authority(), "asked.example:7004");
  EXPECT_EQ(ranges[4].master.authority(), "10.0.0.5:7005");
  EXPECT_EQ(ranges[4].last, 16383u);
}

TEST(RedisSlotsTest, RefusesOtherAnswers) {
  const auto why = [](const RedisReply& reply) { return ReadRedisSlots(reply, kAsked).status().message(); };
  const RedisReply node = List({Text("h"), Number(1)});
  EXPECT_THAT(
      why({.kind = RedisReply::Kind::kError, .text = "ERR This instance has cluster support disabled"}),
      HasSubstr("it refuses CLUSTER SLOTS: ERR This instance has cluster support disabled"));
  EXPECT_THAT(why(List({})), HasSubstr("has no slots"));
  for (const RedisReply& range :
       {Text("x"), List({Number(0), Number(1)}), List({Number(0), Number(16384), node}),
        List({Number(-1), Number(1), node}), List({Number(2), Number(1), node}),
        List({Number(0), Number(1), List({Text("h"), Number(65536)})}),
        List({Number(0), Number(1), List({Text("h"), Text("7000")})})}) {
    EXPECT_THAT(why(List({range})), HasSubstr("malformed reply"));
  }
}

TEST(RedisSlotsTest, ReadsWhereItIsSent) {
  const auto moved = ReadRedisRedirect("MOVED 3999 127.0.0.1:6381", kAsked);
  ASSERT_TRUE(moved);
  EXPECT_FALSE(moved->asks);
  EXPECT_EQ(moved->slot, 3999u);
  EXPECT_EQ(moved->to.authority(), "127.0.0.1:6381");
  const auto ask = ReadRedisRedirect("ASK 16383 h.example:1", kAsked);
  ASSERT_TRUE(ask);
  EXPECT_TRUE(ask->asks);
  EXPECT_EQ(ask->to.authority(), "h.example:1");
  EXPECT_EQ(ReadRedisRedirect("MOVED 1 ::1:6381", kAsked)->to.authority(), "[::1]:6381");
  EXPECT_EQ(ReadRedisRedirect("MOVED 1 :6381", kAsked)->to.authority(), "asked.example:6381");
  EXPECT_EQ(ReadRedisRedirect("MOVED 1 ?:6381", kAsked)->to.authority(), "asked.example:6381");
  for (const char* other :
       {"", "MOVED", "MOVED 1", "MOVED 16384 h:1", "MOVED x h:1", "MOVED 1 h", "MOVED 1 h:0",
        "MOVED 1 h:65536", "MOVED 1 h:", "ASK -1 h:1", "ERR 1 h:1", "MOVED  h:1", "MOVED:1 2"}) {
    EXPECT_FALSE(ReadRedisRedirect(other, kAsked)) << other;
  }
}

}  // namespace
}  // namespace braid
