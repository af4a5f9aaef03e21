// Models of a Triton repository: completing and checking the configuration, and batches.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include "backends/openvino/testing/stateful_models.h"
#include "backends/openvino/testing/triton_harness.h"
#include "sequences/scheduled_model.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using TritonModel = TritonHarness;

TEST_F(TritonModel, IsCompletedFromItsFile) {
  Save(models::Affine({-1, 3}));
  inference::ModelConfig config;
  config.set_name("m");
  config.set_backend("openvino");
  ASSERT_TRUE(backend_->AutoComplete(Location(config), config).ok());
  EXPECT_EQ(config.max_batch_size(), 0);
  ASSERT_EQ(config.input_size(), 1);
  EXPECT_EQ(config.input(0).name(), "b");
  EXPECT_EQ(config.input(0).data_type(), inference::TYPE_FP32);
  EXPECT_THAT(config.input(0).dims(), ElementsAre(-1, 3));
  ASSERT_EQ(config.output_size(), 1);
  EXPECT_THAT(config.output(0).dims(), ElementsAre(-1, 3));

  config.clear_input();
  config.clear_output();
  config.set_max_batch_size(8);
  config.add_output()->set_name("a");
  ASSERT_TRUE(backend_->AutoComplete(Location(config), config).ok());
  EXPECT_THAT(config.input(0).dims(), ElementsAre(3));
  EXPECT_EQ(config.output(0).data_type(), inference::TYPE_FP32);
  EXPECT_THAT(config.output(0).dims(), ElementsAre(3));
}

TEST_F(TritonModel, ATensorWithoutDimensionsOfItsOwnIsReshaped) {
  Save(models::Affine({-1}));
  auto model = Serve("backend: 'openvino' max_batch_size: 4");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(Dims((*model)->info().inputs[0].shape), ElementsAre(-1, 1));
  const auto response = Infer(*model, {Floats("b", {2, 1}, {1, 2})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(Dims(response.outputs.at(0).shape), ElementsAre(2, 1));
  EXPECT_THAT(ValuesOf<float>(response.outputs[0]), ElementsAre(3, 5));
  Stop(*model);
}

TEST_F(TritonModel, RequestsAreBatchedAndTheirAnswersAreSlices) {
  // The file has a batch of one; the configuration allows up to eight.
  Save(models::Affine({1, 2}));
  auto model = Serve(
      "backend: 'openvino' max_batch_size: 8 dynamic_batching { preferred_batch_size: [8] "
      "max_queue_delay_microseconds: 10000000 }");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->info().dialect, Dialect::kTriton);
  WaitingSink sinks[3];
  Send(*model, {Floats("b", {1, 2}, {1, 2})}, sinks[0]);
  Send(*model, {Floats("b", {4, 2}, {3, 4, 5, 6, 7, 8, 9, 10})}, sinks[1]);
  Send(*model, {Floats("b", {3, 2}, {0, 0, 0, 0, 0, 1})}, sinks[2]);
  InferenceResponse responses[] = {sinks[0].Wait(), sinks[1].Wait(), sinks[2].Wait()};
  for (const auto& response : responses) ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(ValuesOf<float>(responses[0].outputs.at(0)), ElementsAre(3, 5));
  EXPECT_THAT(ValuesOf<float>(responses[1].outputs.at(0)), ElementsAre(7, 9, 11, 13, 15, 17, 19, 21));
  EXPECT_THAT(Dims(responses[1].outputs[0].shape), ElementsAre(4, 2));
  EXPECT_THAT(ValuesOf<float>(responses[2].outputs.at(0)), ElementsAre(1, 1, 1, 1, 1, 3));
  EXPECT_EQ((*model)->statistics().Snapshot().execution_count, 1u);
  EXPECT_EQ((*model)->statistics().Snapshot().inference_count, 8u);
  // One execution, one piece of memory.
  EXPECT_EQ(responses[0].outputs[0].data.owner(), responses[2].outputs[0].data.owner());
  Stop(*model);
}

TEST_F(TritonModel, StringsAreBatchedToo) {
  auto in = models::Input("in", ov::element::string, ov::PartialShape{-1, 2});
  auto same = std::make_shared<ov::opset13::Reshape>(
      in, ov::opset13::Constant::create(ov::element::i64, {2}, {-1, 2}), false);
  Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("out", same->output(0))},
                                   ov::ParameterVector{in}));
  auto model = Serve(
      "backend: 'openvino' max_batch_size: 3 dynamic_batching { preferred_batch_size: [3] "
      "max_queue_delay_microseconds: 10000000 }");
  ASSERT_TRUE(model.ok()) << model.status();
  const Tensor one = Strings("in", {1, 2}, {"a", "bc"});
  const Tensor two = Strings("in", {2, 2}, {"", "d", "efg", "h"});
  WaitingSink sinks[2];
  Send(*model, {one}, sinks[0]);
  Send(*model, {two}, sinks[1]);
  EXPECT_EQ(sinks[0].Wait().outputs.at(0).data.text(), one.data.text());
  EXPECT_EQ(sinks[1].Wait().outputs.at(0).data.text(), two.data.text());
  Stop(*model);
}

