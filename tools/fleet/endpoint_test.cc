#include "fleet/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Endpoint, HasThePortsThatAreNamed) {
  EXPECT_EQ(*ParseEndpoint("braid-0"), (Endpoint{"braid-0", 8000, 8001, 8002}));
  EXPECT_EQ(*ParseEndpoint("h:1"), (Endpoint{"h", 1, 0, 0}));
  EXPECT_EQ(*ParseEndpoint("h:2:1"), (Endpoint{"h", 1, 2, 0}));
  EXPECT_EQ(*ParseEndpoint("[::1]:2:1:3"), (Endpoint{"::1", 1, 2, 3}));
  EXPECT_EQ(ParseEndpoint("[::1]:2:1:3")->name(), "[::1]:1");
  EXPECT_EQ(ParseEndpoint("10.0.0.1:8001:8000")->name(), "10.0.0.1:8000");
}

TEST(Endpoint, RefusesWhatIsNone) {
  for (const char* text : {"", ":1", "h:", "h:0", "h:1:", "h:1:2:3:4", "h:65536", "::1", "[::1", "[::1]8000",
                           "http://h:1", "a b"}) {
    EXPECT_THAT(ParseEndpoint(text).status().message(), HasSubstr("is not an endpoint")) << text;
  }
}

TEST(Endpoint, IsNamedOnceInAList) {
  EXPECT_THAT(*ParseEndpoints("a:2:1,b:2:1"), ElementsAre(Endpoint{"a", 1, 2, 0}, Endpoint{"b", 1, 2, 0}));
  EXPECT_EQ(ParseEndpoints("a:2:1,b,a:3:1").status().message(), "duplicate endpoint a:1");
  EXPECT_FALSE(ParseEndpoints("a,,b").ok());
}

TEST(EndpointSource, AreAListOrAName) {
  const EndpointSource list = *ParseEndpointSource("a:2:1,b:2:1");
  EXPECT_FALSE(list.by_dns);
  EXPECT_THAT(*FindReplicas(list), ElementsAre(Endpoint{"a", 1, 2, 0}, Endpoint{"b", 1, 2, 0}));
  const EndpointSource name = *ParseEndpointSource("dns://127.0.0.1:2:1:3");
  EXPECT_TRUE(name.by_dns);
  EXPECT_THAT(*FindReplicas(name), ElementsAre(Endpoint{"127.0.0.1", 1, 2, 3}));
  EXPECT_EQ(ParseEndpointSource("dns://a,b").status().message(), "dns:// takes one name");
  EXPECT_THAT(ParseEndpointSource("http://a:1").status().message(), HasSubstr("is not an endpoint"));
}

TEST(Endpoint, OfAnAddressIsThatAddress) {
  EXPECT_THAT(*Resolve({"127.0.0.1", 1, 2, 3}), ElementsAre(Endpoint{"127.0.0.1", 1, 2, 3}));
  EXPECT_TRUE(IsAddress("::1"));
  EXPECT_FALSE(IsAddress("localhost"));
  EXPECT_EQ(Resolve({"no-such-host.invalid", 1, 2, 3}).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace braid::fleet
