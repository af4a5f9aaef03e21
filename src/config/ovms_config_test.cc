#include "config/ovms_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serving/faults.h"

namespace braid {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

OvmsConfig Parse(std::string_view text) {
  auto config = ParseOvmsConfig(text, "/etc/braid");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : OvmsConfig();
}

std::string Fault(std::string_view text) {
  const auto config = ParseOvmsConfig(text, "/etc/braid");
  EXPECT_FALSE(config.ok());
  return config.status().message();
}

// One model "m" with more keys.
std::string Entry(const std::string& more) {
  return R"j({"model_config_list": [{"config": {"name": "m", )j" + more + "}}]}";
}
OvmsModelConfig Model(const std::string& more) {
  const OvmsConfig config = Parse(Entry(more));
  EXPECT_EQ(config.models.size(), 1u);
  return config.models.empty() ? OvmsModelConfig() : config.models[0];
}
// One pipeline "p" with other nodes.
std::string PipelineWith(const std::string& nodes, const std::string& more = "") {
  return R"j({"model_config_list": [], "pipeline_config_list": [{"name": "p", "inputs": ["in"], "nodes": )j" +
         nodes + R"j(, "outputs": [{"out": {"node_name": "n", "data_item": "o"}}])j" + more + "}]}";
}

TEST(ParseOvmsConfig, ReadsEveryKeyOfAModel) {
  const OvmsConfig config = Parse(R"j({"model_config_list": [{"config": {
    "name": "resnet", "base_path": "models/resnet/", "shape": {"in": "(1,3,-1,200:400)", "mask": "auto"},
    "layout": {"in": "nhwc:NCHW", "out": "N..."}, "nireq": 4, "target_device": "AUTO:CPU", "allow_cache": false,
    "plugin_config": {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 2, "X": true, "Y": 0.5,
                      "DEVICE_PROPERTIES": {"CPU": {"NUM_STREAMS": 1, "A": "x"}}},
    "model_version_policy": {"specific": {"versions": [1, 3]}},
    "precision": {"in": "fp16"}, "mean": [1, 2.5, 3], "scale": "[2,4]", "color_format": "rgb:BGR", "isolate": false,
    "graph_path": "g.pbtxt", "subconfig": "s.json"}}]})j");
  ASSERT_THAT(config.models, SizeIs(1));
  EXPECT_THAT(config.warnings, IsEmpty());
  const OvmsModelConfig& model = config.models[0];
  EXPECT_TRUE(model.fault.ok()) << model.fault;
  EXPECT_EQ(model.name, "resnet");
  EXPECT_EQ(model.base_path, "/etc/braid/models/resnet");
  EXPECT_EQ(model.shapes.at("in").dimensions,
            (std::vector<DimensionRange>{{1, 1}, {3, 3}, {0, -1}, {200, 400}}));
  EXPECT_TRUE(model.shapes.at("mask").automatic);
  EXPECT_EQ(model.layouts.at("in"), (OvmsLayout{"NHWC", "NCHW"}));
  EXPECT_EQ(model.layouts.at("out"), (OvmsLayout{"N...", ""}));
  EXPECT_EQ(model.nireq, 4u);
  EXPECT_EQ(model.target_device, "AUTO:CPU");
  EXPECT_FALSE(model.allow_cache);
  EXPECT_EQ(std::get<std::string>(model.plugin_config.at("PERFORMANCE_HINT")), "LATENCY");
  EXPECT_EQ(std::get<int64_t>(model.plugin_config.at("NUM_STREAMS")), 2);
  EXPECT_TRUE(std::get<bool>(model.plugin_config.at("X")));
  EXPECT_EQ(std::get<double>(model.plugin_config.at("Y")), 0.5);
  EXPECT_EQ(std::get<std::string>(model.plugin_config.at("DEVICE_PROPERTIES")), "{CPU:{NUM_STREAMS:1,A:x}}");
  EXPECT_EQ(model.version_policy.kind, OvmsVersionPolicy::Kind::kSpecific);
  EXPECT_THAT(model.version_policy.specific, ElementsAre(1, 3));
  EXPECT_EQ(model.precisions.at("in"), "FP16");
  EXPECT_THAT(model.mean, ElementsAre(1, 2.5, 3));
  EXPECT_THAT(model.scale, ElementsAre(2, 4));
  EXPECT_EQ(model.color_format, "RGB:BGR");
  EXPECT_EQ(model.isolate, false);
  EXPECT_EQ(model.graph_path, "g.pbtxt");
  EXPECT_EQ(model.subconfig, "s.json");
}

