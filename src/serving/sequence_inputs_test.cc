#include "serving/sequence_inputs.h"

#include <gtest/gtest.h>

#include <cstring>

namespace braid {
namespace {

SequenceInput Number(uint64_t value) { return {true, {1}, value}; }

Tensor Input(std::string_view name, DataType type, uint64_t value) {
  Tensor tensor{std::string(name), type, {1}, {}};
  tensor.data = CopyToHeap({reinterpret_cast<const std::byte*>(&value), ElementSize(type)});
  return tensor;
}

TEST(NameSequenceTest, TakesIdAndControl) {
  InferenceRequest request;
  ASSERT_TRUE(NameSequence(Number(7), Number(2), request).ok());
  EXPECT_EQ(request.correlation_id, CorrelationId(uint64_t{7}));
  EXPECT_FALSE(request.sequence_start);
  EXPECT_TRUE(request.sequence_end);
  EXPECT_EQ(request.sequence_inputs, 2);
}

TEST(NameSequenceTest, StartNeedsNoId) {
  InferenceRequest request;
  ASSERT_TRUE(NameSequence(std::nullopt, Number(1), request).ok());
  EXPECT_TRUE(request.sequence_start);
  EXPECT_EQ(request.correlation_id, CorrelationId(uint64_t{0}));
}

struct Case {
  std::optional<SequenceInput> id;
  std::optional<SequenceInput> control;
  StatusCode code;
  std::string text;
};

TEST(NameSequenceTest, FaultsInTheirOrder) {
  const std::string id_shape = "Required shape for sequence_id is: (1)";
  const std::string control_shape = "Required shape for sequence_control_input is: (1)";
  const SequenceInput no_shape{false, {}, 1};
  const SequenceInput matrix{true, {1, 1}, 1};
  const SequenceInput two{true, {2}, std::nullopt};
  const SequenceInput elsewhere{true, {1}, std::nullopt};
  const auto bad = StatusCode::kInvalidArgument;
  const Case cases[] = {
      {no_shape, matrix, bad, "Special input proto does not contain tensor shape information"},
      {matrix, no_shape, bad, "Invalid number of shape dimensions - " + id_shape},
      {two, no_shape, bad, "Invalid input shape - " + id_shape},
      {elsewhere, no_shape, bad, "Could not find sequence id in expected tensor proto field uint64_val"},
      {Number(1), no_shape, bad, "Special input proto does not contain tensor shape information"},
      {Number(0), matrix, bad, "Invalid number of shape dimensions - " + control_shape},
      {Number(0), two, bad, "Invalid input shape - " + control_shape},
      {Number(0), elsewhere, bad,
       "Could not find sequence control input in expected tensor proto field uint32_val"},
      {Number(0), Number(3), bad, "Unexpected value of sequence control input"},
      {Number(0), Number(2), bad, "Sequence ID has not been provided in request inputs"},
      {std::nullopt, std::nullopt, bad, "Sequence ID has not been provided in request inputs"},
  };
  for (const Case& one : cases) {
    InferenceRequest request;
    const Status status = NameSequence(one.id, one.control, request);
    EXPECT_EQ(status.code(), one.code);
    EXPECT_EQ(status.message(), one.text);
  }
}

TEST(NameSequenceTest, InputsAndParametersMustAgree) {
  InferenceRequest request;
  request.correlation_id = uint64_t{5};
  request.sequence_start = true;
  EXPECT_TRUE(NameSequence(Number(5), Number(1), request).ok());
  EXPECT_TRUE(NameSequence(Number(0), Number(0), request).ok());
  EXPECT_EQ(NameSequence(Number(6), std::nullopt, request).message(),
            "the request names two sequences: '6' by its inputs and '5' by its parameters");
  EXPECT_EQ(NameSequence(Number(5), Number(2), request).message(),
            "sequence_control_input contradicts the parameters sequence_start and sequence_end");
}

TEST(NameSequenceTest, TheHeaderIsAsGoodAsAnId) {
  InferenceRequest request;
  ASSERT_TRUE(NameSequence(std::nullopt, Number(2), "8", false, request).ok());
  EXPECT_EQ(request.correlation_id, CorrelationId(uint64_t{8}));
  EXPECT_TRUE(request.sequence_end);
  ASSERT_TRUE(NameSequence(Number(8), std::nullopt, "008", false, request).ok());
  EXPECT_EQ(NameSequence(Number(8), std::nullopt, "9", false, request).message(),
            "the request names two sequences: '9' by its header braid-sequence-id and '8' by its body");
  // A fault of the inputs is reported before a conflict with the header, and a missing name after it.
  EXPECT_EQ(NameSequence(Number(8), Number(3), "9", false, request).message(),
            "Unexpected value of sequence control input");
  InferenceRequest none;
  EXPECT_EQ(NameSequence(std::nullopt, std::nullopt, "0", false, none).message(),
            "Sequence ID has not been provided in request inputs");
}

TEST(NameSequenceTest, TextsAreNoNames) {
  InferenceRequest request;
  const std::string text = "a sequence of a stateful model needs a numeric id, not 'abc'";
  EXPECT_EQ(NameSequence(std::nullopt, std::nullopt, "abc", false, request).message(), text);
  EXPECT_EQ(NameSequence(std::nullopt, Number(1), request).message(), text);
  request.correlation_id = std::string(127, 'x') + "\u00e4\u00f6";
  EXPECT_EQ(NameSequence(std::nullopt, Number(1), request).message(),
            text.substr(0, text.find("abc")) + std::string(127, 'x') + "...'");
  InferenceRequest empty;
  empty.correlation_id = std::string();
  ASSERT_TRUE(NameSequence(std::nullopt, Number(1), empty).ok());
  EXPECT_EQ(empty.correlation_id, CorrelationId(uint64_t{0}));
}

TEST(TakeSequenceInputsTest, TakesTensorsOut) {
  InferenceRequest request;
  request.inputs = {Input("x", DataType::kFp32, 0), Input("sequence_id", DataType::kUint64, 9),
                    Input("sequence_control_input", DataType::kUint32, 1)};
  ASSERT_TRUE(TakeSequenceInputs(request).ok());
  ASSERT_EQ(request.inputs.size(), 1u);
  EXPECT_EQ(request.inputs[0].name, "x");
  EXPECT_EQ(request.correlation_id, CorrelationId(uint64_t{9}));
  EXPECT_TRUE(request.sequence_start);
  EXPECT_EQ(request.sequence_inputs, 2);
}

TEST(TakeSequenceInputsTest, RefusesOtherTypes) {
  InferenceRequest request;
  request.inputs = {Input("sequence_id", DataType::kInt64, 9)};
  EXPECT_EQ(TakeSequenceInputs(request).message(),
            "Could not find sequence id in expected tensor proto field uint64_val");
}

TEST(TakeSequenceInputsTest, KeepsWhatAProtocolHasRead) {
  InferenceRequest request;
  ASSERT_TRUE(NameSequence(Number(3), Number(2), request).ok());
  ASSERT_TRUE(TakeSequenceInputs(request).ok());
  EXPECT_EQ(request.sequence_inputs, 2);
  EXPECT_TRUE(request.sequence_end);
}

TEST(NameSequenceByHeaderTest, SetsOrCompares) {
  InferenceRequest request;
  ASSERT_TRUE(NameSequenceByHeader("", false, request).ok());
  EXPECT_EQ(request.correlation_id, CorrelationId(uint64_t{0}));
  ASSERT_TRUE(NameSequenceByHeader("12", false, request).ok());
  EXPECT_EQ(request.correlation_id, CorrelationId(uint64_t{12}));
  ASSERT_TRUE(NameSequenceByHeader("12", false, request).ok());
  EXPECT_EQ(NameSequenceByHeader("13", false, request).message(),
            "the request names two sequences: '13' by its header braid-sequence-id and '12' by its body");
  InferenceRequest text;
  ASSERT_TRUE(NameSequenceByHeader("12", true, text).ok());
  EXPECT_EQ(text.correlation_id, CorrelationId(std::string("12")));
}

}  // namespace
}  // namespace braid
