#include "base/log.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(EscapeForLog, KeepsALineOneLine) {
  EXPECT_EQ(EscapeForLog("a\nb\r\tc\x1b[31m"), "a\\nb\\r\\tc\\x1b[31m");
  EXPECT_EQ(EscapeForLog("pl\xc3\xa4in"), "pl\xc3\xa4in");
  // Terminals take the second half of Latin-1's control characters for escape sequences too.
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