TEST_F(TritonModel, InstancesAreInferRequestsAndParametersAreProperties) {
  Save(models::Affine({-1, 2}));
  auto model = Serve(
      "backend: 'openvino' instance_group { count: 3 } "
      "parameters { key: 'INFERENCE_NUM_THREADS' value { string_value: '1' } } "
      "parameters { key: 'PERFORMANCE_HINT' value { string_value: 'THROUGHPUT' } }");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->info().instance_count, 3);
  EXPECT_TRUE(Infer(*model, {Floats("b", {1, 2}, {1, 2})}).status.ok());
  Stop(*model);
  EXPECT_THAT(Refusal("backend: 'openvino' parameters { key: 'NO_SUCH' value { string_value: '1' } }"),
              HasSubstr("parameter 'NO_SUCH' is not an OpenVINO property of device CPU; expected one of: "));
  EXPECT_THAT(Refusal("backend: 'openvino' parameters { key: 'NUM_STREAMS' value { string_value: 'many' } }"),
              HasSubstr("Cannot compile model into target device"));
}

TEST_F(TritonModel, ConfigurationsThatAreNotTheModelsAreRefused) {
  Save(models::Affine({-1, 3}));
  const std::string head = "backend: 'openvino' ";
  const std::string output = "output { name: 'a' data_type: TYPE_FP32 dims: [-1, 3] }";
  EXPECT_THAT(Refusal(head + "input { name: 'x' data_type: TYPE_FP32 dims: [3] }"),
              HasSubstr("the model has no input 'x'; its inputs are: b"));
  EXPECT_THAT(Refusal(head + output, false), HasSubstr("the configuration lacks input 'b'"));
  EXPECT_THAT(Refusal(head + "input { name: 'b' data_type: TYPE_INT64 dims: [-1, 3] }"),
              HasSubstr("tensor 'b' is TYPE_INT64 in the configuration and TYPE_FP32 in the model"));
  EXPECT_THAT(Refusal(head + "input { name: 'b' data_type: TYPE_FP32 dims: [-1, 4] }"),
              HasSubstr("tensor 'b' has the shape (-1,4) in the configuration and (-1,3) in the model"));
  EXPECT_THAT(Refusal(head + "input { name: 'b' data_type: TYPE_FP32 dims: [-1, 3] optional: true }"),
              HasSubstr("input 'b' cannot be optional"));
  EXPECT_THAT(Refusal(head + "model_transaction_policy { decoupled: true }"),
              HasSubstr("cannot be decoupled"));
}

TEST_F(TritonModel, AConfigurationThatNamesSomeInputsHasToNameAll) {
  auto a = models::Input("a", ov::element::f32, ov::PartialShape{2});
  auto b = models::Input("b", ov::element::f32, ov::PartialShape{2});
  auto sum = std::make_shared<ov::opset13::Add>(a, b);
  Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("s", sum->output(0))},
                                   ov::ParameterVector{a, b}));
  EXPECT_THAT(Refusal("backend: 'openvino' input { name: 'a' data_type: TYPE_FP32 dims: [2] }"),
              HasSubstr("the configuration lacks input 'b'; the model's inputs are: a, b"));
}

