// Models of a config.json, run as the server runs them.
#include <gmock/gmock.h>

#include "backends/openvino/compiled_facts.h"
#include "backends/openvino/testing/harness.h"
#include "base/warning_log.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ConfigModel : public OpenVinoHarness {};

TEST_F(ConfigModel, StaticShapesRunInPlace) {
  Save(models::Affine({1, 4}));
  auto model = Start(Config());
  ASSERT_NE(model, nullptr);
  const ServableInfo& info = model->info();
  EXPECT_EQ(info.dialect, Dialect::kOvms);
  EXPECT_EQ(info.platform, "OpenVINO");
  EXPECT_EQ(info.max_batch_size, 0);
  ASSERT_EQ(info.inputs.size(), 1u);
  EXPECT_EQ(info.inputs[0].name, "b");
  EXPECT_EQ(info.inputs[0].type, DataType::kFp32);
  EXPECT_THAT(Dims(info.inputs[0].shape), ElementsAre(1, 4));
  EXPECT_TRUE(info.inputs[0].ranges.empty());
  EXPECT_EQ(info.inputs[0].layout, "N...");
  ASSERT_EQ(info.outputs.size(), 1u);
  EXPECT_EQ(info.outputs[0].name, "a");

  for (int i = 0; i < 50; ++i) {
    const auto x = static_cast<float>(i);
    const InferenceResponse response = Infer(model, {Floats("b", {1, 4}, {x, 1, 2, 3})});
    ASSERT_TRUE(response.status.ok()) << response.status;
    ASSERT_EQ(response.outputs.size(), 1u);
    EXPECT_EQ(response.outputs[0].name, "a");
    EXPECT_THAT(Dims(response.outputs[0].shape), ElementsAre(1, 4));
    EXPECT_THAT(ValuesOf<float>(response.outputs[0]), ElementsAre(2 * x + 1, 3, 5, 7));
  }
  Stop(model);
}

TEST_F(ConfigModel, DynamicShapesGiveEachClientItsOwnMemory) {
  Save(models::Affine({-1, -1}));
  auto model = Start(Config());
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(Dims(model->info().inputs[0].shape), ElementsAre(-1, -1));
  std::vector<InferenceResponse> kept;
  for (int i = 1; i <= 20; ++i) {
    std::vector<float> values(static_cast<size_t>(i) * 2, static_cast<float>(i));
    kept.push_back(Infer(model, {Floats("b", {2, i}, values)}));
  }
  for (int i = 1; i <= 20; ++i) {
    const InferenceResponse& response = kept[static_cast<size_t>(i - 1)];
    ASSERT_TRUE(response.status.ok()) << response.status;
    EXPECT_THAT(Dims(response.outputs[0].shape), ElementsAre(2, i));
    EXPECT_EQ(ValuesOf<float>(response.outputs[0]),
              std::vector<float>(static_cast<size_t>(i) * 2, static_cast<float>(2 * i + 1)));
  }
  Stop(model);
}

// The device itself would treat the memory of the two as one.
TEST_F(ConfigModel, AnOutputMayBeAnInputAsItCame) {
  for (const ov::PartialShape& shape : {ov::PartialShape{2}, ov::PartialShape{-1}}) {
    auto b = models::Input("b", ov::element::f32, shape);
    auto sum = std::make_shared<ov::opset13::Add>(b, models::Number(ov::element::f32, 1));
    auto passed = std::make_shared<ov::opset13::Result>(b);
    auto added = std::make_shared<ov::opset13::Result>(models::Named("a", sum->output(0)));
    Save(std::make_shared<ov::Model>(ov::ResultVector{passed, added}, ov::ParameterVector{b}));
    auto model = Start(Config());
    ASSERT_NE(model, nullptr);
    for (int i = 0; i < 5; ++i) {
      const auto x = static_cast<float>(i);
      const Tensor input = Floats("b", {2}, {x, -x});
      const InferenceResponse response = Infer(model, {input});
      ASSERT_TRUE(response.status.ok()) << response.status;
      EXPECT_THAT(ValuesOf<float>(response.outputs.at(0)), ElementsAre(x, -x));
      EXPECT_THAT(ValuesOf<float>(response.outputs.at(1)), ElementsAre(x + 1, -x + 1));
      EXPECT_THAT(ValuesOf<float>(input), ElementsAre(x, -x));
    }
    Stop(model);
  }
}

// The device itself would read beyond the end of such an input.
TEST_F(ConfigModel, AProductWithAMatrixLooksAtTheNumberOfColumns) {
  auto b = models::Input("b", ov::element::f32, ov::PartialShape{-1, -1, -1});
  auto weights = ov::opset13::Constant::create(ov::element::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  auto product = std::make_shared<ov::opset13::MatMul>(b, weights, false, true);
  Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("a", product->output(0))},
                                   ov::ParameterVector{b}));
  auto model = Start(Config());
  ASSERT_NE(model, nullptr);
  for (int i = 0; i < 3; ++i) {
    const auto good = Infer(model, {Floats("b", {1, 2, 3}, {1, 0, 0, 0, 1, 1})});
    ASSERT_TRUE(good.status.ok()) << good.status;
    EXPECT_THAT(Dims(good.outputs.at(0).shape), ElementsAre(1, 2, 2));
    EXPECT_THAT(ValuesOf<float>(good.outputs[0]), ElementsAre(1, 4, 5, 11));
    for (int64_t columns : {1, 2, 4, 6}) {
      const auto bad =
          Infer(model, {Floats("b", {1, 1, columns}, std::vector<float>(static_cast<size_t>(columns)))});
      EXPECT_EQ(bad.status.code(), StatusCode::kInvalidArgument) << columns;
    }
  }
  Stop(model);
}

TEST(CompiledFacts, TensorsThatAreComputedInASmallerTypeAreNamedOrRefused) {
  CompiledFacts facts;
  facts.model_name = "m";
  const auto warnings = WarningLog::Create().value();
  const auto check = [&](const std::string& device, bool allowed) {
    return CheckSmallerTypes(facts, device, allowed, warnings->logger());
  };
  const auto add = [](std::vector<CompiledTensor>& tensors, const char* name, DataType type) {
    tensors.emplace_back().name = name;
    tensors.back().type = type;
  };
  add(facts.inputs, "x", DataType::kFp32);
  EXPECT_TRUE(check("CPU", false).ok());
  add(facts.inputs, "ids", DataType::kInt64);
  add(facts.outputs, "sum", DataType::kFp64);
  EXPECT_TRUE(check("GPU.0", false).ok());
  EXPECT_THAT(warnings->Take(), IsEmpty());
  const std::string text =
      "model 'm': OpenVINO's CPU device computes in a smaller type: INT64 'ids' in INT32, FP64 'sum' in FP32";
  EXPECT_TRUE(check("CPU", true).ok());
  EXPECT_THAT(warnings->Take(), ElementsAre(text));
  const Status refused = check("CPU", false);
  EXPECT_EQ(refused.code(), StatusCode::kUnsupported);
  EXPECT_EQ(refused.message(), text + "; the server was started with --allow-smaller-types=false");
}

}  // namespace
}  // namespace braid