TEST(ParseOvmsConfig, AModelNeedsItsNameAlone) {
  const OvmsModelConfig model = Parse(R"j({"model_config_list": [{"config": {"name": "m"}}]})j").models.at(0);
  OvmsModelConfig expected;
  expected.name = "m";
  expected.base_path = "/etc/braid/m";
  EXPECT_EQ(model, expected);
  EXPECT_EQ(model.version_policy.kind, OvmsVersionPolicy::Kind::kLatest);
  EXPECT_EQ(model.version_policy.latest, 1);
  EXPECT_EQ(model.max_sequence_number, 500u);
  EXPECT_EQ(model.target_device, "CPU");
}

TEST(ParseOvmsConfig, ReadsShapesAndBatchSizesAsTexts) {
  EXPECT_EQ(Model(R"j("shape": "(1, 3, 224, 224)")j").shapes.at("").dimensions,
            (std::vector<DimensionRange>{{1, 1}, {3, 3}, {224, 224}, {224, 224}}));
  EXPECT_TRUE(Model(R"j("shape": "auto")j").shapes.at("").automatic);
  EXPECT_EQ(Model(R"j("shape": "-1")j").shapes.at("").dimensions, (std::vector<DimensionRange>{{0, -1}}));
  EXPECT_EQ(Model(R"j("shape": "1:8")j").shapes.at("").dimensions, (std::vector<DimensionRange>{{1, 8}}));
  EXPECT_THAT(Model(R"j("shape": "()")j").shapes.at("").dimensions, IsEmpty());
  const auto inside = Model(R"j("shape": "{\"a\": \"(1,10)\", \"b\": \"auto\"}")j");
  EXPECT_EQ(inside.shapes.at("a").dimensions, (std::vector<DimensionRange>{{1, 1}, {10, 10}}));
  EXPECT_TRUE(inside.shapes.at("b").automatic);

  EXPECT_EQ(Model(R"j("batch_size": 4)j").batch_size, (OvmsBatchSize{false, {4, 4}}));
  EXPECT_EQ(Model(R"j("batch_size": "4")j").batch_size, (OvmsBatchSize{false, {4, 4}}));
  EXPECT_EQ(Model(R"j("batch_size": 0)j").batch_size, std::nullopt);
  EXPECT_EQ(Model(R"j("batch_size": "0")j").batch_size, std::nullopt);
  EXPECT_EQ(Model(R"j("batch_size": "-1")j").batch_size, (OvmsBatchSize{false, {0, -1}}));
  EXPECT_EQ(Model(R"j("batch_size": "2:8")j").batch_size, (OvmsBatchSize{false, {2, 8}}));
  EXPECT_TRUE(Model(R"j("batch_size": "auto")j").batch_size->automatic);
  EXPECT_THAT(Parse(Entry(R"j("batch_size": 4, "shape": "auto")j")).warnings,
              ElementsAre("model 'm': batch_size has no effect because the entry has a shape"));
}

TEST(ParseOvmsConfig, ReadsVersionPolicies) {
  EXPECT_EQ(Model(R"j("model_version_policy": {"all": {}})j").version_policy.kind,
            OvmsVersionPolicy::Kind::kAll);
  const auto latest = Model(R"j("model_version_policy": {"latest": {"num_versions": 3}})j").version_policy;
  EXPECT_EQ(latest.kind, OvmsVersionPolicy::Kind::kLatest);
  EXPECT_EQ(latest.latest, 3);
}

TEST(ParseOvmsConfig, ReadsStatefulModels) {
  const auto model = Model(
      R"j("stateful": true, "idle_sequence_cleanup": false, "low_latency_transformation": true, "max_sequence_number": 7)j");
  EXPECT_TRUE(model.fault.ok()) << model.fault;
  EXPECT_TRUE(model.stateful);
  EXPECT_FALSE(model.idle_sequence_cleanup);
  EXPECT_TRUE(model.low_latency_transformation);
  EXPECT_EQ(model.max_sequence_number, 7u);
}

// An invalid value is a fault of its entry, and other models are served.
TEST(ParseOvmsConfig, AValueThatIsNoneIsAFaultOfItsModel) {
  const std::pair<const char*, const char*> cases[] = {
      {R"j("shape": "(1,x)")j", "/model_config_list/0/config/shape: invalid shape '(1,x)'"},
      {R"j("shape": "(1,0)")j", "/shape: invalid shape '(1,0)'"},
      {R"j("shape": "(1,8:1)")j", "/shape: invalid shape '(1,8:1)'"},
      {R"j("shape": "(1")j", "/shape: invalid shape '(1'"},
      {R"j("shape": "")j", "/shape: invalid shape ''"},
      {R"j("shape": "(1,2,)")j", "/shape: invalid shape '(1,2,)'"},
      {R"j("shape": {"a/b": "x"})j", "/shape/a~1b: invalid shape 'x'"},
      {R"j("shape": "{\"a\": 1}")j", "/shape: expected a string, got a number"},
      {R"j("shape": "{\"a\" 1}")j", "/shape: parse error at line 1, column 6"},
      {R"j("batch_size": "x")j", "/batch_size: invalid batch size 'x'"},
      {R"j("batch_size": "-2")j", "/batch_size: invalid batch size '-2'"},
      {R"j("layout": "NHWCN")j", "/layout: invalid layout 'NHWCN'"},
      {R"j("layout": "NHWC:")j", "/layout: invalid layout 'NHWC:'"},
      {R"j("layout": "N......")j", "/layout: invalid layout 'N......'"},
      {R"j("precision": "FP33")j", "/precision: invalid precision 'FP33'"},
      {R"j("color_format": "PINK")j", "/color_format: invalid color format 'PINK'"},
      {R"j("color_format": "NV12_2:RGB")j",
       "/color_format: color format 'NV12_2:RGB' is not supported: it needs"},
      {R"j("mean": "1,x")j", "/mean: invalid list of numbers '1,x'"},
      {R"j("scale": 0)j", "/scale: a scale of 0"},
      {R"j("base_path": "hdfs://bucket/m")j",
       "/base_path: 'hdfs://bucket/m': expected a folder, or a URL with"},
      {R"j("max_sequence_number": 5)j",
       "/max_sequence_number: Stateful model config parameter used for non stateful"},
      {R"j("idle_sequence_cleanup": true)j", "Stateful model config parameter used for non stateful model"},
      {R"j("low_latency_transformation": false)j",
       "Stateful model config parameter used for non stateful model"},
      {R"j("stateful": true, "max_sequence_number": 4294967296)j", "Sequence max number parameter too high"},
      {R"j("stateful": true, "shape": "auto")j", "a stateful model cannot have an automatic shape"},
      {R"j("stateful": true, "batch_size": "auto")j", "a stateful model cannot have an automatic batch size"},
      {R"j("stateful": true, "target_device": "GPU")j", "stateful models run only on the CPU"},
  };
  for (const auto& [text, expected] : cases) {
    const OvmsModelConfig model = Model(text);
    EXPECT_EQ(model.fault.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(model.fault.message(), HasSubstr(expected)) << text;
  }
}

TEST(ParseOvmsConfig, WhatJsonHasNotIsSaid) {
  for (const char* text : {"{ # models\n}", "{ // models\n}", R"({"model_config_list": [] /* none */ })"})
    EXPECT_THAT(Fault(text), HasSubstr("; JSON does not allow comments"));
  for (const char* text : {R"({"model_config_list": [],})", R"({"model_config_list": [{},]})"})
    EXPECT_THAT(Fault(text), HasSubstr("; JSON does not allow trailing commas"));
  EXPECT_THAT(Fault("{"), Not(HasSubstr("JSON does not allow")));
}

TEST(ParseOvmsConfig, EveryFaultOfTheFileIsNamedWithItsPath) {
  const auto config = ParseOvmsConfig(R"j({
    "model_config_list": [{"config": {"name": "", "nireq": -1, "foo": 1, "allow_cache": "yes"}}, {"konfig": {}}],
    "pipeline_config_list": 5, "bar": {}, "monitoring": {}})j",
                                      "/etc");
  EXPECT_EQ(config.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(config.status().fault(), Fault::kJsonInvalid);
  EXPECT_EQ(config.status().message(),
            "The file is not valid json - "
            "/model_config_list/0/config/name: must not be empty; "
            "/model_config_list/0/config/nireq: expected an integer from 0 to 100000, got -1; "
            "/model_config_list/0/config/allow_cache: expected true or false, got a string; "
            "/model_config_list/0/config/foo: unknown key; "
            "/model_config_list/1/config: is missing; "
            "/model_config_list/1/konfig: unknown key; "
            "/pipeline_config_list: expected a list, got a number; "
            "/monitoring/metrics: is missing; "
            "/bar: unknown key");
}

TEST(ParseOvmsConfig, FaultsOfKeysAndTypes) {
  const std::pair<std::string, const char*> cases[] = {
      {"{}", "/model_config_list: is missing"},
      {"[]", "expected an object, got a list"},
      {R"j({"model_config_list": {}})j", "/model_config_list: expected a list, got an object"},
      {R"j({"model_config_list": [5]})j", "/model_config_list/0: expected an object, got a number"},
      {R"j({"model_config_list": [{"config": null}]})j",
       "/model_config_list/0/config: expected an object, got null"},
      {R"j({"model_config_list": [{"config": {}}]})j", "/model_config_list/0/config/name: is missing"},
      {R"j({"model_config_list": [{"config": {"name": " "}}]})j",
       "/model_config_list/0/config/name: Model name cannot be empty."},
      {R"j({"model_config_list": [{"config": {"name": "a\u0000b"}}]})j",
       "/model_config_list/0/config/name: invalid model name 'a\\x00b', model name must be UTF-8 text "
       "without control "},
      {R"j({"model_config_list": [], "mediapipe_config_list": [{"name": "g\n"}]})j",
       "/mediapipe_config_list/0/name: invalid model name 'g\\n'"},
      {R"j({"model_config_list": [], "pipeline_config_list": [{"name": "p\u001b", "inputs": [], "nodes": [],
                                                            "outputs": []}]})j",
       "/pipeline_config_list/0/name: invalid model name 'p\\x1b'"},
      {Entry(R"j("base_path": 5)j"), "/base_path: expected a string, got a number"},
      {Entry(R"j("shape": 5)j"), "/shape: expected a string, or an object"},
      {Entry(R"j("shape": {"a": 5})j"), "/shape/a: expected a string, got a number"},
      {Entry(R"j("shape": {"": "auto"})j"), "/shape: the name of a tensor is empty"},
      {Entry(R"j("layout": [])j"), "/layout: expected a string, or an object"},
      {Entry(R"j("batch_size": -1)j"), "/batch_size: expected an integer >= 0, got -1"},
      {Entry(R"j("batch_size": 1.5)j"), "/batch_size: expected an integer"},
      {Entry(R"j("batch_size": [])j"), "/batch_size: expected a string, got a list"},
      {Entry(R"j("nireq": "4")j"), "/nireq: expected an integer, got a string"},
      {Entry(R"j("nireq": 18446744073709551615)j"), "/nireq: expected an integer from 0 to 100000"},
      {Entry(R"j("target_device": "")j"), "/target_device: must not be empty"},
      {Entry(R"j("plugin_config": "x")j"), "/plugin_config: expected an object"},
      {Entry(R"j("plugin_config": {"DEVICE_PROPERTIES": {"CPU": 1}})j"),
       "/plugin_config/DEVICE_PROPERTIES/CPU: expected an object"},
      {Entry(R"j("plugin_config": {"DEVICE_PROPERTIES": {"CPU": {"A": []}}})j"),
       "/plugin_config/DEVICE_PROPERTIES/CPU/A: expected a string, a number, true or false"},
      {Entry(R"j("plugin_config": {"A": []})j"),
       "/plugin_config/A: expected a string, a number, true or false"},
      {Entry(R"j("model_version_policy": {})j"), "/model_version_policy: expected exactly one of"},
      {Entry(R"j("model_version_policy": {"all": {}, "latest": {"num_versions": 1}})j"),
       "expected exactly one of"},
      {Entry(R"j("model_version_policy": {"all": {"x": 1}})j"), "/model_version_policy/all/x: unknown key"},
      {Entry(R"j("model_version_policy": {"latest": {}})j"), "/latest/num_versions: is missing"},
      {Entry(R"j("model_version_policy": {"latest": {"num_versions": 0}})j"),
       "expected an integer >= 1, got 0"},
      {Entry(R"j("model_version_policy": {"specific": {"versions": []}})j"),
       "/versions: expected at least one version"},
      {Entry(R"j("model_version_policy": {"specific": {"versions": [0]}})j"),
       "/versions/0: expected an integer >= 1"},
      {Entry(R"j("model_version_policy": {"newest": {}})j"), "/model_version_policy/newest: unknown key"},
      {Entry(R"j("stateful": 1)j"), "/stateful: expected true or false, got a number"},
      {Entry(R"j("max_sequence_number": -1)j"), "/max_sequence_number: expected an integer >= 0, got -1"},
      {Entry(R"j("mean": [])j"), "/mean: expected a number, a list of numbers"},
      {Entry(R"j("mean": true)j"), "/mean: expected a number, a list of numbers"},
      {R"j({"model_config_list": [], "custom_node_library_config_list": [{"name": "l"}]})j",
       "/custom_node_library_config_list/0/base_path: is missing"},
      {R"j({"model_config_list": [], "mediapipe_config_list": [{"graph_queue_size": 1}]})j",
       "/mediapipe_config_list/0/name: is missing; /mediapipe_config_list/0/graph_queue_size: unknown key"},
      {R"j({"model_config_list": [], "monitoring": {"metrics": {"metrics_list": [1]}}})j",
       "/monitoring/metrics/enable: is missing; /monitoring/metrics/metrics_list/0: expected a string, got a "
       "number"},
      {PipelineWith("{}"), "/pipeline_config_list/0/nodes: expected a list, got an object"},
      {PipelineWith("[{}]"),
       "/nodes/0/name: is missing; /pipeline_config_list/0/nodes/0/type: is missing; "
       "/pipeline_config_list/0/nodes/0/inputs: is missing; "
       "/pipeline_config_list/0/nodes/0/outputs: is missing"},
      {PipelineWith(
           R"j([{"name": "n", "type": "DL model", "library_name": "l", "inputs": [], "outputs": []}])j"),
       "/nodes/0/model_name: is missing; /pipeline_config_list/0/nodes/0/library_name: requires type "
       "\"custom\""},
      {PipelineWith(R"j([{"name": "n", "type": "custom", "model_name": "m", "inputs": [], "outputs": []}])j"),
       "/nodes/0/library_name: is missing; /pipeline_config_list/0/nodes/0/model_name: requires type "
       "\"DL"},
      {PipelineWith(R"j([{"name": "n", "type": "x", "inputs": [], "outputs": []}])j"),
       "/nodes/0/type: expected \"DL model\" or \"custom\""},
      {PipelineWith(
           R"j([{"name": "n", "type": "custom", "library_name": "l", "params": {"a": 1}, "version": 0,
                        "demultiply_count": 10001, "inputs": [{}], "outputs": [{"alias": "x"}]}])j"),
       "/nodes/0/version: expected an integer >= 1, got 0; "
       "/pipeline_config_list/0/nodes/0/params/a: expected a string, got a number; "
       "/pipeline_config_list/0/nodes/0/inputs/0: expected an object with one key"},
      {PipelineWith(R"j([{"name": "n", "type": "custom", "library_name": "l",
                        "inputs": [{"i": {"node_name": "request", "x": 1}}], "outputs": [], "demultiply_count": -2}])j"),
       "/inputs/0/i/data_item: is missing; /pipeline_config_list/0/nodes/0/inputs/0/i/x: unknown key; "
       "/pipeline_config_list/0/nodes/0/demultiply_count: expected an integer from -1 to 10000, got -2"},
      {PipelineWith("[]", R"j(, "demultiply_count": "3", "allow_auto_shape": 1)j"),
       "/demultiply_count: expected an integer, got a string; "
       "/pipeline_config_list/0/allow_auto_shape: expected true or false"},
      {R"j({"model_config_list": [], "model_config_list": []})j", "/model_config_list: duplicate key"},
      {Entry(R"j("shape": {"a": "auto", "a": "auto"})j"),
       "/model_config_list/0/config/shape/a: duplicate key"},
  };
  for (const auto& [text, expected] : cases) EXPECT_THAT(Fault(text), HasSubstr(expected)) << text;
}

