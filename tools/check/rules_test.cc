// Rules about single fields, and the output formats of findings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "check/config_rules.h"
#include "check/output.h"
#include "check/report.h"
#include "model_config.pb.h"

namespace braid::check {
namespace {

using ::testing::HasSubstr;

Findings RulesOf(std::string text, RuleContext context = {}) {
  Findings findings;
  const TextFile file("m/config.pbtxt", std::move(text), inference::ModelConfig::default_instance());
  ApplyModelRules(file, "m", context, findings);
  return findings;
}

TEST(ModelRules, TellOnceOfAMessageWithoutEffect) {
  const Findings findings = RulesOf(
      "backend: \"python\"\n"
      "optimization {\n"
      "  input_pinned_memory { enable: true }\n"
      "  cuda { graphs: true busy_wait_events: true }\n"
      "}\n");
  ASSERT_EQ(findings.all().size(), 2U);
  EXPECT_EQ(findings.all()[0].level, Level::kNote);
  EXPECT_EQ(findings.all()[0].at, (Position{3, 3}));
  EXPECT_EQ(findings.all()[1].at, (Position{4, 3}));
  EXPECT_EQ(findings.all()[1].servable, "m");
}

TEST(Findings, AMessageLeavesTheSemicolonToTheAdvice) {
  Findings findings;
  findings.Add(
      {Level::kError, "load", "m", {}, "version 1 is at UNAVAILABLE state: no luck;\n", "do", "", "n"});
  EXPECT_EQ(findings.all().at(0).message, "version 1 is at UNAVAILABLE state: no luck");
}

TEST(ModelRules, DependOnWhatTheServerRunsWith) {
  const std::string text =
      "response_cache { enable: true }\ninstance_group { rate_limiter { resources { name: \"r\" count: 1 } } "
      "}\n";
  EXPECT_EQ(RulesOf(text).all().size(), 2U);
  EXPECT_TRUE(RulesOf(text, {.rate_limited = true, .has_cache = true}).all().empty());
  EXPECT_TRUE(RulesOf("response_cache { enable: false }").all().empty());
}

TEST(ModelRules, SeeTypingErrorsInParameters) {
  const Findings findings =
      RulesOf("parameters { key: \"EXECUTION_ENV_PAHT\" value { string_value: \"x\" } }");
  ASSERT_EQ(findings.all().size(), 1U);
  EXPECT_EQ(findings.all()[0].rule, "parameter-name");
  EXPECT_EQ(findings.all()[0].advice, "did you mean 'EXECUTION_ENV_PATH'?");
  EXPECT_EQ(findings.all()[0].at, (Position{1, 19}));
  EXPECT_TRUE(RulesOf("parameters { key: \"threshold\" value { string_value: \"x\" } }").all().empty());
}

TEST(ModelRules, TellOfOtherRuntimes) {
  const Findings findings = RulesOf("platform: \"onnxruntime_onnx\"");
  ASSERT_EQ(findings.all().size(), 1U);
  EXPECT_EQ(findings.all()[0].level, Level::kDifference);
}

TEST(OvmsRules, NameTheServable) {
  Findings findings;
  ApplyOvmsRules("c.json",
                 JsonFields("{\"model_config_list\": [{\"config\": {\"name\": \"a\", \"mean\": 1}}],\n"
                            " \"pipeline_config_list\": [{\"name\": \"p\", \"convert_precision\": true}]}"),
                 findings);
  ASSERT_EQ(findings.all().size(), 2U);
  EXPECT_EQ(findings.all()[0].servable, "a");
  EXPECT_EQ(findings.all()[0].at, (Position{1, 49}));
  EXPECT_EQ(findings.all()[1].servable, "p");
  EXPECT_EQ(findings.all()[1].at, (Position{2, 41}));
}

TEST(AdviceFor, FindsTheFieldOrWhatIsAroundIt) {
  EXPECT_EQ(AdviceFor("instance_group[3].kind").level, Level::kError);
  EXPECT_THAT(std::string(AdviceFor("input[0].dims[1]").advice), HasSubstr("-1"));
  EXPECT_EQ(AdviceFor("/custom_loader_config_list/0").level, Level::kRefused);
  EXPECT_TRUE(AdviceFor("nameless").advice.empty());
}

TEST(WithoutIndexes, KeepsKeysOfMaps) {
  EXPECT_EQ(WithoutIndexes("instance_group[0].kind"), "instance_group.kind");
  EXPECT_EQ(WithoutIndexes("parameters[A].value"), "parameters[A].value");
  EXPECT_EQ(WithoutIndexes("/a/0/b/12"), "/a/*/b/*");
}

CheckResult SomeResult() {
  CheckResult result;
  result.findings.Add(
      {Level::kError, "load", "m/config.pbtxt", {3, 7}, "no\ngood, 100%", "write: x", "", "m"});
  result.findings.Add({Level::kNote, "no-effect", "m", {}, "nothing", "", "docs/x.md", "n"});
  result.summary = {{"m", "Python model", "m/config.pbtxt", false, false},
                    {"n", "ensemble", "n", true, false}};
  return result;
}

TEST(Output, IsALineForEachFinding) {
  EXPECT_EQ(AsText(SomeResult(), false),
            "m/config.pbtxt:3:7: error: no; good, 100%; write: x\n"
            "m: note: nothing [docs/x.md]\n"
            "checked 1 model, 1 ensemble: 1 error, 1 note\n");
}

TEST(Output, EscapesWorkflowCommands) {
  EXPECT_EQ(
      AsGithub(SomeResult()),
      "::error file=m/config.pbtxt,line=3,col=7,title=braid check%3A error::no; good, 100%25; write: x\n"
      "::notice file=m,title=braid check%3A note::nothing\n");
}

TEST(Output, IsJsonOfOneVersion) {
  const auto json = nlohmann::json::parse(AsJson(SomeResult()));
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["findings"][0]["line"], 3);
  EXPECT_EQ(json["findings"][0]["level"], "error");
  EXPECT_EQ(json["findings"][1]["docs"], "docs/x.md");
  EXPECT_EQ(json["servables"][1]["loads"], true);
  EXPECT_EQ(json["counts"]["note"], 1);
}

TEST(Report, SortsWhatThereIs) {
  const std::string text = MovingReport(SomeResult(), true);
  EXPECT_THAT(text, HasSubstr("Of 2: 1 load unchanged, 1 need a change, 0 use unsupported features."));
  EXPECT_THAT(text, HasSubstr("## Works unchanged\n\n- `n`, ensemble\n"));
  EXPECT_THAT(text,
              HasSubstr("## Needs a change\n\n- `m`, Python model\n  - `m/config.pbtxt:3:7`: no; good"));
  EXPECT_THAT(text, HasSubstr("## What has no effect\n\n- `m`: nothing (docs/x.md)\n"));
}

}  // namespace
}  // namespace braid::check
