#include "backends/native/native_task.h"

#include <gtest/gtest.h>

#include <random>

#include "serving/faults.h"

namespace braid {
namespace {

NativeTask SomeTask() {
  NativeTask task;
  task.kind = NativeTask::Kind::kTritonModel;
  task.cache_directory = "/cache";
  task.cpu_extension = "/lib.so";
  task.model_path = "/models/m";
  task.version_path = "/models/m/3";
  task.model_file = "/models/m/3/model.xml";
  task.version = 3;
  task.triton_config.set_name("m");
  task.triton_config.set_max_batch_size(8);
  OvmsModelConfig& config = task.ovms_config;
  config.name = "m";
  config.base_path = "/models/m";
  config.batch_size = OvmsBatchSize{false, {1, 8}};
  config.shapes["a"] = {false, {{1, 1}, {2, -1}}};
  config.shapes["b"].automatic = true;
  config.layouts["a"] = {"NHWC", "NCHW"};
  config.nireq = 4;
  config.target_device = "AUTO:CPU";
  config.plugin_config = {{"text", "x"}, {"flag", true}, {"whole", int64_t{-5}}, {"part", 0.5}};
  config.allow_cache = false;
  config.precisions["a"] = "FP16";
  config.mean = {1, 2, 3};
  config.scale = {0.25};
  config.color_format = "RGB:BGR";
  config.stateful = true;
  config.idle_sequence_cleanup = false;
  config.low_latency_transformation = true;
  config.max_sequence_number = 7;
  config.allow_in_pipelines = true;
  return task;
}

TEST(NativeTask, IsReadAsItWasWritten) {
  const NativeTask task = SomeTask();
  const auto read = DecodeTask(EncodeTask(task));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->kind, task.kind);
  EXPECT_EQ(read->cache_directory, "/cache");
  EXPECT_EQ(read->cpu_extension, "/lib.so");
  EXPECT_EQ(read->model_path, "/models/m");
  EXPECT_EQ(read->version_path, "/models/m/3");
  EXPECT_EQ(read->model_file, "/models/m/3/model.xml");
  EXPECT_EQ(read->version, 3);
  EXPECT_EQ(read->ovms_config, task.ovms_config);
  EXPECT_EQ(read->triton_config.SerializeAsString(), task.triton_config.SerializeAsString());
}

TEST(NativeTask, WhatIsCutOffIsRefused) {
  const std::string whole = EncodeTask(SomeTask());
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(DecodeTask(whole.substr(0, length)).ok()) << length;
  EXPECT_FALSE(DecodeTask(whole + "x").ok());
}

NativeAnswer SomeAnswer() {
  NativeAnswer answer;
  ServableInfo& info = answer.info;
  info.name = "m";
  info.version = 3;
  info.dialect = Dialect::kOvms;
  info.platform = "OpenVINO";
  info.instance_count = 2;
  info.stream_count = 1;
  info.automatic_shape = true;
  TensorSpec in;
  in.name = "in";
  in.type = DataType::kFp32;
  in.shape = {-1, 3};
  in.ranges = {{1, 8}, {3, 3}};
  in.layout = "NC";
  info.inputs = {in};
  in.name = "out";
  in.ranges = {};
  in.model_shape = Shape{3};
  info.outputs = {in};
  info.stateful.emplace();
  info.stateful->states = {{"s", DataType::kInt64, {1, -1}}};
  info.stateful->max_sequences = 9;
  auto config = std::make_shared<inference::ModelConfig>();
  config->set_name("m");
  info.config = config;
  answer.calculators = {"A", "B"};
  return answer;
}

TEST(NativeAnswer, IsReadAsItWasWritten) {
  const NativeAnswer answer = SomeAnswer();
  const auto read = DecodeAnswer(EncodeAnswer(answer));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->status.ok());
  const ServableInfo& info = read->info;
  EXPECT_EQ(read->calculators, answer.calculators);
  EXPECT_EQ(info.name, "m");
  EXPECT_EQ(info.version, 3);
  EXPECT_EQ(info.platform, "OpenVINO");
  EXPECT_EQ(info.instance_count, 2);
  EXPECT_EQ(info.stream_count, 1);
  EXPECT_TRUE(info.automatic_shape);
  ASSERT_EQ(info.inputs.size(), 1u);
  EXPECT_EQ(info.inputs[0].name, "in");
  EXPECT_EQ(info.inputs[0].type, DataType::kFp32);
  EXPECT_EQ(info.inputs[0].shape, (Shape{-1, 3}));
  EXPECT_EQ(info.inputs[0].ranges, (std::vector<DimensionRange>{{1, 8}, {3, 3}}));
  EXPECT_EQ(info.inputs[0].layout, "NC");
  ASSERT_EQ(info.outputs.size(), 1u);
  EXPECT_EQ(info.outputs[0].model_shape, Shape{3});
  ASSERT_TRUE(info.stateful.has_value());
  EXPECT_EQ(info.stateful->states, answer.info.stateful->states);
  EXPECT_EQ(info.stateful->max_sequences, 9u);
  ASSERT_NE(info.config, nullptr);
  EXPECT_EQ(info.config->name(), "m");
}