TEST_F(TritonModel, AModelThatCannotTakeBatchesSaysSo) {
  auto b = models::Input("b", ov::element::f32, ov::PartialShape{1, 4});
  auto sum = std::make_shared<ov::opset13::ReduceSum>(
      b, ov::opset13::Constant::create(ov::element::i64, {1}, {0}), true);
  Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("a", sum->output(0))},
                                   ov::ParameterVector{b}));
  EXPECT_THAT(Refusal("backend: 'openvino' max_batch_size: 4"),
              HasSubstr("batches up to 4 need the batch as the first dimension of every tensor; otherwise, "
                        "set max_batch_size to 0"));
}

TEST_F(TritonModel, WhatIsThereInsteadOfTheFileIsNamed) {
  VersionPath();
  EXPECT_THAT(Refusal("backend: 'onnxruntime'"), HasSubstr("model.onnx' is missing; its folder is empty"));
  for (int i = 0; i < 20; ++i) Write(VersionPath() + "/net" + std::to_string(10 + i) + ".onnx", "x");
  EXPECT_THAT(
      Refusal("backend: 'onnxruntime'"),
      HasSubstr("has net10.onnx, net11.onnx, net12.onnx, net13.onnx, net14.onnx, net15.onnx, net16.onnx, "
                "net17.onnx, ...; set default_model_filename to use another file"));
  EXPECT_THAT(Refusal("backend: 'onnxruntime' default_model_filename: 'net.onnx'"),
              HasSubstr("net.onnx' is missing; its folder has net10.onnx"));
}

TEST_F(TritonModel, FilesAreFoundByTheirDefaultNamesOrByTheConfiguration) {
  Save(models::Affine({1, 2}), "m", "other.xml");
  EXPECT_THAT(Refusal("backend: 'openvino'"),
              HasSubstr("model.xml' is missing; its folder has other.bin, other.xml; set "
                        "default_model_filename to use another file"));
  auto model = Serve("backend: 'openvino' default_model_filename: 'other.xml'");
  ASSERT_TRUE(model.ok()) << model.status();
  Stop(*model);
  inference::ModelConfig config;
  config.set_backend("onnxruntime");
  EXPECT_EQ(backend_->DefaultFile(config, VersionPath()), "model.onnx");
  config.set_backend("tensorflow");
  config.set_platform("tensorflow_graphdef");
  EXPECT_EQ(backend_->DefaultFile(config, VersionPath()), "model.graphdef");
  config.set_platform("");
  EXPECT_EQ(backend_->DefaultFile(config, VersionPath()), "model.savedmodel");
  Write(VersionPath() + "/model.graphdef", "");
  EXPECT_EQ(backend_->DefaultFile(config, VersionPath()), "model.graphdef");
  config.set_backend("openvino");
  Write(VersionPath() + "/model.onnx", "");
  EXPECT_EQ(backend_->DefaultFile(config, VersionPath()), "model.onnx");
}

TEST_F(TritonModel, OtherRuntimesAreStoodInForOrRefused) {
  VersionPath();
  for (const char* name : {"onnxruntime", "tensorflow", "tflite", "pytorch", "tensorrt"}) {
    EXPECT_TRUE(backend_->StandsInFor(name)) << name;
  }
  EXPECT_FALSE(backend_->StandsInFor("python"));
  EXPECT_FALSE(backend_->StandsInFor("vllm"));
  EXPECT_THAT(Refusal("backend: 'pytorch'"),
              HasSubstr("TorchScript models are not supported: export the model to ONNX"));
  EXPECT_THAT(Refusal("backend: 'tensorrt'"), HasSubstr("TensorRT plans are not supported"));
}

