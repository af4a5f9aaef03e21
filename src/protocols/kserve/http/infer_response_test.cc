#include "protocols/kserve/http/infer_response.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace braid {
namespace {

template <class T>
Tensor Make(std::string name, DataType type, Shape shape, const std::vector<T>& values) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = type;
  tensor.shape = std::move(shape);
  tensor.data = CopyToHeap(std::as_bytes(std::span(values)));
  return tensor;
}

Tensor Strings(std::string name, const std::vector<std::string>& strings) {
  std::vector<char> bytes;
  for (const std::string& text : strings) {
    const auto length = static_cast<uint32_t>(text.size());
    const char* raw = reinterpret_cast<const char*>(&length);
    bytes.insert(bytes.end(), raw, raw + 4);
    bytes.insert(bytes.end(), text.begin(), text.end());
  }
  return Make(std::move(name), DataType::kBytes, {static_cast<int64_t>(strings.size())}, bytes);
}

InferenceResponse Response(std::vector<Tensor> outputs) {
  InferenceResponse response;
  response.model_name = "m";
  response.model_version = 3;
  response.outputs = std::move(outputs);
  return response;
}

TEST(WriteInferResponse, KeepsTheOrderOfFields) {
  InferenceResponse response = Response({Make<int32_t>("A", DataType::kInt32, {1, 2}, {-1, 2})});
  response.parameters = {{"p", int64_t{1}}, {"q", std::string("x\"")}, {"r", true}, {"s", 0.5}};
  auto written = WriteInferResponse("id-1", std::move(response), {});
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(written->content_type, "application/json");
  EXPECT_TRUE(written->headers.empty());
  EXPECT_EQ(
      written->body,
      R"({"id":"id-1","model_name":"m","model_version":"3","parameters":{"p":1,"q":"x\"","r":true,"s":0.5},)"
      R"("outputs":[{"name":"A","datatype":"INT32","shape":[1,2],"data":[-1,2]}]})");
}

TEST(WriteInferResponse, MixesBinaryAndJson) {
  HttpOutputFormat format;
  format.binary_default = true;
  format.plan.asked_outputs.push_back({.name = "J"});
  Tensor binary = Make<float>("B", DataType::kFp32, {2}, {1, 2});
  const std::byte* memory = binary.data.data();
  auto written = WriteInferResponse("", Response({binary, Strings("J", {"a\n", "\xff"}), binary}), format);
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(written->content_type, "application/octet-stream");
  EXPECT_EQ(written->body,
            "{\"model_name\":\"m\",\"model_version\":\"3\",\"outputs\":["
            "{\"name\":\"B\",\"datatype\":\"FP32\",\"shape\":[2],\"parameters\":{\"binary_data_size\":8}},"
            "{\"name\":\"J\",\"datatype\":\"BYTES\",\"shape\":[2],\"data\":[\"a\\n\",\"\xff\"]},"
            "{\"name\":\"B\",\"datatype\":\"FP32\",\"shape\":[2],\"parameters\":{\"binary_data_size\":8}}]}");
  ASSERT_EQ(written->headers.size(), 1u);
  EXPECT_EQ(written->headers[0].second, std::to_string(written->body.size()));
  ASSERT_EQ(written->tail.size(), 2u);
  EXPECT_EQ(written->tail[0].data(), memory);
}

TEST(WriteInferResponse, RefusesWhatJsonCannotCarry) {
  EXPECT_EQ(WriteInferResponse("", Response({Make<uint16_t>("H", DataType::kFp16, {1}, {0})}), {})
                .status()
                .message(),
            "sending FP16 data via JSON is not supported. Please use the binary data format for output");
  Tensor broken = Strings("S", {"abc"});
  broken.data = broken.data.Slice(0, 6);
  EXPECT_EQ(WriteInferResponse("", Response({broken}), {}).status().code(), StatusCode::kInternal);
}

TEST(WriteInferResponse, ClassifiesWhenAsked) {
  HttpOutputFormat format;
  OutputRequest choice;
  choice.name = "A";
  choice.classes = 1;
  choice.spec.name = "A";
  choice.spec.labels = {"cat", "dog"};
  format.plan.asked_outputs.push_back(choice);
  InferenceResponse response = Response({Make<float>("A", DataType::kFp32, {2}, {1, 2})});
  ASSERT_TRUE(format.plan.Apply(response.outputs).ok());
  auto written = WriteInferResponse("", response, format);
  ASSERT_TRUE(written.ok());
  EXPECT_NE(written->body.find(R"("datatype":"BYTES","shape":[1],"data":["2.000000:1:dog"])"),
            std::string::npos);
}

}  // namespace
}  // namespace braid