TEST(ParseOvmsConfig, ASyntaxErrorHasItsLineAndColumn) {
  const auto config = ParseOvmsConfig("{\n  \"model_config_list\": [,]\n}", "/etc");
  EXPECT_EQ(config.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(config.status().fault(), Fault::kJsonInvalid);
  EXPECT_THAT(config.status().message(),
              AllOf(HasSubstr("The file is not valid json - "), HasSubstr("line 2, column 25")));
  EXPECT_THAT(Fault(""), HasSubstr("line 1, column 1"));
  EXPECT_THAT(Fault("{\"model_config_list\": []} x"), HasSubstr("line 1, column 27"));
  EXPECT_THAT(Fault("{\"model_config_list\": [\"\xff\"]}"), HasSubstr("line 1"));
  EXPECT_THAT(Fault("{\"model_config_list\": [1e999]}"), HasSubstr("number overflow"));
  EXPECT_LT(Fault("\"" + std::string(100000, 'x')).size(), 500u);
}

TEST(ParseOvmsConfig, NestingIsBounded) {
  EXPECT_THAT(Fault(R"j({"model_config_list": )j" + std::string(1000000, '[')), HasSubstr("nested deeper"));
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += R"j({"a":)j";
  EXPECT_THAT(Fault(objects), HasSubstr("nested deeper"));
}

TEST(ParseOvmsConfig, TooManyFaultsAreCounted) {
  std::string list;
  for (int i = 0; i < 150; ++i)
    list += (i == 0 ? "" : ",") + std::string("{\"config\":{\"name\":\"m\"},\"x\":1}");
  EXPECT_THAT(Fault(R"j({"model_config_list": [)j" + list + "]}"),
              AllOf(HasSubstr("/model_config_list/99/x"), HasSubstr("; and 50 more")));
}

TEST(ParseOvmsConfig, TheSecondOfANameIsLeftOutWithAWarning) {
  const OvmsConfig config = Parse(R"j({
    "model_config_list": [{"config": {"name": "m", "nireq": 1}}, {"config": {"name": "m", "nireq": 2}}],
    "pipeline_config_list": [{"name": "p", "inputs": ["a"], "nodes": [], "outputs": []},
                             {"name": "p", "inputs": ["b"], "nodes": [], "outputs": []}],
    "custom_node_library_config_list": [{"name": "l", "base_path": "a"}, {"name": "l", "base_path": "b"}],
    "mediapipe_config_list": [{"name": "g"}, {"name": "g", "base_path": "x"}]})j");
  ASSERT_THAT(config.models, SizeIs(1));
  EXPECT_EQ(config.models[0].nireq, 1u);
  ASSERT_THAT(config.pipelines, SizeIs(1));
  EXPECT_THAT(config.pipelines[0].inputs, ElementsAre("a"));
  ASSERT_THAT(config.custom_node_libraries, SizeIs(1));
  EXPECT_EQ(config.custom_node_libraries[0].base_path, "/etc/braid/a");
  ASSERT_THAT(config.graphs, SizeIs(1));
  EXPECT_EQ(config.graphs[0].base_path, "/etc/braid/g/");
  EXPECT_THAT(config.warnings,
              ElementsAre("/model_config_list/1: duplicate name 'm'; the first entry is used",
                          "/custom_node_library_config_list/1: duplicate name 'l'; the first entry is used",
                          "/pipeline_config_list/1: duplicate name 'p'; the first entry is used",
                          "/mediapipe_config_list/1: duplicate name 'g'; the first entry is used"));
}

