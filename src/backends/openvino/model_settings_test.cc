// Settings of a config.json: their effects on the model, and the errors for bad ones.
#include <gmock/gmock.h>

#include "backends/openvino/testing/harness.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelSettings : public OpenVinoHarness {
 protected:
  // An image in a batch of one, with two rows, two columns and three channels, in the order of the model or
  // the client.
  std::shared_ptr<ov::Model> ImageModel(const ov::PartialShape& shape, const ov::element::Type& type) {
    return models::Affine(shape, type);
  }
  // Two inputs, added.
  std::shared_ptr<ov::Model> Sum(const ov::PartialShape& shape) {
    auto x = models::Input("x", ov::element::f32, shape);
    auto y = models::Input("y", ov::element::f32, shape);
    auto sum = std::make_shared<ov::opset13::Add>(x, y);
    return std::make_shared<ov::Model>(ov::OutputVector{models::Named("sum", sum->output(0))},
                                       ov::ParameterVector{x, y}, "sum");
  }
  // A product with a matrix of 3 rows, so the last dimension must be 3.
  std::shared_ptr<ov::Model> Matrix(const ov::PartialShape& shape) {
    auto b = models::Input("b", ov::element::f32, shape);
    auto weights = ov::opset13::Constant::create(ov::element::f32, {3, 2}, {1, 2, 3, 4, 5, 6});
    auto product = std::make_shared<ov::opset13::MatMul>(b, weights);
    return std::make_shared<ov::Model>(ov::OutputVector{models::Named("a", product->output(0))},
                                       ov::ParameterVector{b}, "matrix");
  }
  static OvmsShape Fixed(std::initializer_list<int64_t> dimensions) {
    OvmsShape shape;
    for (int64_t dimension : dimensions) shape.dimensions.push_back({dimension, dimension});
    return shape;
  }
};

TEST_F(ModelSettings, BatchSizeFixedRangeAnyAndAuto) {
  Save(models::Affine({1, 3}));
  OvmsModelConfig config = Config();
  const auto infer = [&](const std::shared_ptr<Servable>& model, int64_t rows) {
    return Infer(model, {Floats("b", {rows, 3}, std::vector<float>(static_cast<size_t>(rows) * 3, 1))});
  };
  config.batch_size = OvmsBatchSize{false, {4, 4}};
  auto model = Start(config);
  EXPECT_THAT(Dims(model->info().inputs[0].shape), ElementsAre(4, 3));
  EXPECT_THAT(Dims(infer(model, 4).outputs.at(0).shape), ElementsAre(4, 3));
  Stop(model);

  config.batch_size = OvmsBatchSize{false, {2, 6}};
  model = Start(config);
  EXPECT_THAT(Dims(model->info().inputs[0].shape), ElementsAre(-1, 3));
  ASSERT_EQ(model->info().inputs[0].ranges.size(), 2u);
  EXPECT_EQ(model->info().inputs[0].ranges[0], (DimensionRange{2, 6}));
  EXPECT_EQ(model->info().inputs[0].ranges[1], (DimensionRange{3, 3}));
  EXPECT_THAT(Dims(infer(model, 5).outputs.at(0).shape), ElementsAre(5, 3));
  Stop(model);

  config.batch_size = OvmsBatchSize{false, {0, -1}};
  model = Start(config);
  EXPECT_TRUE(model->info().inputs[0].ranges.empty());
  EXPECT_THAT(Dims(infer(model, 17).outputs.at(0).shape), ElementsAre(17, 3));
  Stop(model);

  config.batch_size = OvmsBatchSize{true, {}};
  model = Start(config);
  EXPECT_THAT(Dims(infer(model, 9).outputs.at(0).shape), ElementsAre(9, 3));
  Stop(model);
}

TEST_F(ModelSettings, ShapeWinsOverBatchSize) {
  Save(models::Affine({1, 3}));
  OvmsModelConfig config = Config();
  config.batch_size = OvmsBatchSize{false, {4, 4}};
  config.shapes[""] = Fixed({2, 5});
  auto model = Start(config);
  EXPECT_THAT(Dims(model->info().inputs[0].shape), ElementsAre(2, 5));
  EXPECT_THAT(Dims(model->info().outputs[0].shape), ElementsAre(2, 5));
  Stop(model);
}

