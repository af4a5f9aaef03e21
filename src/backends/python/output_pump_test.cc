#include "backends/python/output_pump.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

namespace braid {
namespace {

TEST(OutputPump, LogsLinesWithTheirSourceAndKeepsTheLastError) {
  const std::string path = testing::TempDir() + "output_pump_test." + std::to_string(getpid());
  Logger::Options options;
  options.file = path;
  {
    auto log = *Logger::Create(options);
    auto pump = *OutputPump::Create(*log);
    int out[2];
    int err[2];
    ASSERT_EQ(pipe(out), 0);
    ASSERT_EQ(pipe(err), 0);
    auto output = *pump->Add("m_0", UniqueFd(out[0]), UniqueFd(err[0]));
    const auto say = [](int fd, std::string_view text) {
      ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    };
    say(out[1], "first\nsec");
    say(out[1], "ond\nwithout end");
    say(err[1], "Traceback\nValueError: no\n\n");
    close(out[1]);
    close(err[1]);
    EXPECT_EQ(output->LastErrorLine(10'000'000'000), "ValueError: no");
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::remove(path.c_str());
  for (const char* line : {"[m_0] first\n", "[m_0] second\n", "[m_0] without end\n", "[m_0] Traceback\n"}) {
    EXPECT_NE(text.str().find(line), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace braid
