// Tensors of every type, through a model and back.
#include "backends/openvino/element_types.h"

#include <gmock/gmock.h>

#include "backends/openvino/testing/harness.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ElementTypes : public OpenVinoHarness {
 protected:
  void ExpectSame(DataType type, const std::string& bytes, int64_t elements) {
    SCOPED_TRACE(WireName(type));
    const std::string name(WireName(type));
    Save(models::Same({-1}, ToElementType(type)), name);
    auto model = Start(Config(name));
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->info().inputs[0].type, type);
    EXPECT_EQ(model->info().outputs[0].type, type);
    const auto response =
        Infer(model, {MakeTensor("in", type, {elements}, std::vector<char>(bytes.begin(), bytes.end()))});
    ASSERT_TRUE(response.status.ok()) << response.status;
    EXPECT_EQ(response.outputs.at(0).data.text(), bytes);
    Stop(model);
  }
};

TEST_F(ElementTypes, EveryTypeComesBackAsItWent) {
  for (DataType type : {DataType::kUint8, DataType::kUint16, DataType::kUint32, DataType::kUint64,
                        DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64}) {
    std::string bytes;
    for (size_t i = 0; i < 5; ++i) {
      std::string element(ElementSize(type), '\0');
      element[0] = static_cast<char>(i + 1);
      bytes += element;
    }
    ExpectSame(type, bytes, 5);
  }
  ExpectSame(DataType::kBool, std::string("\1\0\1", 3), 3);
  const float floats[] = {1.5F, -2, 1e30F};
  ExpectSame(DataType::kFp32, {reinterpret_cast<const char*>(floats), sizeof(floats)}, 3);
  const double doubles[] = {1.5, -2};
  ExpectSame(DataType::kFp64, {reinterpret_cast<const char*>(doubles), sizeof(doubles)}, 2);
  const uint16_t halves[] = {0x3E00, 0xC000};  // 1.5 and -2
  ExpectSame(DataType::kFp16, {reinterpret_cast<const char*>(halves), sizeof(halves)}, 2);
  const uint16_t brains[] = {0x3FC0, 0xC000};
  ExpectSame(DataType::kBf16, {reinterpret_cast<const char*>(brains), sizeof(brains)}, 2);
}

TEST_F(ElementTypes, StringsAreConvertedToTheWireFormAndBack) {
  Save(models::Same({-1, 2}, ov::element::string));
  auto model = Start(Config());
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->info().inputs[0].type, DataType::kBytes);
  const std::vector<std::string> texts = {"", "one", std::string("a\0b", 3), std::string(1000, 'x')};
  const Tensor input = Strings("in", {2, 2}, texts);
  const auto response = Infer(model, {input});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(Dims(response.outputs.at(0).shape), ElementsAre(4));
  EXPECT_EQ(response.outputs[0].data.text(), input.data.text());
  Stop(model);
}

TEST_F(ElementTypes, EmptyTensorsAreTensors) {
  Save(models::Affine({-1, 2}));
  auto model = Start(Config());
  const auto response = Infer(model, {Floats("b", {0, 2}, {})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(Dims(response.outputs.at(0).shape), ElementsAre(0, 2));
  EXPECT_TRUE(response.outputs[0].data.empty());
  EXPECT_THAT(ValuesOf<float>(Infer(model, {Floats("b", {1, 2}, {1, 2})}).outputs.at(0)), ElementsAre(3, 5));
  Stop(model);
}

TEST_F(ElementTypes, TypesOfLessThanAByteAreRefused) {
  Save(models::Same({4}, ov::element::i4));
  EXPECT_EQ(Load(Config()).status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(LoadError(Config()),
              HasSubstr("tensor 'in' of model 'm' is of type i4, which no protocol supports"));
}

TEST(ElementTypeByName, KnowsBothSpellings) {
  EXPECT_EQ(ElementTypeByName("fp32"), ov::element::f32);
  EXPECT_EQ(ElementTypeByName("INT8"), ov::element::i8);
  EXPECT_EQ(ElementTypeByName("I8"), ov::element::i8);
  EXPECT_EQ(ElementTypeByName("Q8"), std::nullopt);
}

}  // namespace
}  // namespace braid
