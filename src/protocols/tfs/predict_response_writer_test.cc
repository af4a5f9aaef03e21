#include "protocols/tfs/predict_response_writer.h"

#include <gtest/gtest.h>

#include "protocols/grpc/testing/flatten.h"
#include "tensor/testing/restless_bytes.h"
#include "tensorflow_serving.pb.h"

namespace braid {
namespace {

using tensorflow::TensorProto;
using tensorflow::serving::PredictResponse;

Tensor Number(std::string name, uint64_t value) {
  return {std::move(name), DataType::kUint64, {1}, CopyToHeap(std::as_bytes(std::span(&value, 1)))};
}

PredictResponse Parse(EncodedMessage written) {
  PredictResponse parsed;
  EXPECT_TRUE(parsed.ParseFromString(Flatten(std::move(written))));
  return parsed;
}

PredictResponse Encode(const InferenceResponse& response, const PredictResponseForm& form) {
  auto written = EncodePredictResponse(response, form);
  EXPECT_TRUE(written.ok()) << written.status();
  return Parse(*std::move(written));
}

TEST(PredictResponseWriter, TheIdOfASequenceIsAValue) {
  const uint64_t ids[] = {0, 1, 127, 128, uint64_t{1} << 32, (uint64_t{1} << 63) - 1, ~uint64_t{0}};
  for (uint64_t id : ids) {
    InferenceResponse response;
    response.model_name = "m";
    response.model_version = 3;
    response.outputs = {Number("y", id), Number("sequence_id", id)};
    const PredictResponse answer = Encode(response, {{}, true});
    EXPECT_EQ(answer.model_spec().version().value(), 3);
    ASSERT_EQ(answer.outputs_size(), 2);
    const TensorProto& sequence = answer.outputs().at("sequence_id");
    EXPECT_EQ(sequence.dtype(), tensorflow::DT_UINT64);
    ASSERT_EQ(sequence.tensor_shape().dim_size(), 1);
    EXPECT_EQ(sequence.tensor_shape().dim(0).size(), 1);
    ASSERT_EQ(sequence.uint64_val_size(), 1);
    EXPECT_EQ(sequence.uint64_val(0), id);
    EXPECT_EQ(sequence.tensor_content(), "");
    const TensorProto& other = answer.outputs().at("y");
    EXPECT_EQ(other.uint64_val_size(), 0);
    EXPECT_EQ(other.tensor_content(), response.outputs[0].data.text());
  }
}

TEST(PredictResponseWriter, StringsThatChangeMeanwhileMakeAMessageAllTheSame) {
  constexpr size_t kSize = 5 * 1000;
  InferenceResponse response;
  response.outputs = {{"y", DataType::kBytes, {1}, RestlessBytes(OneElement(kSize), ManyElements(kSize))}};
  for (int i = 0; i < 1000; ++i) {
    // If the data changes during the copy, it may end inside an element.
    if (auto written = EncodePredictResponse(response, {{}, false}); written.ok()) Parse(*std::move(written));
  }
}

TEST(PredictResponseWriter, TheIdOfASequencePassesEveryFilter) {
  InferenceResponse response;
  response.outputs = {Number("y", 1), Number("z", 1), Number("sequence_id", 5)};
  PredictResponse answer = Encode(response, {{"z"}, true});
  EXPECT_EQ(answer.outputs_size(), 2);
  EXPECT_TRUE(answer.outputs().contains("z"));
  EXPECT_EQ(answer.outputs().at("sequence_id").uint64_val(0), 5u);
  answer = Encode(response, {{"sequence_id"}, true});
  EXPECT_EQ(answer.outputs_size(), 1);
  // For other servables it is an ordinary output.
  answer = Encode(response, {{"z"}, false});
  EXPECT_EQ(answer.outputs_size(), 1);
  answer = Encode(response, {{"sequence_id"}, false});
  EXPECT_EQ(answer.outputs().at("sequence_id").tensor_content(), response.outputs[2].data.text());
}

}  // namespace
}  // namespace braid
