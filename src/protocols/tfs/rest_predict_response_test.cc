#include "protocols/tfs/rest_predict_response.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

Result<std::string> Write(DataType type, Shape shape, std::string_view bytes) {
  InferenceResponse response;
  response.outputs = {{"y", type, std::move(shape), CopyToHeap(std::as_bytes(std::span(bytes)))}};
  return WriteRestPredictResponse(response, TfsFormat::kColumn, false);
}

TEST(RestPredictResponse, RefusesOutputsThatAreNotWhatTheySay) {
  const std::string_view one("\1\0\0\0a", 5);
  EXPECT_TRUE(Write(DataType::kBytes, {1}, one).ok());
  EXPECT_EQ(Write(DataType::kBytes, {2}, one).status().code(), StatusCode::kInternal);
  EXPECT_EQ(Write(DataType::kBytes, {1}, one.substr(0, 4)).status().code(), StatusCode::kInternal);
  EXPECT_TRUE(Write(DataType::kInt8, {5}, one).ok());
  EXPECT_EQ(Write(DataType::kInt8, {4}, one).status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace braid