TEST_F(TritonModel, AnErrorOfTheInferenceIsTritons) {
  // The client gives the shape for the values.
  auto shape = models::Input("shape", ov::element::i64, ov::PartialShape{2});
  auto values_in = models::Input("values", ov::element::f32, ov::PartialShape{-1});
  auto reshape = std::make_shared<ov::opset13::Reshape>(values_in, shape, false);
  Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("out", reshape->output(0))},
                                   ov::ParameterVector{shape, values_in}));
  auto model = Serve("backend: 'openvino'");
  ASSERT_TRUE(model.ok()) << model.status();
  const Tensor values = Floats("values", {2}, {1, 2});
  const auto bad = Infer(*model, {MakeTensor<int64_t>("shape", DataType::kInt64, {2}, {3, 5}), values});
  EXPECT_EQ(bad.status.code(), StatusCode::kInternal);
  EXPECT_THAT(bad.status.message(), HasSubstr("inference of model 'm' failed: "));
  const auto good = Infer(*model, {MakeTensor<int64_t>("shape", DataType::kInt64, {2}, {1, 2}), values});
  ASSERT_TRUE(good.status.ok()) << good.status;
  EXPECT_THAT(ValuesOf<float>(good.outputs.at(0)), ElementsAre(1, 2));
  Stop(*model);
}

// Runs steps of sequences.
class TritonStates : public TritonModel {
 protected:
  Result<std::shared_ptr<InstancePool>> ServeSequences(const std::string& text, bool complete = true) {
    auto config = std::make_shared<inference::ModelConfig>();
    BRAID_ASSIGN_OR_RETURN(*config, ParseConfigText("name: 'm' " + text, "config.pbtxt"));
    const ModelLocation location = Location(*config);
    if (complete) BRAID_RETURN_IF_ERROR(backend_->AutoComplete(location, *config));
    NormalizeConfig(*config);
    BRAID_RETURN_IF_ERROR(ValidateConfig(*config));
    BRAID_ASSIGN_OR_RETURN(Folder folder, Folder::Open(location.model_path));
    BRAID_ASSIGN_OR_RETURN(ServableInfo info, MakeServableInfo(config, 1, folder));
    BRAID_ASSIGN_OR_RETURN(auto model, backend_->Create(location, config));
    return StartModel(std::move(info), std::move(model), timers_, log_, [](const std::string&) {}, {});
  }
  std::string SequenceRefusal(const std::string& text, bool complete = true) {
    auto model = ServeSequences(text, complete);
    if (!model.ok()) return model.status().message();
    Stop(*model);
    return "no error";
  }
  static InferenceResponse Step(const std::shared_ptr<Servable>& model, uint64_t sequence, bool start,
                                std::vector<Tensor> inputs) {
    WaitingSink sink;
    auto request = std::make_unique<InferenceRequest>();
    request->model_name = model->info().name;
    request->correlation_id = sequence;
    request->sequence_start = start;
    request->inputs = std::move(inputs);
    request->sink = &sink;
    request->start_ns = SteadyNowNs();
    request->servable = ServableHandle::Enter(model);
    model->Infer(std::move(request));
    return sink.Wait();
  }
};

TEST_F(TritonStates, VariablesAreStatesOfSequences) {
  Save(models::RunningSum({1, 2}));
  for (const char* batching :
       {"sequence_batching { max_sequence_idle_microseconds: 60000000 oldest { max_candidate_sequences: 4 } "
        "} "
        "max_batch_size: 0",
        "sequence_batching { max_sequence_idle_microseconds: 60000000 } max_batch_size: 4",
        "sequence_batching { max_sequence_idle_microseconds: 60000000 oldest { max_candidate_sequences: 4 } "
        "} max_batch_size: 4"}) {
    auto model = ServeSequences(std::string("backend: 'openvino' ") + batching);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->info().inputs.size(), 1u);
    EXPECT_EQ((*model)->info().outputs.size(), 1u);
    for (int step = 0; step < 4; ++step) {
      for (uint64_t sequence : {uint64_t{1}, uint64_t{2}}) {
        const auto x = static_cast<float>(sequence);
        const auto response = Step(*model, sequence, step == 0, {Floats("in", {1, 2}, {x, 10 * x})});
        ASSERT_TRUE(response.status.ok()) << response.status;
        ASSERT_EQ(response.outputs.size(), 1u);
        const auto times = static_cast<float>(step + 1);
        EXPECT_THAT(ValuesOf<float>(response.outputs[0]), ElementsAre(times * x, times * 10 * x));
      }
    }
    // The sequence begins again.
    const auto response = Step(*model, 1, true, {Floats("in", {1, 2}, {5, 6})});
    ASSERT_TRUE(response.status.ok()) << response.status;
    EXPECT_THAT(ValuesOf<float>(response.outputs.at(0)), ElementsAre(5, 6));
    Stop(*model);
  }
}

