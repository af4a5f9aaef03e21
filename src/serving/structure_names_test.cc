#include "serving/structure_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

std::vector<std::string> Unique(std::vector<std::string> names) {
  MakeNodeNamesUnique(names);
  return names;
}

TEST(StructureNamesTest, ThoseThatAreThereOnceStay) {
  EXPECT_THAT(Unique({"resize", "classify"}), testing::ElementsAre("resize", "classify"));
}

TEST(StructureNamesTest, OthersGetNumbersThatNoneHasAlready) {
  EXPECT_THAT(Unique({"m", "m_1", "m", "n", "m"}), testing::ElementsAre("m_2", "m_1", "m_3", "n", "m_4"));
}

TEST(StructureNamesTest, RequestAndResponseAreTaken) {
  EXPECT_THAT(Unique({"request", "response", "response"}),
              testing::ElementsAre("request_1", "response_1", "response_2"));
}

}  // namespace
}  // namespace braid
