#include "sequences/control_inputs.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "model_config.pb.h"

namespace braid {
namespace {

ControlInputs Make(const std::string& controls, int max_batch_size = 2) {
  inference::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'm' max_batch_size: " + std::to_string(max_batch_size) + " sequence_batching { " + controls +
          " }",
      &config));
  return ControlInputs(config);
}
std::string Id(const std::string& type) {
  return "control_input { name: 'ID' control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_" + type +
         " } }";
}

template <class T>
T Value(const Tensor& tensor) {
  T value;
  EXPECT_EQ(tensor.data.size(), sizeof(value));
  std::memcpy(&value, tensor.data.data(), sizeof(value));
  return value;
}

constexpr char kThree[] =
    "control_input { name: 'S' control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 5, 7 ] } }"
    "control_input { name: 'R' control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ -1, 2.5 ] } }"
    "control_input { name: 'E' control { kind: CONTROL_SEQUENCE_END bool_false_true: [ true, false ] } }";

TEST(ControlInputs, CarryTheFlagsInTheValuesThatWereGiven) {
  const ControlInputs controls = Make(kThree);
  std::vector<Tensor> inputs;
  controls.Append({.start = true}, Buffer(), inputs);
  controls.Append({.end = true, .ready = true}, Buffer(), inputs);
  ASSERT_EQ(inputs.size(), 6u);
  EXPECT_EQ(inputs[0].name, "S");
  EXPECT_EQ(inputs[0].type, DataType::kInt32);
  EXPECT_EQ(inputs[0].shape, Shape({1, 1}));
  EXPECT_EQ(Value<int32_t>(inputs[0]), 7);
  EXPECT_EQ(inputs[1].type, DataType::kFp32);
  EXPECT_EQ(Value<float>(inputs[1]), -1.0f);
  EXPECT_EQ(inputs[2].type, DataType::kBool);
  EXPECT_TRUE(Value<bool>(inputs[2]));
  EXPECT_EQ(Value<int32_t>(inputs[3]), 5);
  EXPECT_EQ(Value<float>(inputs[4]), 2.5f);
  EXPECT_FALSE(Value<bool>(inputs[5]));
}

TEST(ControlInputs, HaveNoBatchDimensionWhereTheModelHasNone) {
  std::vector<Tensor> inputs;
  Make(kThree, 0).Append({}, Buffer(), inputs);
  EXPECT_EQ(inputs[0].shape, Shape({1}));
}

TEST(ControlInputs, CarryTheIdInTheTypeThatWasAskedFor) {
  std::vector<Tensor> inputs;
  const ControlInputs wide = Make(Id("UINT64"));
  wide.Append({}, *wide.EncodeId(UINT64_MAX), inputs);
  EXPECT_EQ(Value<uint64_t>(inputs[0]), UINT64_MAX);
  EXPECT_EQ(wide.no_id().size(), 8u);
  const ControlInputs narrow = Make(Id("INT32"));
  narrow.Append({}, *narrow.EncodeId(uint64_t{77}), inputs);
  EXPECT_EQ(inputs[1].type, DataType::kInt32);
  EXPECT_EQ(Value<int32_t>(inputs[1]), 77);
  const ControlInputs text = Make(Id("STRING"));
  EXPECT_EQ(text.EncodeId(std::string("ab"))->text(), std::string_view("\2\0\0\0ab", 6));
  EXPECT_EQ(text.EncodeId(uint64_t{12})->text(), std::string_view("\2\0\0\0"
                                                                  "12",
                                                                  6));
  EXPECT_EQ(text.no_id().text(), std::string_view("\0\0\0\0", 4));
  EXPECT_TRUE(Make("").EncodeId(std::string("ab"))->empty());
}

TEST(ControlInputs, RefuseAnIdThatDoesNotFit) {
  EXPECT_EQ(
      Make(Id("INT64")).EncodeId(uint64_t{1} << 63).status(),
      InvalidArgumentError("sequence id 9223372036854775808 is too large: control input 'ID' of model 'm' "
                           "has data type TYPE_INT64"));
  EXPECT_TRUE(Make(Id("UINT32")).EncodeId(uint64_t{UINT32_MAX}).ok());
  EXPECT_FALSE(Make(Id("UINT32")).EncodeId(uint64_t{1} << 32).ok());
  EXPECT_EQ(
      Make(Id("UINT64")).EncodeId(std::string("x")).status(),
      InvalidArgumentError("sequence id 'x' must be an integer: control input 'ID' of model 'm' has data "
                           "type TYPE_UINT64"));
}

}  // namespace
}  // namespace braid
