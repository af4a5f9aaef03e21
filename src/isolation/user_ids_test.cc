#include "isolation/user_ids.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(UserIdsTest, EachIsOnePersonsAndComesBackLast) {
  const auto ids = std::make_shared<UserIds>(10, 12);
  UserIds::Share first = ids->Take().value();
  const UserIds::Share second = ids->Take().value();
  EXPECT_EQ(*first, 10U);
  EXPECT_EQ(*second, 11U);
  first.reset();
  EXPECT_EQ(*ids->Take().value(), 12U);
  const UserIds::Share again = ids->Take().value();
  EXPECT_EQ(*again, 10U);
}

TEST(UserIdsTest, SaysWhenThereIsNone) {
  const auto ids = std::make_shared<UserIds>(7, 7);
  const UserIds::Share only = ids->Take().value();
  EXPECT_EQ(ids->Take().status().message(), "all 1 users of --worker-user-ids are in use");
  EXPECT_EQ(ids->Take().status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace braid