// A state may have any shape; a sequence begins with three rows of one zero.
TEST_F(TritonStates, ShapesThatSequencesBeginWithAreFilledIn) {
  Save(models::RunningSum(ov::PartialShape{3, 1}, models::FloatConstant({3, 1}, {0, 0, 0}),
                          ov::PartialShape{-1, -1}));
  auto model =
      ServeSequences("backend: 'openvino' sequence_batching { max_sequence_idle_microseconds: 60000000 }");
  ASSERT_TRUE(model.ok()) << model.status();
  for (int step = 1; step <= 2; ++step) {
    const auto response = Step(*model, 1, step == 1, {Floats("in", {3, 1}, {5, 6, 7})});
    ASSERT_TRUE(response.status.ok()) << response.status;
    EXPECT_THAT(Dims(response.outputs.at(0).shape), ElementsAre(3, 1));
    EXPECT_THAT(ValuesOf<float>(response.outputs.at(0)), ElementsAre(5 * step, 6 * step, 7 * step));
  }
  Stop(*model);
}

TEST_F(TritonStates, WhatSequencesBeginWithMayBeInAFile) {
  Save(models::RunningSum({1, 2}, models::FloatConstant({1, 2}, {3, 4}), {1, 2}));
  const std::string head =
      "backend: 'openvino' sequence_batching { max_sequence_idle_microseconds: 60000000 ";
  EXPECT_EQ(SequenceRefusal(head + "}"),
            "model 'm': its variable 'total' does not start as zeros of shape [1,2]; put its initial value "
            "into a data_file of `initial_state`");
  const float values[] = {3, 4};
  Write(folder_->path() + "/m/initial_state/total",
        std::string_view(reinterpret_cast<const char*>(values), sizeof(values)));
  auto model = ServeSequences(head +
                              "state { input_name: 'total' output_name: 'total' data_type: TYPE_FP32 dims: "
                              "[1, 2] initial_state { name: "
                              "'i' data_type: TYPE_FP32 dims: [1, 2] data_file: 'total' } } }");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto response = Step(*model, 1, true, {Floats("in", {1, 2}, {10, 20})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(ValuesOf<float>(response.outputs.at(0)), ElementsAre(13, 24));
  Stop(*model);
}

TEST_F(TritonStates, VariablesThatNoConfigurationCanSayAreRefused) {
  Save(models::RunningSum({1, 2}));
  const std::string head =
      "backend: 'openvino' sequence_batching { max_sequence_idle_microseconds: 60000000 ";
  const std::string tensors =
      " input { name: 'in' data_type: TYPE_FP32 dims: [1, 2] } output { name: 'sum' data_type: TYPE_FP32 "
      "dims: "
      "[1, 2] }";
  EXPECT_EQ(SequenceRefusal(head + "}" + tensors, false),
            "model 'm': its variable 'total' needs a `state` in sequence_batching with input_name and "
            "output_name 'total'");
  const auto state = [&](const std::string& output, const std::string& rest) {
    return head + "state { input_name: 'total' output_name: '" + output + "' " + rest + " } }" + tensors;
  };
  EXPECT_EQ(SequenceRefusal(state("x", "data_type: TYPE_FP32 dims: [1, 2]"), false),
            "model 'm': its variable 'total' must be both input_name and output_name of its `state`");
  EXPECT_EQ(SequenceRefusal(state("total", "data_type: TYPE_INT32 dims: [1, 2]"), false),
            "model 'm': its variable 'total' is TYPE_FP32, its `state` is TYPE_INT32");
  EXPECT_EQ(SequenceRefusal(state("total", "data_type: TYPE_FP32 dims: [2]"), false),
            "model 'm': its variable 'total' has the dims [1,2], its `state` has [2]");
  EXPECT_EQ(SequenceRefusal(state("total", "data_type: TYPE_FP32 dims: [1, 2]"), false), "no error");
  Save(models::BeginsWithInput());
  EXPECT_THAT(SequenceRefusal(head + "}"), HasSubstr("cannot be kept for sequences: its initial value "));
}

TEST_F(TritonModel, WithoutSequencesAModelWithVariablesBeginsAnewWithEachRequest) {
  Save(models::RunningSum({1, 2}));
  auto model = Serve("backend: 'openvino' max_batch_size: 4");
  ASSERT_TRUE(model.ok()) << model.status();
  for (int i = 0; i < 3; ++i) {
    const auto response = Infer(*model, {Floats("in", {2, 2}, {1, 2, 3, 4})});
    ASSERT_TRUE(response.status.ok()) << response.status;
    EXPECT_THAT(ValuesOf<float>(response.outputs.at(0)), ElementsAre(1, 2, 3, 4));
  }
  Stop(*model);
}

// Processors that compute in BF16 would lose the last digits of these numbers.
TEST_F(TritonModel, NumbersAreComputedInTheTypeOfTheFile) {
  constexpr int64_t kSize = 64;
  auto b = models::Input("b", ov::element::f32, {-1, kSize});
  std::vector<float> ones(kSize * kSize, 1);
  auto weights = ov::opset13::Constant::create(ov::element::f32, {kSize, kSize}, ones);
  auto product = std::make_shared<ov::opset13::MatMul>(b, weights);
  Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("a", product->output(0))},
                                   ov::ParameterVector{b}, "product"));
  for (const char* parameters : {"", "parameters { key: 'HINT_BF16' value { string_value: 'NO' } }"}) {
    auto model = Serve(std::string("backend: 'openvino' ") + parameters);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto response = Infer(*model, {Floats("b", {1, kSize}, std::vector<float>(kSize, 1.0009765625F))});
    ASSERT_TRUE(response.status.ok()) << response.status;
    EXPECT_EQ(ValuesOf<float>(response.outputs.at(0)).at(0), 64.0625F);
    Stop(*model);
  }
}

