#include "protocols/tfs/rest_sequence_inputs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace braid {
namespace {

using simdjson::dom::element;

class RestSequenceInputs : public testing::Test {
 protected:
  element Parse(const std::string& json) { return parser_.parse(json).value(); }
  Result<SequenceInput> Column(const std::string& json) {
    return ReadSequenceColumn("sequence_id", Parse(json));
  }
  // `json` is an array with the values of the instances.
  Result<SequenceInput> Rows(const std::string& json) {
    std::vector<element> values;
    const simdjson::dom::array array = Parse(json).get_array().value();
    for (element value : array) values.push_back(value);
    return ReadSequenceRows("sequence_id", values);
  }

  simdjson::dom::parser parser_;
};

void ExpectInput(const Result<SequenceInput>& input, const Shape& shape, std::optional<uint64_t> value) {
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_TRUE(input->has_shape);
  EXPECT_EQ(input->shape, shape);
  EXPECT_EQ(input->value, value);
}

TEST_F(RestSequenceInputs, AColumnIsAnArrayOfOneNumber) {
  ExpectInput(Column("[10]"), {1}, 10);
  ExpectInput(Column("[0]"), {1}, 0);
  ExpectInput(Column("[18446744073709551615]"), {1}, ~uint64_t{0});
  ExpectInput(Column("[1, 2]"), {2}, std::nullopt);
  ExpectInput(Column("[]"), {0}, std::nullopt);
  const auto bare = Column("7");
  ASSERT_TRUE(bare.ok());
  EXPECT_FALSE(bare->has_shape);
}

TEST_F(RestSequenceInputs, OnlyNonNegativeIntegersAreNumbers) {
  const std::string fault = " - expected a non-negative integer; input name: sequence_id";
  for (const char* value : {"\"1\"", "1.0", "1e3", "-1", "null", "true", "{}", "[1]", "[]", "[[1]]"}) {
    const std::string array = std::string("[").append(value).append("]");
    const std::string late = std::string("[1, ").append(value).append("]");
    const std::string text = "Could not parse input content. Not valid ndarray detected" + fault;
    EXPECT_EQ(Column(array).status().message(), text) << value;
    EXPECT_EQ(Column(late).status().message(), text) << value;
    if (value[0] != '[') {
      EXPECT_EQ(Column(value).status().message(), text) << value;
      EXPECT_EQ(Rows(array).status().message(),
                "Could not parse instance content. Not valid ndarray detected" + fault)
          << value;
    }
  }
  EXPECT_EQ(Rows("[[1.5]]").status().message(),
            "Could not parse instance content. Not valid ndarray detected" + fault);
}

TEST_F(RestSequenceInputs, InstancesShareOneNumber) {
  ExpectInput(Rows("[10]"), {1}, 10);
  ExpectInput(Rows("[10, 10, 10]"), {1}, 10);
  const Status status = Rows("[10, 10, 11]").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "all instances of a request must have the same sequence_id: it is 10 in the first and 11 in "
            "instance 3");
}

TEST_F(RestSequenceInputs, AnArrayInAnInstanceIsADimensionTooMany) {
  const auto one = Rows("[[10]]");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->shape, (Shape{1, 1}));
  const auto mixed = Rows("[10, [10, 11]]");
  ASSERT_TRUE(mixed.ok());
  EXPECT_EQ(mixed->shape, (Shape{2, 2}));
}

}  // namespace
}  // namespace braid