TEST(ParseOvmsConfig, ReadsPipelines) {
  const OvmsConfig config = Parse(R"j({"model_config_list": [], "pipeline_config_list": [{
    "name": "p", "inputs": ["image", "other"], "demultiply_count": 0, "allow_auto_shape": true,
    "convert_precision": true,
    "nodes": [
      {"name": "detect", "type": "DL model", "model_name": "det", "version": 2, "demultiply_count": 4,
       "inputs": [{"in": {"node_name": "request", "data_item": "image"}}],
       "outputs": [{"data_item": "boxes", "alias": "b"}, {"data_item": "boxes", "alias": "c"}]},
      {"name": "crop", "type": "custom", "library_name": "lib", "gather_from_node": "detect",
       "params": {"z": "1", "a": "2"},
       "inputs": [{"x": {"node_name": "detect", "data_item": "b"}}, {"y": {"node_name": "detect", "data_item": "c"}}],
       "outputs": [{"data_item": "crops", "alias": "crops"}]}],
    "outputs": [{"out": {"node_name": "crop", "data_item": "crops"}}]}]})j");
  ASSERT_THAT(config.pipelines, SizeIs(1));
  const OvmsPipelineConfig& pipeline = config.pipelines[0];
  EXPECT_THAT(pipeline.inputs, ElementsAre("image", "other"));
  EXPECT_EQ(pipeline.demultiply_count, -1);
  EXPECT_TRUE(pipeline.allow_auto_shape);
  EXPECT_TRUE(pipeline.convert_precision);
  EXPECT_THAT(pipeline.outputs, ElementsAre(OvmsConnection{"out", {"crop", "crops"}}));
  ASSERT_THAT(pipeline.nodes, SizeIs(2));
  const OvmsNodeConfig& detect = pipeline.nodes[0];
  EXPECT_EQ(detect.type, OvmsNodeConfig::Type::kModel);
  EXPECT_EQ(detect.model_name, "det");
  EXPECT_EQ(detect.version, 2);
  EXPECT_EQ(detect.demultiply_count, 4);
  EXPECT_EQ(detect.gather_from_node, std::nullopt);
  EXPECT_THAT(detect.outputs, ElementsAre(OvmsNodeOutput{"boxes", "b"}, OvmsNodeOutput{"boxes", "c"}));
  const OvmsNodeConfig& crop = pipeline.nodes[1];
  EXPECT_EQ(crop.type, OvmsNodeConfig::Type::kCustom);
  EXPECT_EQ(crop.library_name, "lib");
  EXPECT_EQ(crop.gather_from_node, "detect");
  EXPECT_THAT(crop.params, ElementsAre(std::pair<std::string, std::string>("z", "1"),
                                       std::pair<std::string, std::string>("a", "2")));
  EXPECT_THAT(crop.inputs,
              ElementsAre(OvmsConnection{"x", {"detect", "b"}}, OvmsConnection{"y", {"detect", "c"}}));
  EXPECT_THAT(config.warnings,
              ElementsAre("pipeline 'p': demultiply_count 0 is the old form of -1 (dynamic)"));
}

