#include "base/log_colours.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(LogColoursTest, TheLevelHasAColour) {
  EXPECT_EQ(ColouredLines(LogLevel::kInfo, "I1128 place] ", "", "loaded"),
            "\x1b[32mI\x1b[0m\x1b[2m1128 place] \x1b[0mloaded");
  EXPECT_EQ(ColouredLines(LogLevel::kError, "E1128 place] ", "r1, r2", "bad"),
            "\x1b[1;31mE\x1b[0m\x1b[2m1128 place] \x1b[0m\x1b[36m[request r1, r2] \x1b[0m\x1b[1mbad\x1b[0m");
}

TEST(LogColoursTest, PlacesOfTracebacksBecomeLinks) {
  const std::string text = ColouredLines(LogLevel::kError, "E] ", "",
                                         "ValueError: no\n"
                                         "  File \"/models/m/1/my model.py\", line 12, in execute\n"
                                         "    raise ValueError(\"no\")\n"
                                         "  File \"/usr/lib/python3.11/json/decoder.py\", line 3, in f\n"
                                         "  File \"<string>\", line 1");
  EXPECT_NE(text.find("\n  File \x1b[1;36m/models/m/1/my model.py:12\x1b[0m, in execute\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n    raise ValueError(\"no\")\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  File \x1b[2m/usr/lib/python3.11/json/decoder.py:3\x1b[0m, in f\n"),
            std::string::npos)
      << text;
  EXPECT_TRUE(text.ends_with("\n  File \x1b[2m<string>:1\x1b[0m")) << text;
}

TEST(LogColoursTest, OtherLinesStayAsTheyAre) {
  for (const char* line : {"", "  ", "  File \"", "  File \"/a.py\", line", "  File /a.py, line 3", "File"}) {
    EXPECT_EQ(ColouredOutput("m_0", line), std::string("\x1b[36m[m_0]\x1b[0m ") + line);
  }
}

TEST(LogColoursTest, AFileIsNoTerminal) { EXPECT_FALSE(ShowsColours(-1)); }

}  // namespace
}  // namespace braid
