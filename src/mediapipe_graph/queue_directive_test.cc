#include "mediapipe_graph/queue_directive.h"

#include <gtest/gtest.h>

#include <string>

namespace braid {
namespace {

size_t Parse(std::string_view text) {
  auto parsed = ParseQueueDirective(text, 8);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status();
  return parsed.ok() ? *parsed : 999;
}

TEST(QueueDirective, NoLineIsNoBound) {
  EXPECT_EQ(Parse(""), 0U);
  EXPECT_EQ(Parse("input_stream: 'a'\n# a comment\n"), 0U);
  EXPECT_EQ(Parse("name: 'OVMS_GRAPH_QUEUE_MAX_SIZE: 3'"), 0U);
  EXPECT_EQ(Parse("# OVMS_GRAPH_QUEUE_MAX_SIZES: 3"), 0U);
}

TEST(QueueDirective, NumbersAreAtMostTheCores) {
  EXPECT_EQ(Parse("# OVMS_GRAPH_QUEUE_MAX_SIZE: 3\ninput_stream: 'a'"), 3U);
  EXPECT_EQ(Parse("input_stream: 'a'\r\n  #OVMS_GRAPH_QUEUE_MAX_SIZE:3\r\n"), 3U);
  EXPECT_EQ(Parse("# OVMS_GRAPH_QUEUE_MAX_SIZE: 100"), 8U);
  EXPECT_EQ(Parse("# OVMS_GRAPH_QUEUE_MAX_SIZE: 0"), 0U);
  EXPECT_EQ(Parse("# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO"), 8U);
  EXPECT_EQ(*ParseQueueDirective("# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO", 0), 1U);
}

TEST(QueueDirective, AnythingElseIsAnError) {
  for (const std::string value : {"-1", "auto", "", "3 4", "1.5", "99999999999999999999", "0x3"}) {
    auto parsed = ParseQueueDirective("# OVMS_GRAPH_QUEUE_MAX_SIZE: " + value, 8);
    ASSERT_FALSE(parsed.ok()) << value;
    EXPECT_EQ(parsed.status().message(),
              "Failed to read protobuf graph configuration file - OVMS_GRAPH_QUEUE_MAX_SIZE is '" + value +
                  "'; expected AUTO or a non-negative number");
  }
}

}  // namespace
}  // namespace braid
