#include "base/recent_log.h"

#include <gtest/gtest.h>

#include <string>

namespace braid {
namespace {

bool Every(const RecentLog::Line&) { return true; }

std::string Texts(const RecentLog::Page& page) {
  std::string texts;
  for (const RecentLog::Line& line : page.lines) texts += (texts.empty() ? "" : " ") + line.text;
  return texts;
}

TEST(RecentLog, HearsOfWhatTheLoggerWrites) {
  RecentLog recent;
  Logger::Options options;
  options.file = "/dev/null";
  options.observer = &recent;
  const auto log = Logger::Create(options).value();
  BRAID_LOG_INFO(*log, "of the server");
  BRAID_LOG_VERBOSE(*log, "is off");
  {
    const LogAbout about("m");
    BRAID_LOG_ERROR(*log, "of\nthe model");
    {
      const LogAbout itself("");
      BRAID_LOG_WARNING(*log, "of the server again");
    }
    EXPECT_EQ(LogAbout::Model(), "m");
  }
  EXPECT_EQ(LogAbout::Model(), "");
  log->WriteOutput("m_0", "printed", "m");
  const RecentLog::Page page = recent.Newest(10, Every);
  ASSERT_EQ(page.lines.size(), 4u);
  EXPECT_EQ(page.next, 4u);
  EXPECT_EQ(page.lines[0].level, LogLevel::kInfo);
  EXPECT_EQ(page.lines[0].model, "");
  EXPECT_EQ(page.lines[0].text, "of the server");
  EXPECT_GT(page.lines[0].at_ms, 1'600'000'000'000);
  EXPECT_EQ(page.lines[1].model, "m");
  EXPECT_EQ(page.lines[1].text, "of\\nthe model");
  EXPECT_EQ(page.lines[2].model, "");
  EXPECT_EQ(page.lines[3].level, std::nullopt);
  EXPECT_EQ(page.lines[3].model, "m");
  EXPECT_EQ(page.lines[3].text, "[m_0] printed");
}

TEST(RecentLog, IsReadOn) {
  RecentLog recent;
  for (const char* text : {"a", "b", "c", "d", "e"}) recent.OnLine({1, LogLevel::kInfo, "", text});
  RecentLog::Page page = recent.Newest(2, Every);
  EXPECT_EQ(Texts(page), "d e");
  EXPECT_EQ(page.next, 5u);
  EXPECT_EQ(Texts(recent.After(page.next, 2, Every)), "");
  page = recent.After(1, 2, Every);
  EXPECT_EQ(Texts(page), "b c");
  EXPECT_EQ(page.next, 3u);
  page = recent.After(page.next, 2, Every);
  EXPECT_EQ(Texts(page), "d e");
  EXPECT_EQ(page.next, 5u);
  EXPECT_EQ(page.lost, 0u);
  // Numbers of an earlier run of the server.
  EXPECT_EQ(recent.After(99, 2, Every).next, 5u);
}

TEST(RecentLog, ShowsWhatIsWanted) {
  RecentLog recent;
  for (const char* model : {"m", "n", "m", "n"}) recent.OnLine({1, LogLevel::kInfo, model, model});
  const auto of_m = [](const RecentLog::Line& line) { return line.model == "m"; };
  EXPECT_EQ(Texts(recent.Newest(10, of_m)), "m m");
  const RecentLog::Page page = recent.After(0, 1, of_m);
  EXPECT_EQ(Texts(page), "m");
  // Up to the first line that did not fit.
  EXPECT_EQ(page.next, 2u);
}

TEST(RecentLog, KeepsSoManyBytesAndSaysWhatIsLost) {
  constexpr size_t kMost = 64 * 1024;
  RecentLog recent(kMost);
  const std::string text(1000, 'x');
  for (int i = 0; i < 1000; ++i) recent.OnLine({1, std::nullopt, "m", text});
  const RecentLog::Page page = recent.After(100, 1000, Every);
  EXPECT_GT(page.lines.size(), 40u);
  EXPECT_LE(page.lines.size() * 1000, kMost);
  EXPECT_EQ(page.lost, 900 - page.lines.size());
  EXPECT_EQ(page.lines.back().number, 1000u);
  EXPECT_EQ(page.lines.front().number, 1001 - page.lines.size());
}

TEST(RecentLog, CutsALongLineBetweenCharacters) {
  RecentLog recent;
  std::string text(RecentLog::kMostLineBytes - 1, 'x');
  text += "\u00e4 and more";
  recent.OnLine({1, LogLevel::kInfo, "", text});
  const RecentLog::Page page = recent.Newest(1, Every);
  EXPECT_EQ(page.lines[0].text, std::string(RecentLog::kMostLineBytes - 1, 'x'));
}

}  // namespace
}  // namespace braid
