#include "protocols/tfs/predict_request_builder.h"

#include <gtest/gtest.h>

#include "protocols/inference/testing/fake_servable.h"
#include "serving/request_check.h"
#include "tensorflow_serving.pb.h"

namespace braid {
namespace {

using tensorflow::TensorProto;
using tensorflow::serving::PredictRequest;

ServableInfo Info(bool stateful) {
  ServableInfo info = FakeServable::EchoInfo("m");
  info.dialect = Dialect::kOvms;
  info.inputs[0].name = "x";
  info.outputs[0].name = "y";
  if (stateful) info.stateful = StatefulSpec{.states = {}};
  return info;
}

class SequencesOverGrpc : public testing::Test {
 protected:
  SequencesOverGrpc() { Dims(Input("x", tensorflow::DT_FLOAT), {2}).set_tensor_content("12345678"); }

  TensorProto& Input(const char* name, tensorflow::DataType dtype) {
    TensorProto& tensor = (*message_.mutable_inputs())[name];
    tensor.set_dtype(dtype);
    return tensor;
  }
  static TensorProto& Dims(TensorProto& tensor, std::initializer_list<int64_t> sizes) {
    tensor.clear_tensor_shape();
    for (int64_t size : sizes) tensor.mutable_tensor_shape()->add_dim()->set_size(size);
    return tensor;
  }
  TensorProto& Id(uint64_t value) {
    TensorProto& tensor = Dims(Input("sequence_id", tensorflow::DT_UINT64), {1});
    tensor.clear_uint64_val();
    tensor.add_uint64_val(value);
    return tensor;
  }
  TensorProto& Control(uint32_t value) {
    TensorProto& tensor = Dims(Input("sequence_control_input", tensorflow::DT_UINT32), {1});
    tensor.clear_uint32_val();
    tensor.add_uint32_val(value);
    return tensor;
  }

  // Builds a new request each time.
  Status Build(std::string_view header = {}, bool stateful = true) {
    servable_ = std::make_unique<FakeServable>(Info(stateful));
    request_ = std::make_unique<InferenceRequest>();
    request_->api = ApiCall{ApiProtocol::kTensorFlowServing, ApiInterface::kGrpc, ApiMethod::kPredict};
    const std::string bytes = message_.SerializeAsString();
    const std::string_view segment = bytes;
    ParsedPredictRequest parsed;
    BRAID_RETURN_IF_ERROR(ParsePredictRequest({&segment, 1}, parsed));
    BRAID_RETURN_IF_ERROR(BuildPredictRequest({&segment, 1}, parsed, *servable_, header, *request_));
    // Stateful servables have one more output when they check.
    ServableInfo info = servable_->info();
    if (stateful) {
      info.outputs.push_back(
          TensorSpec{.name = "sequence_id", .type = DataType::kUint64, .shape = {1}, .labels = {}});
    }
    return CheckRequest(info, *request_);
  }
  void ExpectError(const std::string& text, std::string_view header = {}) {
    const Status status = Build(header);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), text);
  }

  PredictRequest message_;
  std::unique_ptr<FakeServable> servable_;
  std::unique_ptr<InferenceRequest> request_;
};

TEST_F(SequencesOverGrpc, AreNamedByInputsThatAreNoInputs) {
  Id(~uint64_t{0});
  Control(2);
  ASSERT_EQ(Build(), OkStatus());
  ASSERT_EQ(request_->inputs.size(), 1u);
  EXPECT_EQ(request_->inputs[0].name, "x");
  EXPECT_EQ(request_->inputs[0].data.text(), "12345678");
  EXPECT_EQ(request_->correlation_id, CorrelationId(~uint64_t{0}));
  EXPECT_FALSE(request_->sequence_start);
  EXPECT_TRUE(request_->sequence_end);
  EXPECT_EQ(request_->sequence_inputs, 2);

  message_.mutable_inputs()->erase("sequence_id");
  Control(1);
  ASSERT_EQ(Build(), OkStatus());
  EXPECT_EQ(request_->correlation_id, CorrelationId(uint64_t{0}));
  EXPECT_TRUE(request_->sequence_start);
  EXPECT_EQ(request_->sequence_inputs, 1);
}

TEST_F(SequencesOverGrpc, TheDtypeIsNotLookedAt) {
  Id(7).set_dtype(tensorflow::DT_STRING);
  Control(0).set_dtype(static_cast<tensorflow::DataType>(77));
  ASSERT_EQ(Build(), OkStatus());
  EXPECT_EQ(request_->correlation_id, CorrelationId(uint64_t{7}));
}

TEST_F(SequencesOverGrpc, FaultsOfTheIdComeFirst) {
  const std::string no_shape = "Special input proto does not contain tensor shape information";
  const std::string rank = "Invalid number of shape dimensions - Required shape for sequence_id is: (1)";
  const std::string size = "Invalid input shape - Required shape for sequence_id is: (1)";
  const std::string type = "Could not find sequence id in expected tensor proto field uint64_val";
  // Faults of other inputs do not matter.
  Control(9).clear_tensor_shape();
  (*message_.mutable_inputs())["unknown"];
  message_.add_output_filter("unknown");
  Id(7).clear_tensor_shape();
  ExpectError(no_shape);
  Id(7).mutable_tensor_shape()->clear_dim();
  ExpectError(no_shape);
  Dims(Id(7), {1, 1});
  ExpectError(rank);
  Dims(Id(7), {2}).add_uint64_val(8);
  ExpectError(size);
  Dims(Id(7), {0}).clear_uint64_val();
  ExpectError(size);
  Dims(Id(7), {-1});
  ExpectError(size);
  Id(7).clear_uint64_val();
  ExpectError(type);
  Id(7).add_uint64_val(8);
  ExpectError(type);
  Id(7).clear_uint64_val();
  Input("sequence_id", tensorflow::DT_UINT64).set_tensor_content("\7\0\0\0\0\0\0\0");
  ExpectError(type);
  Id(7).clear_uint64_val();
  Input("sequence_id", tensorflow::DT_INT64).add_int64_val(7);
  ExpectError(type);
  Input("sequence_id", tensorflow::DT_UINT32).add_uint32_val(7);
  ExpectError(type);
}

