#include "base/program_files.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace braid {
namespace {

TEST(ProgramFiles, AreBesideTheProgram) {
  const std::filesystem::path program = FindProgram().value();
  EXPECT_EQ(program.filename(), "base_test");
  EXPECT_EQ(FindProgramFile("base_test", "none").value(), program);
  EXPECT_EQ(FindProgramFile("../base/base_test", "none").value(), program);
  const auto missing = FindProgramFile("none", "none");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.status().message(), "there is no 'none' next to '" + program.string() + "'");
}

}  // namespace
}  // namespace braid
