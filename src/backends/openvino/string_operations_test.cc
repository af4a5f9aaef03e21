// Each operation that takes strings, with numbers of strings that change from request to request.
#include "backends/openvino/string_operations.h"

#include <gmock/gmock.h>
#include <openvino/opsets/opset15.hpp>
#include <openvino/opsets/opset16.hpp>

#include "backends/openvino/testing/triton_harness.h"
#include "serving/faults.h"

namespace braid {
namespace {

using ::testing::HasSubstr;
namespace ops = ov::opset15;
using Output = ov::Output<ov::Node>;
using Change = std::function<ov::OutputVector(const Output&)>;

Output Integers(const std::vector<int64_t>& values) {
  return ops::Constant::create(ov::element::i64, {values.size()}, values)->output(0);
}
Output Integer(int64_t value) { return ops::Constant::create(ov::element::i64, {}, {value})->output(0); }

std::shared_ptr<ov::Model> Changing(const Change& change, const ov::PartialShape& shape = {-1, -1}) {
  auto in = models::Input("in", ov::element::string, shape);
  ov::OutputVector outputs = change(in);
  for (size_t i = 0; i < outputs.size(); ++i) models::Named("out" + std::to_string(i), outputs[i]);
  return std::make_shared<ov::Model>(outputs, ov::ParameterVector{in}, "changing");
}

class StringOperations : public TritonHarness {
 protected:
  using Row = std::vector<std::string>;
  // Short strings are stored inside their string object, long ones outside.
  static std::string Text(size_t row, size_t column) {
    return std::string((row * 7 + column * 5) % 40, static_cast<char>('a' + row % 26));
  }
  // `kept` returns the row and column of the input for each string of output `output`, in order.
  void ExpectMoved(const Change& change, size_t output, const Shape& shape_less_rows,
                   const std::function<std::vector<std::pair<size_t, size_t>>(size_t rows)>& kept) {
    Save(Changing(change));
    OvmsModelConfig config = Config();
    config.nireq = 2;
    auto model = Start(config);
    ASSERT_NE(model, nullptr);
    for (int round = 0; round < 4; ++round) {
      for (const size_t rows : {2, 3, 1, 40, 0, 3, 300, 5}) {
        Row values;
        for (size_t row = 0; row < rows; ++row)
          for (size_t column = 0; column < 3; ++column) values.push_back(Text(row, column));
        const auto response = Infer(model, {Strings("in", {static_cast<int64_t>(rows), 3}, values)});
        ASSERT_TRUE(response.status.ok()) << response.status;
        Row expected;
        for (const auto& [row, column] : kept(rows)) expected.push_back(Text(row, column));
        const Tensor& out = response.outputs.at(output);
        EXPECT_EQ(ElementCount(out.shape), static_cast<int64_t>(expected.size()));
        EXPECT_EQ(ValuesOf<char>(out), ValuesOf<char>(Strings("", {}, expected)));
        if (rows > 0) EXPECT_EQ(Dims(Shape(out.shape.begin() + 1, out.shape.end())), Dims(shape_less_rows));
      }
    }
    Stop(model);
  }
  static std::vector<std::pair<size_t, size_t>> All(size_t rows) { return Columns(rows, {0, 1, 2}); }
  static std::vector<std::pair<size_t, size_t>> Columns(size_t rows, const std::vector<size_t>& columns) {
    std::vector<std::pair<size_t, size_t>> places;
    for (size_t row = 0; row < rows; ++row)
      for (const size_t column : columns) places.emplace_back(row, column);
    return places;
  }
};

TEST_F(StringOperations, ThoseThatCrashAreReplaced) {
  const auto one = [](const std::shared_ptr<ov::Node>& node) { return ov::OutputVector{node->output(0)}; };
  const auto identity = [&](const Output& in) { return one(std::make_shared<ov::op::v16::Identity>(in)); };
  ExpectMoved(identity, 0, {3}, All);
  ExpectMoved([&](const Output& in) { return identity(identity(in)[0]); }, 0, {3}, All);
  const auto middle = [](size_t rows) { return Columns(rows, {1}); };
  ExpectMoved(
      [&](const Output& in) {
        return one(
            std::make_shared<ops::Slice>(in, Integers({1}), Integers({2}), Integers({1}), Integers({1})));
      },
      0, {1}, middle);
  ExpectMoved(
      [&](const Output& in) {
        return one(std::make_shared<ops::StridedSlice>(in, Integers({0, 1}), Integers({0, 2}),
                                                       Integers({1, 1}), std::vector<int64_t>{1, 0},
                                                       std::vector<int64_t>{1, 0}));
      },
      0, {1}, middle);
  const Change split = [](const Output& in) {
    return std::make_shared<ops::Split>(in, Integer(1), 3)->outputs();
  };
  ExpectMoved(split, 1, {1}, middle);
  const Change parts = [](const Output& in) {
    return std::make_shared<ops::VariadicSplit>(in, Integer(1), Integers({1, 2}))->outputs();
  };
  ExpectMoved(parts, 1, {2}, [](size_t rows) { return Columns(rows, {1, 2}); });
}

TEST_F(StringOperations, ThoseThatAreSafeStay) {
  const auto one = [](const std::shared_ptr<ov::Node>& node) { return ov::OutputVector{node->output(0)}; };
  ExpectMoved(
      [&](const Output& in) {
        auto wrapped = std::make_shared<ops::Unsqueeze>(in, Integers({1}));
        return one(std::make_shared<ops::Squeeze>(wrapped, Integers({1})));
      },
      0, {3}, All);
  ExpectMoved(
      [&](const Output& in) { return one(std::make_shared<ops::Reshape>(in, Integers({-1}), false)); }, 0, {},
      All);
  ExpectMoved(
      [&](const Output& in) {
        return one(std::make_shared<ops::Gather>(in, Integers({2, 0}), Integer(1)));
      },
      0, {2},
      [](size_t rows) {
        return Columns(rows, {2, 0});
      });
  ExpectMoved(
      [&](const Output& in) {
        return one(std::make_shared<ops::Concat>(ov::OutputVector{in, in}, 1));
      },
      0, {6},
      [](size_t rows) {
        return Columns(rows, {0, 1, 2, 0, 1, 2});
      });
  ExpectMoved(
      [&](const Output& in) {
        auto turned = std::make_shared<ops::Transpose>(in, Integers({1, 0}));
        return one(std::make_shared<ops::Transpose>(turned, Integers({1, 0})));
      },
      0, {3}, All);
}

TEST_F(StringOperations, NoStringsAreNotThoseOfAnEarlierRequest) {
  const auto one = [](const std::shared_ptr<ov::Node>& node) { return ov::OutputVector{node->output(0)}; };
  ExpectMoved(
      [&](const Output& in) {
        auto bytes = std::make_shared<ops::StringTensorUnpack>(in);
        return one(
            std::make_shared<ops::StringTensorPack>(bytes->output(0), bytes->output(1), bytes->output(2)));
      },
      0, {3}, All);
}

// A client's index beyond the strings reads no other memory.
TEST_F(StringOperations, AnIndexOutOfRangeGivesNoneOfTheStrings) {
  auto in = models::Input("in", ov::element::i64, {-1});
  auto words = ops::Constant::create(ov::element::string, {2}, std::vector<std::string>{"zero", "one"});
  auto word = std::make_shared<ops::Gather>(words, in, Integer(0));
  Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("out", word->output(0))},
                                   ov::ParameterVector{in}, "words"));
  auto model = Start(Config());
  ASSERT_NE(model, nullptr);
  for (const auto& indices : std::vector<std::vector<int64_t>>{{1, 0}, {2}, {-3, 1'000'000}, {}, {1, 1, 1}}) {
    const auto response =
        Infer(model, {MakeTensor("in", DataType::kInt64, {static_cast<int64_t>(indices.size())}, indices)});
    EXPECT_TRUE(response.status.ok()) << response.status;
  }
  Stop(model);
}