TEST_F(SequencesOverGrpc, FaultsOfTheControlComeNext) {
  const std::string type = "Could not find sequence control input in expected tensor proto field uint32_val";
  (*message_.mutable_inputs())["unknown"];
  Id(0);
  Control(1).clear_tensor_shape();
  ExpectError("Special input proto does not contain tensor shape information");
  Dims(Control(1), {1, 1});
  ExpectError("Invalid number of shape dimensions - Required shape for sequence_control_input is: (1)");
  Dims(Control(1), {2}).add_uint32_val(1);
  ExpectError("Invalid input shape - Required shape for sequence_control_input is: (1)");
  Control(1).clear_uint32_val();
  ExpectError(type);
  Input("sequence_control_input", tensorflow::DT_UINT32).add_int_val(1);
  ExpectError(type);
  Input("sequence_control_input", tensorflow::DT_UINT32).clear_int_val();
  Input("sequence_control_input", tensorflow::DT_UINT32).add_uint64_val(1);
  ExpectError(type);
  Input("sequence_control_input", tensorflow::DT_UINT32).clear_uint64_val();
  Input("sequence_control_input", tensorflow::DT_UINT32).set_tensor_content(std::string("\1\0\0\0", 4));
  ExpectError(type);
  Control(3);
  ExpectError("Unexpected value of sequence control input");
  Control(2);
  ExpectError("Sequence ID has not been provided in request inputs");
  message_.mutable_inputs()->erase("sequence_control_input");
  ExpectError("Sequence ID has not been provided in request inputs");
  message_.mutable_inputs()->erase("sequence_id");
  ExpectError("Sequence ID has not been provided in request inputs");
}

TEST_F(SequencesOverGrpc, OtherInputsAreCountedWithThoseOfTheSequence) {
  Id(7);
  Input("unknown", tensorflow::DT_FLOAT);
  ExpectError("Invalid number of inputs - Expected: 2; Actual: 3");
  Control(1);
  ExpectError("Invalid number of inputs - Expected: 3; Actual: 4");
  message_.mutable_inputs()->erase("unknown");
  message_.mutable_inputs()->erase("x");
  ExpectError("Invalid number of inputs - Expected: 3; Actual: 2");
  Input("unknown", tensorflow::DT_FLOAT);
  ExpectError("Missing input with specific name - Required input: x");
}

TEST_F(SequencesOverGrpc, AHeaderMayNameThem) {
  ASSERT_EQ(Build("12"), OkStatus());
  EXPECT_EQ(request_->correlation_id, CorrelationId(uint64_t{12}));
  EXPECT_EQ(request_->sequence_inputs, 0);
  Control(2);
  ASSERT_EQ(Build("12"), OkStatus());
  EXPECT_TRUE(request_->sequence_end);
  Id(12);
  EXPECT_EQ(Build("12"), OkStatus());
  Id(13);
  ExpectError("the request names two sequences: '12' by its header braid-sequence-id and '13' by its body",
              "12");
}

TEST_F(SequencesOverGrpc, TheirIdIsAskedForWithAnyOutput) {
  Id(7);
  message_.add_output_filter("sequence_id");
  ASSERT_EQ(Build(), OkStatus());
  EXPECT_EQ(request_->requested_outputs, std::vector<std::string>{"sequence_id"});
  message_.add_output_filter("y");
  ASSERT_EQ(Build(), OkStatus());
  EXPECT_EQ(request_->requested_outputs, (std::vector<std::string>{"sequence_id", "y"}));
  message_.clear_output_filter();
  message_.add_output_filter("y");
  ASSERT_EQ(Build(), OkStatus());
  EXPECT_EQ(request_->requested_outputs, (std::vector<std::string>{"y", "sequence_id"}));
  message_.add_output_filter("z");
  ExpectError("unexpected inference output 'z' for model 'm'");
}

TEST_F(SequencesOverGrpc, OtherModelsKnowNothingOfThem) {
  Id(7);
  Control(1);
  EXPECT_EQ(Build({}, false).message(), "Invalid number of inputs - Expected: 1; Actual: 3");
  EXPECT_EQ(request_->correlation_id, CorrelationId(uint64_t{0}));
  message_.mutable_inputs()->erase("sequence_control_input");
  message_.mutable_inputs()->erase("x");
  EXPECT_EQ(Build({}, false).message(), "Missing input with specific name - Required input: x");
  message_.add_output_filter("sequence_id");
  EXPECT_EQ(Build({}, false).message(), "unexpected inference output 'sequence_id' for model 'm'");
}

}  // namespace
}  // namespace braid
