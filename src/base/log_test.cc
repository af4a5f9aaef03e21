#include "base/log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/temporary_folder.h"

namespace braid {
namespace {

TEST(EscapeForLog, KeepsALineOneLine) {
  EXPECT_EQ(EscapeForLog("a\nb\r\tc\x1b[31m"), "a\\nb\\r\\tc\\x1b[31m");
  EXPECT_EQ(EscapeForLog("pl\xc3\xa4in"), "pl\xc3\xa4in");
  // Terminals also interpret the second half of Latin-1's control characters as escape sequences.
  EXPECT_EQ(EscapeForLog("a\xc2\x9b"
                         "31m\xe2\x80\xa8"),
            "a\\u009b31m\\u2028");
  EXPECT_EQ(EscapeForLog("caf\xe9"), "caf\\xe9");
}

TEST(Logger, CutsWhatIsTooLong) {
  struct Observer final : LogObserver {
    void OnLine(const LogLine& line) override { text = line.text; }
    std::string text;
  } observer;
  Logger::Options options;
  options.observer = &observer;
  const auto log = Logger::Create(options);
  ASSERT_TRUE(log.ok());
  BRAID_LOG_INFO(**log, "{}", std::string(12 << 20, 'x'));
  EXPECT_EQ(observer.text, std::string(kMostLogged, 'x') + "... (12582912 bytes)");
}

TEST(Logger, LinesBehindTheFirstAreIndented) {
  struct Observer final : LogObserver {
    void OnLine(const LogLine& line) override { texts.emplace_back(line.text); }
    std::vector<std::string> texts;
  } observer;
  const auto folder = TemporaryFolder::Create(std::filesystem::temp_directory_path(), "braid-log-");
  ASSERT_TRUE(folder.ok());
  const std::string file = (*folder)->path() + "/log";
  Logger::Options options;
  options.observer = &observer;
  options.file = file;
  const auto log = Logger::Create(options);
  ASSERT_TRUE(log.ok());
  (*log)->WriteLines(LogLevel::kError, "/m/1/model.py", 7,
                     "ValueError: a\r\nE0101 x.cc:1] forged\n\n  at\x1b\n");
  (*log)->WriteLines(LogLevel::kError, "model.py", 0, "\n");
  (*log)->WriteLines(LogLevel::kVerbose, "model.py", 0, "not enabled");
  BRAID_LOG_INFO(**log, "one\nline");
  (*log)->Flush();
  std::ifstream written(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(written, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_TRUE(lines[0].starts_with("E") && lines[0].ends_with(" model.py:7] ValueError: a\\r")) << lines[0];
  EXPECT_EQ(lines[1], "    E0101 x.cc:1] forged");
  EXPECT_EQ(lines[2], "      at\\x1b");
  EXPECT_TRUE(lines[3].ends_with(" model.py] ")) << lines[3];
  EXPECT_TRUE(lines[4].ends_with("] one\\nline")) << lines[4];
  EXPECT_EQ(observer.texts[0], "ValueError: a\\r\nE0101 x.cc:1] forged\n  at\\x1b");
}

TEST(Logger, LevelsSwitchAtRunTime) {
  Logger log;
  EXPECT_TRUE(log.enabled(LogLevel::kInfo));
  EXPECT_FALSE(log.enabled(LogLevel::kVerbose));
  log.set_verbose_level(2);
  EXPECT_TRUE(log.enabled(LogLevel::kVerbose, 2));
  EXPECT_FALSE(log.enabled(LogLevel::kVerbose, 3));
  log.set_enabled(LogLevel::kError, false);
  EXPECT_FALSE(log.enabled(LogLevel::kError));
}

}  // namespace
}  // namespace braid
