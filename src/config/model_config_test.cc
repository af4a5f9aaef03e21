#include "config/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/known_backends.h"
#include "config/supported_features.h"

namespace braid {
namespace {

using inference::ModelConfig;

constexpr std::string_view kTensors =
    " input { name: 'IN' data_type: TYPE_FP32 dims: [4] } output { name: 'OUT' data_type: TYPE_FP32 dims: "
    "[4] }";

ModelConfig Parse(std::string_view text) {
  auto config = ParseConfigText(text, "config.pbtxt");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : ModelConfig();
}

// Validates a configuration of model "m" of the python backend.
Status Validate(std::string_view text) {
  ModelConfig config = Parse("backend: 'python' " + std::string(text));
  BRAID_RETURN_IF_ERROR(CompleteNames(config, "m"));
  NormalizeConfig(config);
  return ValidateConfig(config);
}

TEST(ParseConfigText, SaysFileLineAndColumnOfAnUnknownField) {
  auto config = ParseConfigText("name: \"m\"\n  foo: 3\n", "repo/m/config.pbtxt");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(config.status().message(),
            "repo/m/config.pbtxt:2:6: Message type \"inference.ModelConfig\" has no field named \"foo\".");
  EXPECT_EQ(
      ParseConfigText("inputs [ { name: 'A' } ]", "f").status().message(),
      "f:1:8: Message type \"inference.ModelConfig\" has no field named \"inputs\". Did you mean 'input'?");
  EXPECT_EQ(ParseConfigText("input [ { nam: 'A' } ]", "f").status().message(),
            "f:1:14: Message type \"inference.ModelInput\" has no field named \"nam\". Did you mean 'name'?");
}

TEST(ParseConfigText, SaysWhatWasExpected) {
  auto config = ParseConfigText("max_batch_size: \"eight\"", "config.pbtxt");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().message(), "config.pbtxt:1:17: Expected integer, got: \"eight\"");
}

TEST(ParseConfigText, RefusesUnknownEnumNamesAndRepeatedFields) {
  EXPECT_FALSE(ParseConfigText("input { data_type: FP32 }", "c").ok());
  EXPECT_FALSE(ParseConfigText("dynamic_batching {} sequence_batching {}", "c").ok());
  EXPECT_FALSE(ParseConfigText("input { name: 'a'", "c").ok());
}

TEST(CompleteNames, TakesTheNameOfTheFolder) {
  ModelConfig config;
  ASSERT_TRUE(CompleteNames(config, "add_sub").ok());
  EXPECT_EQ(config.name(), "add_sub");
  EXPECT_EQ(config.version_policy().latest().num_versions(), 1u);
}

TEST(CompleteNames, RefusesANameThatIsNotTheFolders) {
  ModelConfig config = Parse("name: 'other'");
  EXPECT_EQ(CompleteNames(config, "m").message(),
            "unexpected directory name 'm' for model 'other', directory name must equal model name");
}

TEST(NormalizeConfig, InventsOneInstanceGroupNamedAsTheModel) {
  ModelConfig config = Parse("name: 'probe' backend: 'python'");
  NormalizeConfig(config);
  const auto instances = ListInstances(config);
  ASSERT_EQ(instances.size(), 1u);
  EXPECT_EQ(instances[0].name, "probe_0");
  EXPECT_EQ(instances[0].kind, "CPU");
  EXPECT_FALSE(instances[0].passive);
  EXPECT_EQ(config.default_model_filename(), "model.py");
}

TEST(NormalizeConfig, NamesInstanceGroupsByTheirIndex) {
  ModelConfig config = Parse(
      "name: 'm' instance_group [{count: 2}, {name: 'x' kind: KIND_MODEL}, {count: 1 passive: true kind: "
      "KIND_CPU}]");
  NormalizeConfig(config);
  const auto instances = ListInstances(config);
  ASSERT_EQ(instances.size(), 4u);
  EXPECT_EQ(instances[0].name, "m_0_0");
  EXPECT_EQ(instances[1].name, "m_0_1");
  EXPECT_EQ(instances[2].name, "x_0");
  EXPECT_EQ(instances[2].kind, "MODEL");
  EXPECT_EQ(instances[3].name, "m_2_0");
  EXPECT_TRUE(instances[3].passive);
}

TEST(NormalizeConfig, PrefersTheLargestBatch) {
  ModelConfig config = Parse("name: 'm' max_batch_size: 8 dynamic_batching {}");
  NormalizeConfig(config);
  ASSERT_EQ(config.dynamic_batching().preferred_batch_size_size(), 1);
  EXPECT_EQ(config.dynamic_batching().preferred_batch_size(0), 8);
  ModelConfig without = Parse("name: 'm' dynamic_batching {}");
  NormalizeConfig(without);
  EXPECT_EQ(without.dynamic_batching().preferred_batch_size_size(), 0);
}

TEST(ValidateConfig, AcceptsModelsWithAndWithoutTensors) {
  EXPECT_TRUE(Validate(kTensors).ok());
  EXPECT_TRUE(Validate("").ok());
  EXPECT_TRUE(Validate("max_batch_size: 4 input { name: 'I' data_type: TYPE_BOOL dims: [-1, 3] }").ok());
}

struct Fault {
  std::string_view config;
  std::string_view text;
};
TEST(NormalizeConfig, PlacesWhatNamesNoKindOnAllGpus) {
  GpuPlacement two;
  two.gpus = {0, 2};
  ModelConfig config = Parse(
      "name: 'm' backend: 'python' instance_group [{count: 2}, {kind: KIND_AUTO gpus: [2]},"
      "{kind: KIND_AUTO gpus: [0, 1]}, {kind: KIND_GPU}, {kind: KIND_CPU}]");
  EXPECT_THAT(NormalizeConfig(config, two), ::testing::IsEmpty());
  EXPECT_TRUE(ValidateConfig(config, two).ok());
  std::vector<std::string> placed;
  for (const InstanceSpec& instance : ListInstances(config))
    placed.push_back(instance.name + " " + instance.kind + std::to_string(instance.device_id));
  EXPECT_THAT(placed,
              ::testing::ElementsAre("m_0_0 GPU0", "m_0_1 GPU0", "m_0_2 GPU2", "m_0_3 GPU2", "m_1_0 GPU2",
                                     "m_2_0 CPU0", "m_3_0 GPU0", "m_3_1 GPU2", "m_4_0 CPU0"));
  EXPECT_EQ(config.instance_group(2).gpus_size(), 0);

  ModelConfig none = Parse("name: 'm' backend: 'python'");
  NormalizeConfig(none, two);
  ASSERT_EQ(ListInstances(none).size(), 2);
  EXPECT_EQ(ListInstances(none)[1].kind, "GPU");
  EXPECT_EQ(ListInstances(none)[1].device_id, 2);

  two.automatic = false;
  ModelConfig by_hand = Parse("name: 'm' backend: 'python' instance_group [{}, {kind: KIND_GPU gpus: [2]}]");
  NormalizeConfig(by_hand, two);
  EXPECT_EQ(ListInstances(by_hand)[0].kind, "CPU");
  EXPECT_EQ(ListInstances(by_hand)[1].kind, "GPU");
}

TEST(NormalizeConfig, LetsTheCpuStandInWhereItIsToldTo) {
  GpuPlacement placement;
  placement.cpu_stands_in = true;
  ModelConfig config =
      Parse("name: 'm' backend: 'python' instance_group { kind: KIND_GPU gpus: [0, 1] count: 2 }");
  EXPECT_THAT(NormalizeConfig(config, placement),
              ::testing::ElementsAre("instance group m_0 of model m has kind KIND_GPU but its GPUs are not "
                                     "available; its instances run on the CPU (--gpu-fallback=cpu)"));
  EXPECT_TRUE(ValidateConfig(config, placement).ok());
  ASSERT_EQ(ListInstances(config).size(), 2);
  EXPECT_EQ(ListInstances(config)[1].kind, "CPU");
  EXPECT_EQ(ListInstances(config)[1].device_id, 0);

  placement.gpus = {0, 1};
  ModelConfig there = Parse("name: 'm' backend: 'python' instance_group { kind: KIND_GPU gpus: [1] }");
  EXPECT_THAT(NormalizeConfig(there, placement), ::testing::IsEmpty());
  EXPECT_EQ(ListInstances(there)[0].kind, "GPU");
}

TEST(ValidateConfig, NamesTheGpusThatThereAre) {
  GpuPlacement placement;
  placement.gpus = {0, 2};
  ModelConfig config =
      Parse("name: 'm' backend: 'python' instance_group [{}, { kind: KIND_GPU gpus: [0, 1] }]");
  NormalizeConfig(config, placement);
  const FieldFault fault = FindConfigFault(config, placement);
  EXPECT_EQ(fault.status.message(),
            "instance group m_1 of model m specifies invalid or unsupported gpu id 1. GPUs with at least  "
            "the minimum "
            "required CUDA compute compatibility of 6.000000 are: 0 2");
  EXPECT_EQ(fault.field, "instance_group[1].gpus[1]");
  placement = {.why_none = " to OpenVINO, which finds these devices: CPU"};
  EXPECT_EQ(ValidateConfig(config, placement).message(),
            "instance group m_0 of model m has kind KIND_GPU but no GPUs are available to OpenVINO, which "
            "finds these "
            "devices: CPU");
  ModelConfig many = Parse("name: 'm' backend: 'python' instance_group { count: 600 }");
  placement = {.gpus = {0, 1}};
  NormalizeConfig(many, placement);
  EXPECT_EQ(ValidateConfig(many, placement).message(),
            "model m asks for 1200 instances, at most 1024 are allowed");
}

class ValidateConfigTexts : public ::testing::TestWithParam<Fault> {};
TEST_P(ValidateConfigTexts, AreThoseOfTheContract) {
  const Status status = Validate(GetParam().config);
  EXPECT_EQ(status.message(), GetParam().text);
}
INSTANTIATE_TEST_SUITE_P(
    All, ValidateConfigTexts,
    ::testing::Values(
        Fault{"max_batch_size: -1", "'max_batch_size' must be non-negative value for m"},
        Fault{"input { data_type: TYPE_FP32 dims: [1] }", "model input must specify 'name' for m"},
        Fault{"input { name: 'IN' dims: [1] }", "model input 'IN' must specify 'data_type' for m"},
        Fault{"output { name: 'O' data_type: 99 dims: [1] }",
              "model output 'O' must specify 'data_type' for m"},
        Fault{"input { name: 'IN' data_type: TYPE_FP32 }", "model input 'IN' must specify 'dims' for m"},
        Fault{"input { name: 'IN' data_type: TYPE_FP32 dims: [0] }",
              "model input 'IN' dimension must be integer >= 1, or -1 to indicate a variable-size dimension "
              "for m"},
        Fault{"output { name: 'O' data_type: TYPE_FP32 dims: [-2] }",
              "model output 'O' dimension must be integer >= 1, or -1 to indicate a variable-size dimension "
              "for m"},
        Fault{"input { name: 'IN' data_type: TYPE_FP32 dims: [4] reshape { shape: [2, 3] } }",
              "model input 'IN' has different size for dims and reshape for m"},
        Fault{"output { name: 'O' data_type: TYPE_FP32 dims: [2, -1, 3] reshape { shape: [3, -1, 2] } }",
              "model output 'O' has different size for dims and reshape for m"},
        Fault{"input { name: 'IN' data_type: TYPE_FP32 dims: [4] reshape { shape: [4, 0] } }",
              "model input 'IN' reshape dimensions must be integer >= 1, or -1 to indicate a variable-size "
              "dimension "
              "for m"},
        Fault{"max_batch_size: 4 input { name: 'IN' data_type: TYPE_FP32 dims: [1] reshape { } }", ""},
        Fault{"output { name: 'O' data_type: TYPE_FP32 dims: [2, -1, 3] reshape { shape: [1, 2, -1, 3] } }",
              ""},
        Fault{"input { name: 'IN' data_type: TYPE_FP32 dims: [4611686018427387904, 4] }",
              "model input 'IN' has too many elements for m"},
        Fault{"input { name: 'IN' data_type: TYPE_FP32 format: FORMAT_NHWC dims: [4] }",
              "model input NHWC/NCHW require 3 dims for m"},
        Fault{"input { name: 'IN' data_type: TYPE_FP32 dims: [4] is_shape_tensor: true }",
              "shape tensors are only supported for TensorRT platform for m"},
        Fault{"input [{ name: 'I' data_type: TYPE_FP32 dims: [4] }, { name: 'I' data_type: TYPE_FP32 dims: "
              "[4] }]",
              "model input 'I' is specified more than once for m"},
        Fault{"max_batch_size: 4 dynamic_batching { preferred_batch_size: [8] }",
              "dynamic batching preferred size must be <= max batch size for m"},
        Fault{"max_batch_size: 4 dynamic_batching { preferred_batch_size: [0] }",
              "dynamic batching preferred size must be positive for m"},
        Fault{"max_batch_size: 4 dynamic_batching { priority_levels: 2 }",
              "default priority level must be in range [1, 2] for m"},
        Fault{"max_batch_size: 4 dynamic_batching { priority_levels: 2 default_priority_level: 1 "
              "priority_queue_policy { key: 5 value {} } }",
              "priority queue policy must have priority level in range [1, 2] for m"},
        Fault{"max_batch_size: 4 dynamic_batching { priority_levels: 4294967296 default_priority_level: 1 }",
              "priority levels must be at most 4294967295 for m"},
        Fault{"max_batch_size: 4 dynamic_batching { priority_levels: 4294967295 default_priority_level: 9 }",
              ""},
        Fault{"dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }",
              "Only one priority level is allowed when 'preserve_ordering' is true for m"},
        Fault{"dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY } }",
              "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for m"},
        Fault{"dynamic_batching { preserve_ordering: true priority_levels: 1 default_priority_level: 1 "
              "priority_queue_policy { key: 1 value { timeout_action: DELAY } } }",
              "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for m"},
        Fault{"dynamic_batching { preserve_ordering: true priority_levels: 1 default_priority_level: 1 }",
              ""},
        Fault{"instance_group { kind: KIND_GPU }",
              "instance group m_0 of model m has kind KIND_GPU but no GPUs are available"},
        Fault{"instance_group { kind: KIND_CPU gpus: [0] }",
              "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs"},
        Fault{"instance_group { count: 2000000000 }",
              "model m asks for 2000000000 instances, at most 1024 are allowed"},
        Fault{"default_model_filename: 'foo.txt'",
              "Model name must end with '.py'. Model name is \"foo.txt\"."},
        Fault{"default_model_filename: '../x.py'",
              "'default_model_filename' must name a file in the version folder, without '..', for m"},
        Fault{"parameters { key: 'PINNED' value { string_value: 'yes' } }",
              "parameter PINNED of model 'm' is 'yes'; expected true or false"},
        Fault{"parameters { key: 'ANY_TENSORS' value { string_value: '1' } }",
              "parameter ANY_TENSORS of model 'm' is '1'; expected true or false"},
        Fault{
            "max_batch_size: 1 parameters { key: 'ANY_TENSORS' value { string_value: 'true' } }",
            "parameter ANY_TENSORS of model 'm' needs backend \"python\" and max_batch_size 0, and excludes "
            "input, output and sequence_batching"},
        Fault{"parameters { key: 'FORCE_CPU_ONLY_INPUT_TENSORS' value { string_value: 'x' } }",
              "Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: x'"},
        Fault{"response_cache { enable: true } model_transaction_policy { decoupled: true }",
              "Response Cache does not currently support model m with 'decoupled' transaction policy. Please "
              "disable "
              "the response cache."},
        Fault{"response_cache { enable: true } sequence_batching {}",
              "Response Cache does not currently support model m with sequence batching scheduler. Please "
              "disable the "
              "response cache."}));

TEST(CheckConfigFile, AScalarNeedsBatches) {
  const std::string text =
      "name: 'm' backend: 'python' output { name: 'O' data_type: TYPE_FP32 dims: 1 reshape { } }";
  EXPECT_EQ(FindFileFault(Parse(text)).field, "output[0].reshape");
  EXPECT_EQ(CheckConfigFile(Parse(text)).message(),
            "model output 'O' cannot have empty reshape for non-batching model as scalar tensors are not "
            "supported for "
            "m");
  EXPECT_EQ(CheckConfigFile(Parse("max_batch_size: 1 " + text)), OkStatus());
  // The configuration of an OpenVINO model that was completed from its file.
  EXPECT_EQ(ValidateConfig(Parse(text)), OkStatus());
}

TEST(CheckConfigFile, NeedsABackend) {
  ModelConfig config;
  EXPECT_EQ(CheckConfigFile(config).message(), "model configuration must specify 'name'");
  config.set_name("m");
  EXPECT_EQ(CheckConfigFile(config).message(), "must specify 'platform' or 'backend' for 'm'");
  config.set_platform("zzz");
  EXPECT_EQ(CheckConfigFile(config).message(), "unexpected platform type 'zzz' for m");
}

TEST(GuessBackend, LooksAtFilesFirstAndAtTheNameThen) {
  EXPECT_EQ(*GuessBackend("m", {"model.py", "x"}), "python");
  EXPECT_EQ(*GuessBackend("model.vllm", {"model.json"}), "vllm");
  EXPECT_EQ(
      GuessBackend("m", {}).status().message(),
      "Invalid model name: Could not determine backend for model 'm' with no backend in model configuration. "
      "Expected model name of the form 'model.<backend_name>'.");
}

TEST(CheckSupportedFeatures, NamesWhatItRefuses) {
  auto refusal = [](std::string_view text) { return CheckSupportedFeatures(Parse(text)).message(); };
  EXPECT_EQ(refusal("name: 'm' runtime: 'x'"), "model 'm': 'runtime' is not supported; leave it empty");
  EXPECT_NE(refusal("name: 'm' model_repository_agents { agents { name: 'checksum' } }"), "");
  EXPECT_EQ(refusal("name: 'm' optimization { eager_batching: true } response_cache { enable: true } "
                    "model_transaction_policy { decoupled: true } model_warmup { name: 'w' } "
                    "instance_group { rate_limiter { priority: 2 } }"),
            "");
  EXPECT_EQ(refusal("name: 'm' sequence_batching {}"), "");
  EXPECT_EQ(refusal("name: 'm' backend: 'openvino' batch_input { }"),
            "model 'm': 'batch_input' is not supported: no backend supports such tensors");
  EXPECT_EQ(refusal("name: 'm' backend: 'onnxruntime' batch_output { }"),
            "model 'm': 'batch_output' is not supported: no backend supports such tensors");
  EXPECT_EQ(refusal("name: 'm' backend: 'python' batch_input { } batch_output { }"), "");
  EXPECT_EQ(refusal("name: 'm' sequence_batching { state { input_name: 'a' use_growable_memory: true } }"),
            "model 'm': 'use_growable_memory' of state 'a' is not supported; a state can change its size "
            "without it");
  EXPECT_EQ(refusal("name: 'm' sequence_batching { state { input_name: 'a' output_name: 'b' "
                    "use_same_buffer_for_input_output: true } }"),
            "model 'm': 'use_same_buffer_for_input_output' of state 'a' is not supported; the model must "
            "return its new state as output 'b'");
}

}  // namespace
}  // namespace braid
