#include "sequences/redis_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RedisUrlTest, ReadsWhatNamesARedis) {
  const auto plain = ParseRedisUrl("redis://one.example:7000/3").value();
  EXPECT_EQ(plain.addresses.at(0).host, "one.example");
  EXPECT_EQ(plain.addresses.at(0).port, "7000");
  EXPECT_EQ(plain.database, 3);
  EXPECT_FALSE(plain.tls);
  const auto secure = ParseRedisUrl("rediss://me@[::1]").value();
  EXPECT_EQ(secure.addresses.at(0).host, "::1");
  EXPECT_EQ(secure.addresses.at(0).port, "6379");
  EXPECT_EQ(secure.user, "me");
  EXPECT_EQ(secure.database, 0);
  EXPECT_TRUE(secure.tls);
  const auto path = ParseRedisUrl("unix:///run/redis.sock?db=2").value();
  EXPECT_EQ(path.addresses.at(0).host, "/run/redis.sock");
  EXPECT_EQ(path.database, 2);
  EXPECT_EQ(ParseRedisUrl("unix:///s").value().database, 0);
  const auto sentinels = ParseRedisUrl("rediss+sentinel://me@a,b:7/main/4").value();
  ASSERT_EQ(sentinels.addresses.size(), 2u);
  EXPECT_EQ(sentinels.addresses[0].authority(), "a:26379");
  EXPECT_EQ(sentinels.addresses[1].authority(), "b:7");
  EXPECT_EQ(sentinels.master, "main");
  EXPECT_EQ(sentinels.database, 4);
  EXPECT_TRUE(sentinels.tls);
}

TEST(RedisUrlTest, ReadsWhatNamesACluster) {
  const auto cluster = ParseRedisUrl("redis+cluster://me@a,b:7,[::1]:8").value();
  EXPECT_TRUE(cluster.cluster);
  EXPECT_FALSE(cluster.tls);
  EXPECT_EQ(cluster.user, "me");
  ASSERT_EQ(cluster.addresses.size(), 3u);
  EXPECT_EQ(cluster.addresses[0].authority(), "a:6379");
  EXPECT_EQ(cluster.addresses[1].authority(), "b:7");
  EXPECT_EQ(cluster.addresses[2].authority(), "[::1]:8");
  EXPECT_TRUE(ParseRedisUrl("rediss+cluster://a/0").value().tls);
  EXPECT_TRUE(ParseRedisUrl("rediss+cluster://a/0").value().cluster);
  EXPECT_FALSE(ParseRedisUrl("redis://a").value().cluster);
}

TEST(RedisUrlTest, RefusesOthersWithoutShowingThem) {
  const auto why = [](std::string_view text) {
    const auto url = ParseRedisUrl(text);
    return url.ok() ? "ok" : url.status().message();
  };
  for (const char* text : {"redis://:secret@h", "redis://me:secret@h/1", "rediss://a:se@cret@h"}) {
    EXPECT_THAT(why(text), HasSubstr("--sequence_state_store_password_file")) << text;
    EXPECT_THAT(why(text), Not(HasSubstr("secret"))) << text;
  }
  EXPECT_THAT(why("http://h"), HasSubstr("unknown scheme"));
  EXPECT_THAT(why("redis://h/x"), HasSubstr("the database is not a number"));
  EXPECT_THAT(why("redis://h/-1"), HasSubstr("the database is not a number"));
  EXPECT_THAT(why("redis://"), HasSubstr("the host is missing"));
  EXPECT_THAT(why("redis://h:port"), HasSubstr("the host is missing"));
  EXPECT_THAT(why("redis:///path"), HasSubstr("no"));
  EXPECT_THAT(why("redis://a:1,b:2"), HasSubstr("several hosts"));
  EXPECT_THAT(why("redis+cluster://a,b/1"), HasSubstr("a cluster has only database 0"));
  EXPECT_THAT(why("redis+cluster://a,,b"), HasSubstr("the host is missing"));
  EXPECT_THAT(why("redis+cluster://"), HasSubstr("the host is missing"));
  EXPECT_THAT(why("redis+cluster://:secret@a"), HasSubstr("_password_file"));
  EXPECT_THAT(why("redis+sentinel://a"), HasSubstr("the master's name is missing"));
  EXPECT_THAT(why("redis+sentinel://a,/main"), HasSubstr("the host is missing"));
  EXPECT_THAT(why("unix://run"), HasSubstr("must begin with '/'"));
  EXPECT_THAT(why("unix:///run?x=1"), HasSubstr("?db=DB"));
}

}  // namespace
}  // namespace braid