TEST(ParseOvmsConfig, ALibraryMustNotLieAboveItsFolder) {
  const OvmsConfig config = Parse(R"j({"model_config_list": [], "custom_node_library_config_list": [
    {"name": "up", "base_path": "libs/../../x.so"}, {"name": "abs", "base_path": "/libs/a..b.so"}]})j");
  EXPECT_EQ(config.custom_node_libraries.at(0).fault.message(),
            "The provided base path is invalid or doesn't exists - "
            "/custom_node_library_config_list/0/base_path: 'libs/../../x.so' must not contain '..'");
  EXPECT_TRUE(config.custom_node_libraries.at(1).fault.ok());
  EXPECT_EQ(config.custom_node_libraries.at(1).base_path, "/libs/a..b.so");
}

TEST(ParseOvmsConfig, ReadsGraphs) {
  const OvmsConfig config = Parse(R"j({"model_config_list": [], "mediapipe_config_list": [{"name": "g"},
    {"name": "h", "base_path": "graphs/h", "graph_path": "x/my.pbtxt", "subconfig": "/sub.json"}]})j");
  EXPECT_EQ(config.graphs.at(0), (OvmsGraphConfig{"g", "/etc/braid/g/", "/etc/braid/g/graph.pbtxt",
                                                  "/etc/braid/g/subconfig.json"}));
  EXPECT_EQ(config.graphs.at(1),
            (OvmsGraphConfig{"h", "/etc/braid/graphs/h/", "/etc/braid/graphs/h/x/my.pbtxt", "/sub.json"}));
  const OvmsModelConfig entry = Model(R"j("base_path": "/m/g", "graph_path": "a.pbtxt")j");
  EXPECT_EQ(GraphOfModelEntry(entry), (OvmsGraphConfig{"m", "/m/g/", "/m/g/a.pbtxt", "/m/g/subconfig.json"}));
}