TEST_F(TritonModel, ParametersOfOtherServersAreTakenOrPassedOver) {
  Save(models::Affine({-1, 3}));
  const auto with = [](const std::string& name, const std::string& value) {
    return "backend: 'openvino' parameters { key: '" + name + "' value { string_value: '" + value + "' } }";
  };
  EXPECT_EQ(Refusal(with("TARGET_DEVICE", "CPU")), "no error");
  EXPECT_THAT(Refusal(with("TARGET_DEVICE", "TOASTER")), HasSubstr("TOASTER"));
  EXPECT_EQ(Refusal(with("HINT_BF16", "YES")), "no error");
  EXPECT_THAT(Refusal(with("HINT_BF16", "maybe")), HasSubstr("is 'maybe', expected \"YES\" or \"NO\""));
  for (const char* name : {"COMPILATION_NUM_THREADS", "ENABLE_BATCH_PADDING", "RESHAPE_IO_LAYERS",
                           "SKIP_OV_DYNAMIC_BATCHSIZE"}) {
    EXPECT_EQ(Refusal(with(name, "YES")), "no error") << name;
  }
  EXPECT_THAT(Refusal(with("CPU_EXTENSION_PATH", "/x.so")), HasSubstr("--cpu_extension"));
  EXPECT_EQ(Refusal("backend: 'onnxruntime' default_model_filename: 'model.xml' "
                    "parameters { key: 'intra_op_thread_count' value { string_value: '2' } }"),
            "no error");
}

}  // namespace
}  // namespace braid