TEST_F(StringOperations, AnUnknownOneIsNamed) {
  auto in = models::Input("in", ov::element::string, {-1});
  auto same = std::make_shared<ops::Equal>(in, in);
  same->set_friendly_name("same");
  ov::Model model(ov::OutputVector{same->output(0)}, ov::ParameterVector{in}, "equal");
  EXPECT_EQ(GuardStrings(model), "Equal 'same'");
}

// A branch of a condition is part of the model.
TEST_F(StringOperations, ThoseWithinConditionsAreReplaced) {
  auto in = models::Input("in", ov::element::string, {-1});
  auto flag = models::Input("flag", ov::element::boolean, {});
  const auto body = [](const std::shared_ptr<ops::Parameter>& strings) {
    return std::make_shared<ops::Result>(std::make_shared<ov::op::v16::Identity>(strings));
  };
  auto yes = std::make_shared<ops::Parameter>(ov::element::string, ov::PartialShape{-1});
  auto no = std::make_shared<ops::Parameter>(ov::element::string, ov::PartialShape{-1});
  auto yes_out = body(yes);
  auto no_out = body(no);
  auto choice = std::make_shared<ops::If>(flag);
  choice->set_then_body(std::make_shared<ov::Model>(ov::ResultVector{yes_out}, ov::ParameterVector{yes}));
  choice->set_else_body(std::make_shared<ov::Model>(ov::ResultVector{no_out}, ov::ParameterVector{no}));
  choice->set_input(in, yes, no);
  ov::Model model(ov::OutputVector{choice->set_output(yes_out, no_out)}, ov::ParameterVector{in, flag}, "if");
  EXPECT_EQ(GuardStrings(model), "");
  for (const auto& each : choice->get_functions())
    for (const auto& node : each->get_ordered_ops())
      if (ov::is_type<ov::op::v16::Identity>(node)) EXPECT_EQ(node->get_element_type(), ov::element::i64);
}

}  // namespace
}  // namespace braid
