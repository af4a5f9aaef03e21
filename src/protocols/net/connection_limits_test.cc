#include "protocols/net/connection_limits.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <memory>
#include <vector>

namespace braid {
namespace {

sockaddr_storage Address(const char* text) {
  sockaddr_storage address{};
  auto& four = reinterpret_cast<sockaddr_in&>(address);
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
    address.ss_family = AF_INET;
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text, &six.sin6_addr), 1) << text;
    address.ss_family = AF_INET6;
  }
  return address;
}

TEST(ConnectionLimits, CountsAllAndThoseOfAnAddress) {
  Refusals refusals(nullptr);
  const auto limits = std::make_shared<ConnectionLimits>(ConnectionLimits::Options{3, 2}, refusals);
  std::vector<ConnectionLimits::Place> places;
  places.push_back(limits->Take(Address("10.0.0.1")));
  places.push_back(limits->Take(Address("::ffff:10.0.0.1")));
  EXPECT_TRUE(places[0]);
  EXPECT_TRUE(places[1]);
  EXPECT_FALSE(limits->Take(Address("10.0.0.1")));
  EXPECT_EQ(refusals.count(Limit::kConnectionsPerAddress), 1u);
  places.push_back(limits->Take(Address("10.0.0.2")));
  EXPECT_TRUE(places[2]);
  EXPECT_FALSE(limits->Take(Address("10.0.0.3")));
  EXPECT_EQ(refusals.count(Limit::kConnections), 1u);
  EXPECT_EQ(limits->open(), 3u);
  places.pop_back();
  EXPECT_TRUE(limits->Take(Address("10.0.0.3")));
  EXPECT_EQ(limits->open(), 2u);
}

TEST(ConnectionLimits, AMachineIsItsFirst64BitsOfIpv6) {
  Refusals refusals(nullptr);
  const auto limits = std::make_shared<ConnectionLimits>(ConnectionLimits::Options{10, 1}, refusals);
  const ConnectionLimits::Place place = limits->Take(Address("2001:db8:1:2::1"));
  EXPECT_TRUE(place);
  EXPECT_FALSE(limits->Take(Address("2001:db8:1:2:ffff::7")));
  EXPECT_TRUE(limits->Take(Address("2001:db8:1:3::1")));
}

TEST(ConnectionLimits, ClientsOfAUnixSocketCountByTheirUser) {
  Refusals refusals(nullptr);
  const auto limits = std::make_shared<ConnectionLimits>(ConnectionLimits::Options{10, 1}, refusals);
  const ConnectionLimits::Place root = limits->TakeForUser(0);
  EXPECT_TRUE(root);
  EXPECT_FALSE(limits->TakeForUser(0));
  const ConnectionLimits::Place other = limits->TakeForUser(1000);
  EXPECT_TRUE(other);
  EXPECT_TRUE(limits->Take(Address("0.0.0.0")));
  EXPECT_TRUE(limits->Take(Address("232.3.0.0")));  // the bytes of user 1000
}

}  // namespace
}  // namespace braid
