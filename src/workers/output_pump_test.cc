#include "workers/output_pump.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace braid {
namespace {

constexpr size_t kLongLine = 65536;

class OutputPumpTest : public testing::Test {
 protected:
  OutputPumpTest() {
    Logger::Options options;
    options.file = path_;
    log_ = *Logger::Create(options);
  }
  ~OutputPumpTest() override { std::remove(path_.c_str()); }

  static void Say(int fd, std::string_view text) {
    ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  std::string Logged() {
    log_->Flush();
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const std::string path_ = testing::TempDir() + "output_pump_test." + std::to_string(getpid());
  std::unique_ptr<Logger> log_;
};

TEST_F(OutputPumpTest, LogsLinesWithTheirSourceAndKeepsTheLastError) {
  {
    auto pump = *OutputPump::Create(*log_);
    int out[2];
    int err[2];
    ASSERT_EQ(pipe(out), 0);
    ASSERT_EQ(pipe(err), 0);
    auto output = *pump->Add("m_0", UniqueFd(out[0]), UniqueFd(err[0]));
    Say(out[1], "first\nsec");
    Say(out[1], "ond\nwithout end");
    Say(err[1], "Traceback\nValueError: no\n\n");
    close(out[1]);
    close(err[1]);
    EXPECT_EQ(output->LastErrorLine(10'000'000'000), "ValueError: no");
  }
  const std::string text = Logged();
  for (const char* line : {"[m_0] first\n", "[m_0] second\n", "[m_0] without end\n", "[m_0] Traceback\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST_F(OutputPumpTest, StopsAndHearsOthersBesideAWorkerThatPrintsWithoutEnd) {
  std::signal(SIGPIPE, SIG_IGN);
  std::thread floods;
  {
    auto pump = *OutputPump::Create(*log_);
    int loud[4];
    int quiet[4];
    for (int* pipes : {loud, quiet}) {
      ASSERT_EQ(pipe(pipes), 0);
      ASSERT_EQ(pipe(pipes + 2), 0);
    }
    ASSERT_TRUE(pump->Add("loud", UniqueFd(loud[0]), UniqueFd(loud[2])).ok());
    auto output = *pump->Add("quiet", UniqueFd(quiet[0]), UniqueFd(quiet[2]));
    floods = std::thread([out = UniqueFd(loud[1]), err = UniqueFd(loud[3])] {
      const std::string line(kLongLine, 'x');
      while (write(out.get(), line.data(), line.size()) > 0) {
      }
    });
    Say(quiet[3], "heard\n");
    close(quiet[1]);
    close(quiet[3]);
    EXPECT_EQ(output->LastErrorLine(30'000'000'000), "heard");
  }
  floods.join();
}

TEST_F(OutputPumpTest, LosesNothingOfManyWorkersWhenItStops) {
  constexpr int kWorkers = 64;
  {
    auto pump = *OutputPump::Create(*log_);
    std::vector<UniqueFd> writers;
    for (int i = 0; i < kWorkers; ++i) {
      int out[2];
      int err[2];
      ASSERT_EQ(pipe(out), 0);
      ASSERT_EQ(pipe(err), 0);
      ASSERT_TRUE(pump->Add("m_" + std::to_string(i), UniqueFd(out[0]), UniqueFd(err[0])).ok());
      writers.emplace_back(out[1]);
      writers.emplace_back(err[1]);
    }
    for (const UniqueFd& writer : writers) Say(writer.get(), "last words");
  }
  const std::string text = Logged();
  for (int i = 0; i < kWorkers; ++i) {
    EXPECT_NE(text.find("[m_" + std::to_string(i) + "] last words\n"), std::string::npos) << i;
  }
}

}  // namespace
}  // namespace braid