TEST(ParseOvmsConfig, ReadsMonitoring) {
  EXPECT_EQ(Parse(R"j({"model_config_list": []})j").metrics, std::nullopt);
  const auto metrics = Parse(R"j({"model_config_list": [], "monitoring": {"metrics": {"enable": true,
    "metrics_list": ["ovms_requests_success", "ovms_infer_req_active"]}}})j")
                           .metrics;
  EXPECT_EQ(metrics, (OvmsMetricsConfig{true, {"ovms_requests_success", "ovms_infer_req_active"}}));
  EXPECT_EQ(Fault(R"j({"model_config_list": [], "monitoring": {"metrics": {"enable": true,
    "metrics_list": ["ovms_speed"]}}})j"),
            "Invalid name in metrics_list - ovms_speed");
}

TEST(ParseOvmsConfig, CustomLoadersAreRefused) {
  EXPECT_TRUE(ParseOvmsConfig(R"j({"model_config_list": [], "custom_loader_config_list": []})j", "/").ok());
  const auto refused = ParseOvmsConfig(
      R"j({"model_config_list": [], "custom_loader_config_list": [{"config": {"loader_name": "l"}}]})j", "/");
  EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(refused.status().message(),
            "Functionality not implemented - /custom_loader_config_list/0: custom loaders are not supported");
  EXPECT_EQ(ParseOvmsConfig(Entry(R"j("custom_loader_options": {"loader_name": "l"})j"), "/").status().code(),
            StatusCode::kUnsupported);
}

