#include "serving/structure_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

std::vector<std::string> Unique(std::vector<std::string> names) {
  MakeNodeNamesUnique(names);
  return names;
}

TEST(StructurePartsTest, ThoseThatAreThereOnceStay) {
  EXPECT_THAT(Unique({"resize", "classify"}), testing::ElementsAre("resize", "classify"));
}

TEST(StructurePartsTest, OthersGetNumbersThatNoneHasAlready) {
  EXPECT_THAT(Unique({"m", "m_1", "m", "n", "m"}), testing::ElementsAre("m_2", "m_1", "m_3", "n", "m_4"));
}

TEST(StructurePartsTest, RequestAndResponseAreTaken) {
  EXPECT_THAT(Unique({"request", "response", "response"}),
              testing::ElementsAre("request_1", "response_1", "response_2"));
}

TEST(StructurePartsTest, CountsAreThoseOfTheNumber) {
  FlowCounters counters(2, 0);
  counters.Started(1);
  counters.Started(1);
  counters.Ended(1, true, 7);
  StructureNode node = RequestNode("demultiply_count: 2");
  ReadCounts(counters, 1, node);
  EXPECT_EQ(node.kind, StructureNodeKind::kRequest);
  EXPECT_EQ(node.note, "demultiply_count: 2");
  EXPECT_EQ(node.started, 2u);
  EXPECT_EQ(node.ended, 1u);
  EXPECT_EQ(node.failed, 1u);
  EXPECT_EQ(node.total_ns, 7u);
}

}  // namespace
}  // namespace braid