TEST_F(ModelSettings, ShapesByInputWithRanges) {
  Save(Sum({1, 2}));
  OvmsModelConfig config = Config();
  OvmsShape shape;
  shape.dimensions = {{1, 1}, {1, 8}};
  config.shapes = {{"x", shape}, {"y", shape}};
  auto model = Start(config);
  EXPECT_EQ(model->info().inputs[0].ranges[1], (DimensionRange{1, 8}));
  const auto response = Infer(model, {Floats("y", {1, 3}, {1, 2, 3}), Floats("x", {1, 3}, {10, 20, 30})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(ValuesOf<float>(response.outputs[0]), ElementsAre(11, 22, 33));
  Stop(model);

  config.shapes = {{"", shape}};
  EXPECT_THAT(LoadError(config), HasSubstr("shape: the model has 2 inputs, so each must be named: x, y"));
  config.shapes = {{"z", shape}};
  EXPECT_THAT(LoadError(config), HasSubstr("shape: the model has no 'z'; its inputs are: x, y"));
}

TEST_F(ModelSettings, AutoShapeTakesWhatTheModelCanDoAndSaysWhatItCannot) {
  Save(Matrix({1, 3}));
  OvmsModelConfig config = Config();
  config.shapes[""].automatic = true;
  auto model = Start(config);
  EXPECT_THAT(Dims(model->info().inputs[0].shape), ElementsAre(-1, -1));
  const auto good = Infer(model, {Floats("b", {2, 3}, {1, 0, 0, 0, 1, 0})});
  ASSERT_TRUE(good.status.ok()) << good.status;
  EXPECT_THAT(ValuesOf<float>(good.outputs[0]), ElementsAre(1, 2, 3, 4));
  const auto bad = Infer(model, {Floats("b", {1, 4}, {1, 2, 3, 4})});
  EXPECT_EQ(bad.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(bad.status.message(),
              HasSubstr("Invalid input shape - model 'm' cannot take inputs of these shapes: b (1,4): "));
  // The model keeps working.
  EXPECT_TRUE(Infer(model, {Floats("b", {1, 3}, {1, 2, 3})}).status.ok());
  Stop(model);
}

TEST_F(ModelSettings, AShapeThatTheModelCannotHaveIsRefused) {
  Save(Matrix({1, 3}));
  OvmsModelConfig config = Config();
  config.shapes[""] = Fixed({1, 4});
  EXPECT_THAT(LoadError(config),
              HasSubstr("Model could not be reshaped with requested shape - inputs b (1,4): "));
  config.shapes[""] = Fixed({1, 1, 4});
  EXPECT_THAT(LoadError(config), HasSubstr("reshaped with requested shape - inputs b (1,1,4): "));
}

TEST_F(ModelSettings, AShapeOfAnotherRankIsForTheModelToTake) {
  Save(models::Affine({1, 10}));
  OvmsModelConfig config = Config();
  config.shapes[""] = Fixed({3, 2, 1});
  auto model = Start(config);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(Dims(model->info().inputs[0].shape), (std::vector<int64_t>{3, 2, 1}));
  const auto response = Infer(model, {Floats("b", {3, 2, 1}, {1, 2, 3, 4, 5, 6})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(Dims(response.outputs.at(0).shape), (std::vector<int64_t>{3, 2, 1}));
  EXPECT_EQ(ValuesOf<float>(response.outputs[0]), (std::vector<float>{3, 5, 7, 9, 11, 13}));
  Stop(model);
}

TEST_F(ModelSettings, PropertiesOfDevicesAndOldNamesAreTaken) {
  Save(models::Affine({1, 3}));
  OvmsModelConfig config = Config();
  const auto streams = [&] {
    auto loaded = Load(config);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? loaded->info.stream_count : -1;
  };
  config.plugin_config = {{"DEVICE_PROPERTIES", "{CPU:{NUM_STREAMS:2}}"}};
  EXPECT_EQ(streams(), 2);
  config.plugin_config = {{"CPU_THROUGHPUT_STREAMS", int64_t{2}}, {"CPU_THREADS_NUM", "2"}};
  EXPECT_EQ(streams(), 2);
  config.plugin_config = {{"CPU_THROUGHPUT_STREAMS", "CPU_THROUGHPUT_AUTO"}};
  EXPECT_GT(streams(), 0);
}

TEST_F(ModelSettings, LayoutOfTheClientAndOfTheModel) {
  // The model adds nothing to channel 0 of NCHW, 1 to channel 1 and 2 to channel 2.
  auto b = models::Input("b", ov::element::f32, ov::PartialShape{1, 3, 1, 2});
  auto add = std::make_shared<ov::opset13::Add>(
      b, ov::opset13::Constant::create(ov::element::f32, {1, 3, 1, 1}, {0, 100, 200}));
  Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("a", add->output(0))},
                                   ov::ParameterVector{b}));
  OvmsModelConfig config = Config();
  config.layouts["b"] = {"NHWC", "NCHW"};
  auto model = Start(config);
  EXPECT_EQ(model->info().inputs[0].layout, "NHWC");
  EXPECT_THAT(Dims(model->info().inputs[0].shape), ElementsAre(1, 1, 2, 3));
  EXPECT_THAT(Dims(model->info().outputs[0].shape), ElementsAre(1, 3, 1, 2));
  auto response = Infer(model, {Floats("b", {1, 1, 2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_THAT(ValuesOf<float>(response.outputs.at(0)), ElementsAre(1, 4, 102, 105, 203, 206));
  Stop(model);

  // Both ends have layouts, and the batch size applies to the client's.
  config.layouts = {{"b", {"NHWC", "NCHW"}}, {"a", {"NHWC", "NCHW"}}};
  config.batch_size = OvmsBatchSize{false, {2, 2}};
  model = Start(config);
  EXPECT_THAT(Dims(model->info().inputs[0].shape), ElementsAre(2, 1, 2, 3));
  EXPECT_THAT(Dims(model->info().outputs[0].shape), ElementsAre(2, 1, 2, 3));
  EXPECT_EQ(model->info().outputs[0].layout, "NHWC");
  Stop(model);

  // A layout alone is a hint.
  config = Config();
  config.layouts[""] = {"NCHW", ""};
  model = Start(config);
  EXPECT_EQ(model->info().inputs[0].layout, "NCHW");
  EXPECT_THAT(Dims(model->info().inputs[0].shape), ElementsAre(1, 3, 1, 2));
  Stop(model);

  config.layouts[""] = {"NHWCD", "NCHW"};
  EXPECT_THAT(LoadError(config), HasSubstr("layout, precision, mean, scale or color_format: "));
}

TEST_F(ModelSettings, PrecisionOfInputsAndOutputs) {
  Save(models::Affine({1, 2}));
  OvmsModelConfig config = Config();
  config.precisions = {{"b", "U8"}, {"a", "I32"}};
  auto model = Start(config);
  EXPECT_EQ(model->info().inputs[0].type, DataType::kUint8);
  EXPECT_EQ(model->info().outputs[0].type, DataType::kInt32);
  const auto response = Infer(model, {MakeTensor<uint8_t>("b", DataType::kUint8, {1, 2}, {3, 200})});
  EXPECT_THAT(ValuesOf<int32_t>(response.outputs.at(0)), ElementsAre(7, 401));
  Stop(model);
  config.precisions = {{"b", "INT3"}};
  EXPECT_THAT(LoadError(config), HasSubstr("precision: 'INT3' is not known"));
}

TEST_F(ModelSettings, MeanScaleAndColors) {
  Save(models::Same({1, 1, 2, 3}, ov::element::f32));
  OvmsModelConfig config = Config();
  config.precisions = {{"in", "U8"}};
  config.mean = {2};
  config.scale = {4};
  const Tensor pixels = MakeTensor<uint8_t>("in", DataType::kUint8, {1, 1, 2, 3}, {2, 4, 6, 10, 12, 14});
  auto model = Start(config);
  EXPECT_THAT(ValuesOf<float>(Infer(model, {pixels}).outputs.at(0)), ElementsAre(0, 0.5F, 1, 2, 2.5F, 3));
  Stop(model);

  config.mean = {1, 2, 3};
  config.scale = {1, 2, 4};
  EXPECT_THAT(LoadError(config), HasSubstr("the layout of input 'in', 'N...', has no channel dimension"));
  config.layouts[""] = {"NHWC", ""};
  model = Start(config);
  EXPECT_THAT(ValuesOf<float>(Infer(model, {pixels}).outputs.at(0)), ElementsAre(1, 1, 0.75F, 9, 5, 2.75F));
  Stop(model);

  config.mean.clear();
  config.scale.clear();
  config.color_format = "RGB:BGR";
  model = Start(config);
  EXPECT_THAT(ValuesOf<float>(Infer(model, {pixels}).outputs.at(0)), ElementsAre(6, 4, 2, 14, 12, 10));
  Stop(model);
  config.color_format = "RGB:CMYK";
  EXPECT_THAT(LoadError(config), HasSubstr("NV12 and I420; got 'RGB:CMYK'"));
}

TEST_F(ModelSettings, NamesOfTensors) {
  auto b = models::Input("b", ov::element::f32, ov::PartialShape{1, 2});
  b->output(0).set_names({"zeta", "beta"});
  auto add = std::make_shared<ov::opset13::Add>(b, models::Number(ov::element::f32, 1));
  Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("a", add->output(0))},
                                   ov::ParameterVector{b}));
  auto model = Start(Config());
  EXPECT_EQ(model->info().inputs[0].name, "beta");
  Stop(model);

  Write(VersionPath() + "/mapping_config.json", R"({"inputs": {"zeta": "in"}, "outputs": {"a": "result"}})");
  OvmsModelConfig config = Config();
  config.shapes["beta"] = Fixed({1, 3});
  model = Start(config);
  EXPECT_EQ(model->info().inputs[0].name, "in");
  EXPECT_EQ(model->info().outputs[0].name, "result");
  const auto response = Infer(model, {Floats("in", {1, 3}, {1, 2, 3})});
  EXPECT_EQ(response.outputs.at(0).name, "result");
  EXPECT_THAT(ValuesOf<float>(response.outputs[0]), ElementsAre(2, 3, 4));
  Stop(model);

  Write(VersionPath() + "/mapping_config.json", R"({"inputs": {"zeta": 1}})");
  EXPECT_THAT(LoadError(config), HasSubstr("mapping_config.json': /inputs/zeta must be a name"));
  Write(VersionPath() + "/mapping_config.json", R"({"input": {}})");
  EXPECT_THAT(LoadError(config), HasSubstr("/input is unknown"));
  Write(VersionPath() + "/mapping_config.json", "{");
  EXPECT_THAT(LoadError(config), HasSubstr("is not a JSON object"));
}

TEST_F(ModelSettings, DevicesPropertiesAndInferRequests) {
  Save(models::Affine({1, 2}));
  OvmsModelConfig config = Config();
  config.nireq = 3;
  config.plugin_config = {{"NUM_STREAMS", int64_t{2}},
                          {"PERFORMANCE_HINT", std::string("THROUGHPUT")},
                          {"ENABLE_CPU_PINNING", false}};
  auto model = Start(config);
  EXPECT_EQ(model->info().instance_count, 3);
  EXPECT_TRUE(Infer(model, {Floats("b", {1, 2}, {1, 2})}).status.ok());
  Stop(model);

  config.nireq = 5000;
  EXPECT_THAT(LoadError(config), HasSubstr("nireq: 5000 infer requests exceed the limit of "));
  config = Config();
  config.target_device = "FPGA";
  EXPECT_THAT(LoadError(config), HasSubstr("Cannot compile model into target device - target_device 'FPGA' "
                                           "not found; available devices: CPU"));
  config = Config();
  config.plugin_config = {{"NO_SUCH_PROPERTY", true}};
  EXPECT_THAT(LoadError(config), HasSubstr("Unsupported property NO_SUCH_PROPERTY by CPU plugin"));
  config = Config();
  config.target_device = "AUTO";
  model = Start(config);
  EXPECT_TRUE(Infer(model, {Floats("b", {1, 2}, {1, 2})}).status.ok());
  Stop(model);
  config = Config();
  config.stateful = true;
  EXPECT_EQ(LoadError(config),
            "model 'm' cannot be stateful: it has no variables (pairs of ReadValue and Assign) that change");
}

TEST_F(ModelSettings, CompiledModelsAreKeptWhereTheCacheIs) {
  Save(models::Affine({1, 2}));
  OpenVinoBackend::Options options;
  options.cache_directory = folder_->path() + "/cache";
  backend_ = OpenVinoBackend::Create(options, log_).value();
  const auto files = [&] {
    return std::filesystem::exists(options.cache_directory)
               ? std::distance(std::filesystem::directory_iterator(options.cache_directory), {})
               : 0;
  };
  OvmsModelConfig config = Config();
  config.allow_cache = false;
  Stop(Start(config));
  EXPECT_EQ(files(), 0);
  config.allow_cache = true;
  Stop(Start(config));
  EXPECT_GT(files(), 0);
  auto model = Start(config);
  EXPECT_THAT(ValuesOf<float>(Infer(model, {Floats("b", {1, 2}, {1, 2})}).outputs.at(0)), ElementsAre(3, 5));
  Stop(model);
}

TEST_F(ModelSettings, AnExtensionThatIsNoneIsRefused) {
  OpenVinoBackend::Options options;
  options.cpu_extension = folder_->path() + "/none.so";
  auto backend = OpenVinoBackend::Create(options, log_);
  ASSERT_FALSE(backend.ok());
  EXPECT_THAT(backend.status().message(), HasSubstr("none.so' cannot be used: "));
}

}  // namespace
}  // namespace braid