TEST(ParseOvmsSubconfig, HasModelsAlone) {
  std::vector<std::string> warnings;
  const auto models = ParseOvmsSubconfig(
      R"j({"model_config_list": [{"config": {"name": "a", "base_path": "m"}}]})j", "/g", warnings);
  ASSERT_TRUE(models.ok()) << models.status();
  EXPECT_EQ(models->at(0).base_path, "/g/m");
  EXPECT_THAT(ParseOvmsSubconfig(R"j({"model_config_list": [], "pipeline_config_list": []})j", "/g", warnings)
                  .status()
                  .message(),
              HasSubstr("/pipeline_config_list: unknown key"));
}

TEST(ModelConfigFromOptions, ReadsEveryOption) {
  const auto model = ModelConfigFromOptions({{"model_name", "m"},
                                             {"model_path", "models/m"},
                                             {"batch_size", "auto"},
                                             {"layout", "{\"in\": \"NHWC\"}"},
                                             {"nireq", "3"},
                                             {"target_device", "CPU"},
                                             {"plugin_config", "{\"NUM_STREAMS\": 1}"},
                                             {"model_version_policy", "{\"all\": {}}"},
                                             {"precision", "fp32"},
                                             {"mean", "[1,2,3]"},
                                             {"scale", "2"},
                                             {"color_format", "BGR"},
                                             {"allow_cache", "false"},
                                             {"stateful", "False"}},
                                            "/work");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->base_path, "/work/models/m");
  EXPECT_TRUE(model->batch_size->automatic);
  EXPECT_EQ(model->layouts.at("in").tensor, "NHWC");
  EXPECT_EQ(model->nireq, 3u);
  EXPECT_EQ(std::get<int64_t>(model->plugin_config.at("NUM_STREAMS")), 1);
  EXPECT_EQ(model->version_policy.kind, OvmsVersionPolicy::Kind::kAll);
  EXPECT_EQ(model->precisions.at(""), "FP32");
  EXPECT_THAT(model->mean, ElementsAre(1, 2, 3));
  EXPECT_FALSE(model->allow_cache);
  const auto stateful = ModelConfigFromOptions(
      {{"model_name", "m"}, {"model_path", "/m"}, {"stateful", ""}, {"max_sequence_number", "9"}}, "/");
  ASSERT_TRUE(stateful.ok()) << stateful.status();
  EXPECT_EQ(stateful->max_sequence_number, 9u);
}

