#include "config/config_json.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "config/model_config.h"

namespace braid {
namespace {

using inference::ModelConfig;

ModelConfig Parse(std::string_view text) {
  auto config = ParseConfigText(text, "config.pbtxt");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : ModelConfig();
}

TEST(ConfigToJson, PrintsTheFormThatUserCodeSees) {
  ModelConfig config = Parse(
      "backend: 'python' instance_group [{ count: 2 }] dynamic_batching {}"
      " input [{ name: 'IN' data_type: TYPE_FP32 dims: [4] }] output [{ name: 'OUT' data_type: TYPE_FP32 "
      "dims: [4] }]");
  ASSERT_TRUE(CompleteNames(config, "db0").ok());
  NormalizeConfig(config);
  // The args["model_config"] of a model on the reference server.
  EXPECT_EQ(
      ConfigToJson(config),
      R"({"name":"db0","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},)"
      R"("max_batch_size":0,"input":[{"name":"IN","data_type":"TYPE_FP32","format":"FORMAT_NONE","dims":[4],)"
      R"("is_shape_tensor":false,"allow_ragged_batch":false,"optional":false,"is_non_linear_format_io":false}],)"
      R"("output":[{"name":"OUT","data_type":"TYPE_FP32","dims":[4],"label_filename":"","is_shape_tensor":false,)"
      R"("is_non_linear_format_io":false}],"batch_input":[],"batch_output":[],"optimization":{)"
      R"("priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},)"
      R"("gather_kernel_buffer_threshold":0,"eager_batching":false},"dynamic_batching":{"preferred_batch_size":[],)"
      R"("max_queue_delay_microseconds":0,"preserve_ordering":false,"priority_levels":0,"default_priority_level":0,)"
      R"("priority_queue_policy":{}},"instance_group":[{"name":"db0_0","kind":"KIND_CPU","count":2,"gpus":[],)"
      R"("secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py",)"
      R"("cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]})");
}

TEST(ConfigToJson, PrintsSetSubMessagesMapsAndWideNumbers) {
  const ModelConfig config = Parse(
      "name: 'a\"b' model_transaction_policy {} response_cache {} version_policy { all {} }"
      " parameters { key: 'z' value { string_value: '1' } } parameters { key: 'a' value { string_value: '2' "
      "} }"
      " dynamic_batching { max_queue_delay_microseconds: 18446744073709551615"
      "   priority_queue_policy { key: 2 value { timeout_action: DELAY } } }"
      " model_warmup { name: 'w' inputs { key: 'I' value { dims: [-1] zero_data: true } } }");
  const std::string json = ConfigToJson(config);
  EXPECT_NE(json.find(R"("name":"a\"b")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("version_policy":{"all":{}})"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("parameters":{"a":{"string_value":"2"},"z":{"string_value":"1"}})"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("max_queue_delay_microseconds":18446744073709551615)"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("priority_queue_policy":{"2":{"timeout_action":"DELAY",)"), std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("inputs":{"I":{"data_type":"TYPE_INVALID","dims":[-1],"zero_data":true}})"),
            std::string::npos)
      << json;
  EXPECT_TRUE(
      json.ends_with(R"("model_transaction_policy":{"decoupled":false},"response_cache":{"enable":false}})"))
      << json;
}

TEST(ConfigFromJson, ReadsBackWhatWasPrinted) {
  ModelConfig config = Parse(
      "name: 'm' backend: 'python' max_batch_size: 4 version_policy { specific { versions: [1, "
      "9007199254740993] } }"
      " input { name: 'I' data_type: TYPE_STRING dims: [-1, 3] reshape { shape: [] } optional: true }"
      " parameters { key: 'k' value { string_value: 'v' } } metric_tags { key: 'a' value: 'b' }"
      " dynamic_batching { preferred_batch_size: [2] priority_queue_policy { key: 7 value { max_queue_size: "
      "3 } } }");
  NormalizeConfig(config);
  auto back = ConfigFromJson(ConfigToJson(config));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(config, *back)) << back->DebugString();
}

TEST(ConfigFromJson, TakesCamelCaseNamesTextNumbersAndNulls) {
  auto config = ConfigFromJson(
      R"({"maxBatchSize": 2.0, "versionPolicy": {"specific": {"versions": ["3"]}}, "name": null,)"
      R"( "input": [{"dataType": 11}]})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->max_batch_size(), 2);
  EXPECT_EQ(config->version_policy().specific().versions(0), 3);
  EXPECT_EQ(config->input(0).data_type(), inference::TYPE_FP32);
}

struct Fault {
  std::string_view json;
  std::string_view text;
};
class ConfigFromJsonFaults : public ::testing::TestWithParam<Fault> {};
TEST_P(ConfigFromJsonFaults, NameThePlace) {
  auto config = ConfigFromJson(GetParam().json);
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(config.status().message(), GetParam().text);
}
INSTANTIATE_TEST_SUITE_P(
    All, ConfigFromJsonFaults,
    ::testing::Values(
        Fault{R"([])", "expected an object"}, Fault{R"({"foo": 1})", "foo: unknown field"},
        Fault{R"({"name": "a", "name": "b"})", "duplicate key 'name'"},
        Fault{R"({"max_batch_size": 1, "maxBatchSize": 2})", "maxBatchSize: duplicate field"},
        Fault{R"({"input": [{"dims": [1, "x"]}]})", "input[0].dims[1]: expected an integer"},
        Fault{R"({"max_batch_size": 1.5})", "max_batch_size: expected a 32-bit integer"},
        Fault{R"({"max_batch_size": 4294967296})", "max_batch_size: expected a 32-bit integer"},
        Fault{R"({"dynamic_batching": {"priority_levels": -1}})",
              "dynamic_batching.priority_levels: expected a non-negative integer"},
        Fault{R"({"input": [{"data_type": "FP32"}]})",
              R"(input[0].data_type: expected a value of DataType, got "FP32"; did you mean "TYPE_FP32"?)"},
        Fault{R"({"input": [{"data_type": "x"}]})",
              R"(input[0].data_type: expected a value of DataType, got "x")"},
        Fault{R"({"input": [{"data_type": 99}]})",
              "input[0].data_type: expected a value of DataType, got 99"},
        Fault{R"({"input": {}})", "input: expected a list"},
        Fault{R"({"name": 1})", "name: expected a string"},
        Fault{R"({"parameters": {"k": "v"}})", "parameters['k']: expected an object"},
        Fault{R"({"dynamic_batching": {}, "sequence_batching": {}})",
              "sequence_batching: only one field of 'scheduling_choice' can be set"},
        Fault{R"({"model_transaction_policy": {"decoupled": "true"}})",
              "model_transaction_policy.decoupled: expected true or false"}));

TEST(ConfigFromJson, RefusesWhatIsNotJson) {
  EXPECT_FALSE(ConfigFromJson("").ok());
  EXPECT_FALSE(ConfigFromJson("{\"backend\":").ok());
  EXPECT_FALSE(ConfigFromJson("{} {}").ok());
  EXPECT_FALSE(ConfigFromJson("{\"name\":\"\xff\"}").ok());
  EXPECT_FALSE(ConfigFromJson(std::string(1000000, '[')).ok());
}

}  // namespace
}  // namespace braid
