// Findings about files of OpenVINO Model Server.
#include "check/checker.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace braid::check {
namespace {

class CheckerTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<Finding> FindingsOf(const std::string& config) {
    CheckRequest request;
    request.server.config.config_path = config;
    const auto result = Check(request);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->findings.all() : std::vector<Finding>();
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("checker_test." + std::to_string(getpid()));
};

TEST_F(CheckerTest, AFileThatCannotBeReadIsOneFinding) {
  const std::string path = folder_ / "nothing.json";
  const std::vector<Finding> findings = FindingsOf(path);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].level, Level::kError);
  EXPECT_EQ(findings[0].rule, "load");
  EXPECT_EQ(findings[0].path, path);
  EXPECT_EQ(findings[0].at, Position());
}

TEST_F(CheckerTest, ANodeMayMeanAPipeline) {
  const std::string path = folder_ / "config.json";
  std::ofstream(path) << R"({"model_config_list": [], "pipeline_config_list": [
      {"name": "outer", "inputs": ["x"],
       "nodes": [{"name": "n", "model_name": "iner", "type": "DL model",
                  "inputs": [{"a": {"node_name": "request", "data_item": "x"}}],
                  "outputs": [{"data_item": "b", "alias": "b"}]}],
       "outputs": [{"y": {"node_name": "n", "data_item": "b"}}]},
      {"name": "inner", "inputs": ["x"],
       "nodes": [{"name": "n", "model_name": "zzz", "type": "DL model",
                  "inputs": [{"a": {"node_name": "request", "data_item": "x"}}],
                  "outputs": [{"data_item": "b", "alias": "b"}]}],
       "outputs": [{"y": {"node_name": "n", "data_item": "b"}}]}]})";
  std::string advice;
  for (const Finding& finding : FindingsOf(path)) {
    if (finding.servable == "outer") advice += finding.advice;
  }
  EXPECT_EQ(advice, "did you mean 'inner'?");
}

}  // namespace
}  // namespace braid::check