TEST(ModelConfigFromOptions, FaultsNameTheirOption) {
  const std::pair<std::map<std::string, std::string>, const char*> cases[] = {
      {{{"model_path", "/m"}}, "--model_name: is missing"},
      {{{"model_name", "m"}}, "--model_path: is missing"},
      {{{"model_name", "m"}, {"model_path", "gs:///x"}},
       "--model_path: 'gs:///x': expected gs://BUCKET/PATH"},
      {{{"model_name", "m"}, {"model_path", "/m"}, {"shape", "(x)"}}, "--shape: invalid shape '(x)'"},
      {{{"model_name", "m"}, {"model_path", "/m"}, {"nireq", "x"}}, "--nireq: expected an integer, got 'x'"},
      {{{"model_name", "m"}, {"model_path", "/m"}, {"nireq", "-1"}}, "--nireq: expected an integer from 0"},
      {{{"model_name", "m"}, {"model_path", "/m"}, {"stateful", "maybe"}},
       "--stateful: expected true or false"},
      {{{"model_name", "m"}, {"model_path", "/m"}, {"plugin_config", "{"}},
       "--plugin_config: expected a JSON"},
      {{{"model_name", "m"}, {"model_path", "/m"}, {"plugin_config", "[1]"}},
       "--plugin_config: expected an object"},
      {{{"model_name", "m"},
        {"model_path", "/m"},
        {"model_version_policy", "{\"latest\":{\"num_versions\":0}}"}},
       "--model_version_policy/latest/num_versions: expected an integer >= 1"},
      {{{"model_name", "m"}, {"model_path", "/m"}, {"max_sequence_number", "5"}},
       "--max_sequence_number: Stateful model config parameter used for non stateful model"},
      {{{"model_name", "m"}, {"model_path", "/m"}, {"colour", "x"}}, "--colour: unknown model option"},
  };
  for (const auto& [options, expected] : cases) {
    const auto model = ModelConfigFromOptions(options, "/");
    EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(model.status().message(), HasSubstr(expected));
  }
}

}  // namespace
}  // namespace braid
