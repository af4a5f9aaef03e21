// Positions of the fields of a config.pbtxt and of the values of a config.json.
#include <gtest/gtest.h>

#include "check/json_fields.h"
#include "check/text_fields.h"
#include "check/text_file.h"
#include "model_config.pb.h"

namespace braid::check {
namespace {

TextFields Read(std::string_view text) { return {text, *inference::ModelConfig::descriptor()}; }

TEST(TextFields, KnowsWhereEachFieldStands) {
  const TextFields fields = Read(
      "name: \"m\"\n"
      "input [\n"
      "  { name: \"A\" dims: [ 1, -1 ] },\n"
      "  { name: \"B\"\n"
      "    dims: 4 dims: 5 }\n"
      "]\n");
  EXPECT_EQ(fields.PlaceOf("name"), (Position{1, 7}));
  EXPECT_EQ(fields.PlaceOf("input[0].name"), (Position{3, 11}));
  EXPECT_EQ(fields.PlaceOf("input[0].dims[1]"), (Position{3, 26}));
  EXPECT_EQ(fields.PlaceOf("input[1].dims[1]"), (Position{5, 19}));
  EXPECT_EQ(fields.Find("input[0].dims[1]")->value, "-1");
  EXPECT_EQ(fields.Find("name")->value, "m");
}

TEST(TextFields, GivesWhatIsAroundAFieldThatIsNotThere) {
  const TextFields fields = Read("backend: \"python\"\ninstance_group { count: 1 }\ninput { name: \"A\" }\n");
  EXPECT_EQ(fields.PlaceOf("instance_group[0].kind"), (Position{2, 1}));
  EXPECT_EQ(fields.PlaceOf("input[0].dims"), (Position{3, 1}));
  EXPECT_EQ(fields.PlaceOf("input"), (Position{3, 1}));
  EXPECT_EQ(fields.PlaceOf("platform"), (Position{1, 1}));
}

TEST(TextFields, NamesEntriesOfMapsByTheirKeys) {
  const TextFields fields = Read(
      "parameters { key: \"x\" value { string_value: \"1\" } }\n"
      "parameters {\n"
      "  value: { string_value: \"2\" }\n"
      "  key: \"a[0].b\"\n"
      "}\n");
  EXPECT_EQ(fields.PlaceOf("parameters[x].value.string_value"), (Position{1, 45}));
  EXPECT_EQ(fields.Find("parameters[a[0].b].value.string_value")->value, "2");
  EXPECT_EQ(fields.PlaceOf("parameters[a[0].b].value.string_value"), (Position{3, 26}));
}

TEST(TextFields, CountsTabsAsOneColumn) {
  EXPECT_EQ(Read("\tname: \"m\"\n").PlaceOf("name"), (Position{1, 8}));
  EXPECT_EQ(ByteColumn("\t\tname", 0, 16), 3);
}

TEST(TextFields, GoesOnBehindWhatIsWrong) {
  const TextFields fields = Read(
      "max_batchsize: 8\n"
      "input { name: \"A\" data_type: TYPE_FLOAT dim: 1 }\n"
      "}\n"
      "output { name: \"B\" }\n");
  ASSERT_EQ(fields.unknown().size(), 3U);
  EXPECT_EQ(fields.unknown()[0].word, "max_batchsize");
  EXPECT_EQ(fields.unknown()[0].at, (Position{1, 1}));
  EXPECT_EQ(fields.unknown()[1].word, "TYPE_FLOAT");
  EXPECT_EQ(fields.unknown()[1].at, (Position{2, 30}));
  EXPECT_FALSE(fields.unknown()[1].is_field);
  EXPECT_EQ(fields.unknown()[2].word, "dim");
  EXPECT_EQ(fields.unknown()[2].at, (Position{2, 41}));
  EXPECT_EQ(fields.PlaceOf("output[0].name"), (Position{4, 16}));
}

TEST(TextFields, ReadsAnything) {
  for (const char* text :
       {"", "{", "}", "[", "]", ":", "input {", "input [ {", "input { name: ", "[a/b] {", "a: [1,", "\"",
        "a: \"x", "parameters { key }", "name: -", "<><>", "a [ x ]", "a: [ : ]", "a { b < c [ } > }"}) {
    const TextFields fields = Read(text);
    EXPECT_LE(fields.all().size(), 8U) << text;
  }
}

TEST(AroundField, TakesTheLastPartAway) {
  EXPECT_EQ(AroundField("input[2].dims[0]"), "input[2].dims");
  EXPECT_EQ(AroundField("input[2].dims"), "input[2]");
  EXPECT_EQ(AroundField("parameters[a.b[0]].value"), "parameters[a.b[0]]");
  EXPECT_EQ(AroundField("parameters[a.b[0]]"), "parameters");
  EXPECT_EQ(AroundField("name"), "");
}

TEST(JsonFields, KnowsWhereEachValueStands) {
  const JsonFields fields(
      "{\n"
      "  \"model_config_list\": [\n"
      "    {\"config\": {\"name\": \"a\", \"nireq\": -1}},\n"
      "    {\"config\": {\"na/me\": \"\\u00e9\"}}\n"
      "  ]\n"
      "}\n");
  EXPECT_FALSE(fields.fault().has_value());
  EXPECT_EQ(fields.PlaceOf("/model_config_list"), (Position{2, 3}));
  EXPECT_EQ(fields.PlaceOf("/model_config_list/0/config/nireq"), (Position{3, 39}));
  EXPECT_EQ(fields.Find("/model_config_list/0/config/nireq")->name, (Position{3, 30}));
  EXPECT_EQ(fields.Find("/model_config_list/0/config/nireq")->value, "-1");
  EXPECT_EQ(fields.Find("/model_config_list/1/config/na~1me")->value, "\xC3\xA9");
  EXPECT_EQ(fields.PlaceOf("/model_config_list/0/config/base_path"), (Position{3, 6}));
  EXPECT_EQ(fields.PlaceOf("/pipeline_config_list/4"), (Position{1, 1}));
}

TEST(JsonFields, SaysWhereTheTextStopsToBeJson) {
  EXPECT_EQ(JsonFields("{\n  \"a\": 1,\n}").fault(), (Position{3, 1}));
  EXPECT_EQ(JsonFields("{\"a\": tru}").fault(), (Position{1, 7}));
  EXPECT_EQ(JsonFields("{} x").fault(), (Position{1, 4}));
  EXPECT_EQ(JsonFields("").fault(), (Position{1, 1}));
  EXPECT_EQ(JsonFields("{\"a\": \"\\").fault(), (Position{1, 7}));
  EXPECT_TRUE(JsonFields(std::string(1000, '[')).fault().has_value());
}

TEST(TextFile, ReportsTypingErrorsWithWhatWasMeant) {
  Findings findings;
  const TextFile file("m/config.pbtxt",
                      "backend: \"python\"\n"
                      "max_batchsize: 8\n"
                      "instance_group { kind: KIND_CPUS }\n",
                      inference::ModelConfig::default_instance());
  EXPECT_TRUE(file.ReportFaults("m", findings));
  ASSERT_EQ(findings.all().size(), 2U);
  EXPECT_EQ(findings.all()[0].rule, "unknown-field");
  EXPECT_EQ(findings.all()[0].message, "unknown field 'max_batchsize' in ModelConfig");
  EXPECT_EQ(findings.all()[0].advice, "did you mean 'max_batch_size'?");
  EXPECT_EQ(findings.all()[0].at, (Position{2, 1}));
  EXPECT_EQ(findings.all()[1].rule, "unknown-value");
  EXPECT_EQ(findings.all()[1].advice, "did you mean 'KIND_CPU'?");
  EXPECT_EQ(findings.all()[1].at, (Position{3, 24}));
}

TEST(TextFile, ReportsFaultsOfTheSyntax) {
  Findings findings;
  const TextFile file("m/config.pbtxt", "name: \"m\"\nmax_batch_size: \"eight\"\n",
                      inference::ModelConfig::default_instance());
  EXPECT_TRUE(file.ReportFaults("m", findings));
  ASSERT_EQ(findings.all().size(), 1U);
  EXPECT_EQ(findings.all()[0].rule, "syntax");
  EXPECT_EQ(findings.all()[0].at, (Position{2, 17}));
}

TEST(TextFile, HasNothingToSayOfATextThatParses) {
  Findings findings;
  const TextFile file("m/config.pbtxt", "name: \"m\"", inference::ModelConfig::default_instance());
  EXPECT_FALSE(file.ReportFaults("m", findings));
  EXPECT_TRUE(findings.all().empty());
}

}  // namespace
}  // namespace braid::check
