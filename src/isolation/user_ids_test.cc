#include "isolation/user_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace braid {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

TEST(UserIdsTest, KnowsThoseOfTheUserNamespace) {
  const std::string process = ::testing::TempDir() + "user_ids_test";
  std::filesystem::create_directories(process);
  const auto write = [&process](const char* name, const char* text) {
    std::ofstream(process + "/" + name) << text;
  };
  write("uid_map", "      1000     300000       1000\n 0 1000 1\n  2000 400000 1000\n");
  write("gid_map", "0 0 4294967295\n");
  EXPECT_TRUE(CheckUserIds(0, 0, process).ok());
  EXPECT_TRUE(CheckUserIds(1000, 2999, process).ok()) << "of two ranges that follow each other";
  const Status more = CheckUserIds(1000, 3000, process);
  EXPECT_EQ(more.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(more.message(), StartsWith("--worker-user-ids 1000-3000 are not all mapped here; "));
  EXPECT_THAT(more.message(), EndsWith("/uid_map has 0-0, 1000-1999, 2000-2999"));
  EXPECT_FALSE(CheckUserIds(0, 1000, process).ok());
  write("gid_map", "0 0 2000\n");
  EXPECT_THAT(CheckUserIds(1000, 2999, process).message(), EndsWith("/gid_map has 0-1999"));
}

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
