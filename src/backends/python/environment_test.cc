#include "backends/python/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "config/testing/scratch_folder.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(EnvironmentPath, IsThatOfTheConfiguration) {
  const auto path = [](const std::string& value) {
    inference::ModelConfig config;
    (*config.mutable_parameters())["EXECUTION_ENV_PATH"].set_string_value(value);
    return EnvironmentPath(config, "/models/m");
  };
  EXPECT_EQ(EnvironmentPath(inference::ModelConfig(), "/models/m"), "");
  EXPECT_EQ(path(""), "");
  EXPECT_EQ(path("/envs/a"), "/envs/a");
  EXPECT_EQ(path("/envs/a/"), "/envs/a");
  EXPECT_EQ(path("env.tar.gz"), "/models/m/env.tar.gz");
  EXPECT_EQ(path("../shared/env"), "/models/shared/env");
  EXPECT_EQ(path("$$TRITON_MODEL_DIRECTORY/env"), "/models/m/env");
  EXPECT_EQ(path("$$TRITON_MODEL_DIRECTORY/../env"), "/models/env");
}

class FindInterpreterTest : public ::testing::Test {
 protected:
  void WriteProgram(const std::string& path) const {
    scratch_.Write(path, "#!/bin/sh\n");
    fs::permissions(scratch_ / path, fs::perms::owner_all);
  }
  testing::ScratchFolder scratch_;
};

TEST_F(FindInterpreterTest, SaysWhatIsMissing) {
  EXPECT_EQ(FindInterpreter(scratch_.path()).status().message(),
            "Path " + (scratch_ / "bin/activate") +
                " does not exist. The Python environment should contain an 'activate' script.");
  scratch_.Write("bin/activate", "");
  EXPECT_EQ(FindInterpreter(scratch_.path()).status().message(),
            "the Python environment '" + scratch_.path() +
                "' has no interpreter: neither bin/python3 nor bin/python is a program");
  fs::create_symlink("/nonexistent/python3.12", scratch_ / "bin/python3");
  EXPECT_THAT(FindInterpreter(scratch_.path()).status().message(),
              HasSubstr("is a link to '/nonexistent/python3.12', which is not a program on this machine"));
}

TEST_F(FindInterpreterTest, TakesPython3BeforePython) {
  scratch_.Write("bin/activate", "");
  WriteProgram("bin/python");
  EXPECT_EQ(*FindInterpreter(scratch_.path()), scratch_ / "bin/python");
  WriteProgram("bin/python3");
  EXPECT_EQ(*FindInterpreter(scratch_.path()), scratch_ / "bin/python3");
}

TEST(EnvironmentVariables, AreThoseOfTheEnvironmentFirst) {
  testing::ScratchFolder env;
  const char* const inherited[] = {"PATH=/bin",    "LD_LIBRARY_PATH=/lib", "VIRTUAL_ENV=/other",
                                   "PYTHONHOME=x", "MY_ENV=a=b",           nullptr};
  auto variables = EnvironmentVariables(inherited, env.path());
  EXPECT_THAT(variables, Contains("PATH=" + env.path() + "/bin:/bin"));
  EXPECT_THAT(variables, Contains("LD_LIBRARY_PATH=" + env.path() + "/lib:/lib"));
  EXPECT_THAT(variables, Contains("VIRTUAL_ENV=" + env.path()));
  EXPECT_THAT(variables, Contains("MY_ENV=a=b"));
  EXPECT_THAT(variables, Not(Contains(StartsWith("PYTHONHOME="))));
  EXPECT_THAT(variables, Not(Contains(StartsWith("CONDA_PREFIX="))));
  fs::create_directory(env / "conda-meta");
  const char* const nothing[] = {nullptr};
  variables = EnvironmentVariables(nothing, env.path());
  EXPECT_THAT(variables, Contains("LD_LIBRARY_PATH=" + env.path() + "/lib"));
  EXPECT_THAT(variables, Contains("CONDA_PREFIX=" + env.path()));
}

}  // namespace
}  // namespace braid
