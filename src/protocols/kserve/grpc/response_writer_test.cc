#include "protocols/kserve/grpc/response_writer.h"

#include <gtest/gtest.h>
#include <sys/uio.h>

#include <limits>

#include "grpc_service.pb.h"
#include "protocols/grpc/testing/flatten.h"

namespace braid {
namespace {

Tensor MakeTensor(std::string name, size_t elements) {
  std::vector<float> values(elements);
  for (size_t i = 0; i < elements; ++i) values[i] = static_cast<float>(i);
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = DataType::kFp32;
  tensor.shape = {1, static_cast<int64_t>(elements)};
  tensor.data = CopyToHeap(std::as_bytes(std::span(values)));
  return tensor;
}

InferenceResponse MakeResponse(std::initializer_list<size_t> sizes) {
  InferenceResponse response;
  response.model_name = "model";
  response.model_version = 3;
  size_t index = 0;
  for (size_t size : sizes) response.outputs.push_back(MakeTensor("OUTPUT" + std::to_string(index++), size));
  return response;
}

void ExpectOutputs(const InferenceResponse& response, const inference::ModelInferResponse& message) {
  EXPECT_EQ(message.model_name(), response.model_name);
  EXPECT_EQ(message.model_version(), std::to_string(response.model_version));
  ASSERT_EQ(static_cast<size_t>(message.outputs_size()), response.outputs.size());
  ASSERT_EQ(static_cast<size_t>(message.raw_output_contents_size()), response.outputs.size());
  for (int i = 0; i < message.outputs_size(); ++i) {
    const Tensor& tensor = response.outputs[static_cast<size_t>(i)];
    EXPECT_EQ(message.outputs(i).name(), tensor.name);
    EXPECT_EQ(message.outputs(i).datatype(), WireName(tensor.type));
    EXPECT_TRUE(std::equal(message.outputs(i).shape().begin(), message.outputs(i).shape().end(),
                           tensor.shape.begin(), tensor.shape.end()));
    EXPECT_EQ(message.raw_output_contents(i), tensor.data.text());
  }
}

TEST(GrpcResponseWriter, WritesWhatProtobufReads) {
  for (auto sizes :
       {std::initializer_list<size_t>{}, {0}, {1}, {1023}, {1024}, {4, 5000, 3}, {100000, 1, 70000}}) {
    InferenceResponse response = MakeResponse(sizes);
    inference::ModelInferResponse message;
    ASSERT_TRUE(message.ParseFromString(Flatten(EncodeUnaryResponse("id-1", response))));
    EXPECT_EQ(message.id(), "id-1");
    EXPECT_EQ(message.parameters_size(), 0);
    ExpectOutputs(response, message);

    inference::ModelStreamInferResponse stream;
    ASSERT_TRUE(stream.ParseFromString(Flatten(EncodeStreamResponse("", response, true))));
    EXPECT_EQ(stream.error_message(), "");
    EXPECT_EQ(stream.infer_response().id(), "");
    EXPECT_TRUE(stream.infer_response().parameters().at("triton_final_response").bool_param());
    ExpectOutputs(response, stream.infer_response());
  }
}

TEST(GrpcResponseWriter, WritesScalarsAndNegativeDimensions) {
  InferenceResponse response = MakeResponse({1});
  response.outputs[0].shape = {};
  inference::ModelInferResponse message;
  ASSERT_TRUE(message.ParseFromString(Flatten(EncodeUnaryResponse("", response))));
  EXPECT_EQ(message.outputs(0).shape_size(), 0);
  response.outputs[0].shape = {-1, 300};
  ASSERT_TRUE(message.ParseFromString(Flatten(EncodeUnaryResponse("", response))));
  EXPECT_EQ(message.outputs(0).shape(0), -1);
  EXPECT_EQ(message.outputs(0).shape(1), 300);
}

TEST(GrpcResponseWriter, WritesParametersOfEveryType) {
  InferenceResponse response = MakeResponse({});
  response.parameters = {{"bool", false},
                         {"int", std::numeric_limits<int64_t>::min()},
                         {"unsigned", std::numeric_limits<uint64_t>::max()},
                         {"double", -0.5},
                         {"text", std::string(300, 'x')},
                         {"", std::string()}};
  inference::ModelInferResponse message;
  ASSERT_TRUE(message.ParseFromString(Flatten(EncodeUnaryResponse("", response))));
  const auto& parameters = message.parameters();
  ASSERT_EQ(parameters.size(), 6u);
  EXPECT_EQ(parameters.at("bool").parameter_choice_case(), inference::InferParameter::kBoolParam);
  EXPECT_FALSE(parameters.at("bool").bool_param());
  EXPECT_EQ(parameters.at("int").int64_param(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(parameters.at("unsigned").uint64_param(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(parameters.at("double").double_param(), -0.5);
  EXPECT_EQ(parameters.at("text").string_param(), std::string(300, 'x'));
  EXPECT_EQ(parameters.at("").parameter_choice_case(), inference::InferParameter::kStringParam);
}

TEST(GrpcResponseWriter, WritesErrorsOfStreams) {
  InferenceResponse response;
  response.model_name = "model";
  response.model_version = 2;
  inference::ModelStreamInferResponse message;
  for (size_t length : {5u, 100u, 20000u}) {
    const std::string text(length, 'e');
    ASSERT_TRUE(message.ParseFromString(Flatten(EncodeStreamError("id", text, &response, false))));
    EXPECT_EQ(message.error_message(), text);
    EXPECT_EQ(message.infer_response().id(), "id");
    EXPECT_EQ(message.infer_response().model_name(), "model");
    EXPECT_EQ(message.infer_response().model_version(), "2");
    EXPECT_FALSE(message.infer_response().parameters().at("triton_final_response").bool_param());
    ASSERT_TRUE(message.ParseFromString(Flatten(EncodeStreamError("id", text, nullptr, true))));
    EXPECT_EQ(message.error_message(), text);
    EXPECT_TRUE(message.has_infer_response());
    EXPECT_EQ(message.infer_response().id(), "id");
    EXPECT_EQ(message.infer_response().model_name(), "");
    EXPECT_EQ(message.infer_response().parameters_size(), 0);
  }
}

// Counts the releases of its memory.
class CountingOwner final : public BufferOwner {
 public:
  CountingOwner(std::vector<std::byte>& memory, int& destroyed) : memory_(memory), destroyed_(destroyed) {}
  Buffer buffer() { return {memory_.data(), memory_.size(), this}; }

 private:
  void Destroy() override {
    ++destroyed_;
    delete this;
  }
  std::vector<std::byte>& memory_;
  int& destroyed_;
};

TEST(GrpcResponseWriter, ReferencesLargeTensorsUntilTheMessageIsGone) {
  std::vector<std::byte> memory(10000);
  int destroyed = 0;
  {
    EncodedMessage message;
    {
      InferenceResponse response = MakeResponse({1});
      response.outputs[0].data = (new CountingOwner(memory, destroyed))->buffer();
      message = EncodeUnaryResponse("", response);
    }
    EXPECT_EQ(destroyed, 0);
    EncodedMessageReader reader(std::move(message));
    OutgoingBytes outgoing;
    reader.Take(reader.left(), outgoing);
    EXPECT_EQ(destroyed, 0);
    std::array<iovec, 4> pieces;
    ASSERT_EQ(outgoing.Gather(pieces), 2u);
    EXPECT_EQ(static_cast<const void*>(pieces[1].iov_base), static_cast<const void*>(memory.data()));
  }
  EXPECT_EQ(destroyed, 1);
}

}  // namespace
}  // namespace braid
