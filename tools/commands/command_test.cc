#include "commands/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace braid {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Outcome {
  int exit_code;
  std::string out;
  std::string err;
};

Outcome RunBraid(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "braid");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int exit_code = RunProgram(static_cast<int>(arguments.size()), arguments.data());
  return {exit_code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

TEST(Program, AnswersVersionAndHelp) {
  EXPECT_THAT(RunBraid({"--version"}).out, StartsWith("braid "));
  EXPECT_EQ(RunBraid({"--version"}).exit_code, 0);
  const Outcome help = RunBraid({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const Command& command : Commands()) {
    EXPECT_THAT(help.out, HasSubstr("braid " + std::string(command.name)));
    EXPECT_EQ(RunBraid({command.name.data(), "--help"}).exit_code, 0) << command.name;
  }
}

TEST(Program, RefusesWhatIsNoCommand) {
  EXPECT_EQ(RunBraid({}).exit_code, 1);
  EXPECT_THAT(RunBraid({}).err, StartsWith("braid: no command is given\n"));
  EXPECT_EQ(RunBraid({"frob"}).exit_code, 1);
  EXPECT_THAT(RunBraid({"frob"}).err, StartsWith("braid: unknown command 'frob'\n"));
  EXPECT_THAT(RunBraid({"srve"}).err,
              StartsWith("braid: unknown command 'srve'; did you mean: braid serve\n"));
  EXPECT_THAT(RunBraid({"--model-repository=/m"}).err,
              HasSubstr("did you mean: braid serve --model-repository=/m"));
}

TEST(Program, RefusesAFleetThatIsNone) {
  EXPECT_THAT(RunBraid({"serve", "--fleet-endpoints=a,,b", "models"}).err,
              HasSubstr("'' is not an endpoint"));
  EXPECT_THAT(RunBraid({"serve", "--fleet-endpoints=", "models"}).err, HasSubstr("is not an endpoint"));
}

TEST(Program, PrintsTheConfigurationOfAFleetThatGoesNowhereElse) {
  const Outcome envoy =
      RunBraid({"fleet", "envoy", "--endpoints", "127.0.0.1:8001:8000", "--sequence-models", "none"});
  EXPECT_EQ(envoy.exit_code, 0) << envoy.err;
  EXPECT_THAT(envoy.out, StartsWith("{"));
  EXPECT_THAT(envoy.out, HasSubstr("127.0.0.1"));
}

}  // namespace
}  // namespace braid