TEST(NativeAnswer, ANodeNeedNotSayItsTypes) {
  NativeAnswer answer;
  TensorSpec& spec = answer.node_inputs.emplace_back();
  spec.name = "any";
  spec.type = DataType::kInvalid;
  spec.shape = {-1, 7};
  const auto read = DecodeAnswer(EncodeAnswer(answer));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->node_inputs.size(), 1u);
  EXPECT_EQ(read->node_inputs[0].name, "any");
  EXPECT_EQ(read->node_inputs[0].type, DataType::kInvalid);
  EXPECT_EQ(read->node_inputs[0].shape, (Shape{-1, 7}));
  answer.node_inputs[0].type = static_cast<DataType>(77);
  EXPECT_FALSE(DecodeAnswer(EncodeAnswer(answer)).ok());
}

TEST(NativeAnswer, AnErrorHasItsFault) {
  NativeAnswer answer;
  answer.status = FaultError(Fault::kReshapeError, "no");
  const auto read = DecodeAnswer(EncodeAnswer(answer));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->status, answer.status);
  EXPECT_EQ(read->status.fault(), Fault::kReshapeError);
}

TEST(NativeAnswer, NumbersThatCannotBeAreRefused) {
  const auto refused = [](auto change) {
    NativeAnswer answer = SomeAnswer();
    change(answer.info);
    return !DecodeAnswer(EncodeAnswer(answer)).ok();
  };
  EXPECT_FALSE(refused([](ServableInfo&) {}));
  EXPECT_TRUE(refused([](ServableInfo& info) { info.instance_count = 0; }));
  EXPECT_TRUE(refused([](ServableInfo& info) { info.instance_count = 1025; }));
  EXPECT_TRUE(refused([](ServableInfo& info) { info.inputs[0].type = static_cast<DataType>(16); }));
  EXPECT_TRUE(refused([](ServableInfo& info) { info.outputs[0].type = DataType::kInvalid; }));
  EXPECT_TRUE(refused([](ServableInfo& info) { info.inputs[0].ranges.pop_back(); }));
  EXPECT_TRUE(refused([](ServableInfo& info) { info.stateful->states[0].type = static_cast<DataType>(99); }));
}

TEST(NativeAnswer, RandomChangesAreRefusedOrRead) {
  std::mt19937 random(18);
  const std::string whole = EncodeAnswer(SomeAnswer());
  for (int round = 0; round < 20000; ++round) {
    std::string changed = whole;
    for (int i = 0; i < 3; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    (void)DecodeAnswer(changed);
  }
}

TEST(NativeAnswer, AFaultThatThereIsNotIsNone) {
  EXPECT_EQ(StatusOf(StatusCode::kNotFound, 255, "text"), InternalError("text"));
  EXPECT_TRUE(StatusOf(StatusCode::kOk, 255, "text").ok());
}

}  // namespace
}  // namespace braid
