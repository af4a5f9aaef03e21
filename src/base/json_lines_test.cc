#include "base/json_lines.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(JsonLines, HasEachValueOnALine) {
  EXPECT_EQ(DumpJsonLines(Json{{"a", {1, 2}}, {"b", Json::object()}, {"c", "x\xff"}}),
            "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {},\n  \"c\": \"x\xef\xbf\xbd\"\n}\n");
  EXPECT_EQ(DumpJsonLines(Json::array()), "[]\n");
}

}  // namespace
}  // namespace braid
