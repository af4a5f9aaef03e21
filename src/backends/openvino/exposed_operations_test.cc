// Which models a request could crash by the positions that it gives.
#include "backends/openvino/exposed_operations.h"

#include <gmock/gmock.h>
#include <openvino/opsets/opset15.hpp>

#include "backends/openvino/testing/harness.h"

namespace braid {
namespace {

namespace ops = ov::opset15;
using Output = ov::Output<ov::Node>;

Output Integers(const ov::Shape& shape, const std::vector<int64_t>& values) {
  return ops::Constant::create(ov::element::i64, shape, values)->output(0);
}

std::string Exposed(const std::shared_ptr<ov::Node>& last, const ov::ParameterVector& inputs) {
  last->set_friendly_name("last");
  return FindExposed(ov::Model(ov::OutputVector{last->output(0)}, inputs, "m"));
}

TEST(ExposedOperations, PositionsOfARequestAreFound) {
  const auto at = models::Input("at", ov::element::i64, {-1, 1});
  const Output data = ops::Constant::create(ov::element::f32, {4}, {0, 1, 2, 3});
  EXPECT_EQ(Exposed(std::make_shared<ops::GatherND>(data, at), {at}), "GatherND 'last'");
  const auto turned = std::make_shared<ops::Add>(at, Integers({}, {1}));
  EXPECT_EQ(Exposed(std::make_shared<ops::GatherND>(data, turned), {at}), "GatherND 'last'");
  const auto flat = std::make_shared<ops::Reshape>(at, Integers({1}, {-1}), false);
  const auto values = std::make_shared<ops::Convert>(flat, ov::element::f32);
  EXPECT_EQ(
      Exposed(std::make_shared<ops::ScatterElementsUpdate>(data, flat, values, Integers({}, {0})), {at}),
      "ScatterElementsUpdate 'last'");
  EXPECT_EQ(Exposed(std::make_shared<ops::Tile>(data, flat), {at}), "Tile 'last'");
  EXPECT_EQ(Exposed(std::make_shared<ops::Roll>(data, Integers({1}, {1}), flat), {at}), "Roll 'last'");
}

TEST(ExposedOperations, PositionsThatTheModelFindsAreGood) {
  const auto b = models::Input("b", ov::element::f32, {-1});
  const auto found = std::make_shared<ops::NonZero>(b);
  const auto places = std::make_shared<ops::Transpose>(found, Integers({2}, {1, 0}));
  EXPECT_EQ(Exposed(std::make_shared<ops::GatherND>(b, places), {b}), "");
  EXPECT_EQ(Exposed(std::make_shared<ops::GatherND>(b, Integers({1, 1}, {0})), {b}), "");
  EXPECT_EQ(Exposed(std::make_shared<ops::Tile>(b, std::make_shared<ops::ShapeOf>(b)), {b}), "");
  const auto best = std::make_shared<ops::TopK>(b, Integers({}, {1}), 0, "max", "value");
  const auto column = std::make_shared<ops::Unsqueeze>(best->output(1), Integers({1}, {1}));
  EXPECT_EQ(Exposed(std::make_shared<ops::GatherND>(b, column), {b}), "");
  // The device checks these positions itself.
  const auto at = models::Input("at", ov::element::i64, {-1});
  EXPECT_EQ(Exposed(std::make_shared<ops::Gather>(b, at, Integers({}, {0})), {b, at}), "");
}

}  // namespace
}  // namespace braid
