#include "base/log.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(EscapeForLog, KeepsALineOneLine) {
  EXPECT_EQ(EscapeForLog("a\nb\r\tc\x1b[31m"), "a\\nb\\r\\tc\\x1b[31m");
  EXPECT_EQ(EscapeForLog("pl\xc3\xa4in"), "pl\xc3\xa4in");
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
