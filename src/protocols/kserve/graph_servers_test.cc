// Both servers of KServe in front of a graph: accepted inputs, outputs, metadata, readiness and counters.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "grpc_service.grpc.pb.h"
#include "protocols/http/testing/test_client.h"
#include "protocols/inference/testing/fake_graph.h"
#include "protocols/kserve/testing/kserve_servers.h"
#include "serving/faults.h"
#include "serving/testing/fake_control.h"

namespace braid {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using testing::ElementsAre;
using testing::HasSubstr;

class GraphServers : public testing::Test {
 protected:
  GraphServers() {
    catalog_.Publish(graph_);
    graph_->set_responder([this](std::unique_ptr<InferenceRequest> request) {
      inputs_ = request->inputs;
      parameters_ = request->parameters;
      EXPECT_TRUE(request->requested_outputs.empty());
      InferenceResponse response;
      response.model_name = "graph";
      response.model_version = 1;
      response.outputs = outputs_.empty() ? request->inputs : outputs_;
      response.parameters = answer_parameters_;
      request->Respond(std::move(response), true);
    });
    KserveGrpcServer::Options grpc;
    grpc.address = "127.0.0.1";
    grpc.port = 0;
    grpc_ = KserveGrpcServer::Start(context_, grpc).value();
    KserveHttpServer::Options http;
    http.address = "127.0.0.1";
    http_ = KserveHttpServer::Start(context_, http).value();
    stub_ = inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(grpc_->bound_port()), grpc::InsecureChannelCredentials()));
  }
  ~GraphServers() override {
    grpc_->Shutdown(SteadyNowNs());
    http_->Shutdown(SteadyNowNs());
  }

  static ModelInferRequest::InferInputTensor& AddInput(ModelInferRequest& request, const std::string& name,
                                                       const std::string& datatype,
                                                       const std::vector<int64_t>& shape) {
    auto& input = *request.add_inputs();
    input.set_name(name);
    input.set_datatype(datatype);
    for (int64_t dimension : shape) input.add_shape(dimension);
    return input;
  }
  static ModelInferRequest Raw(const std::string& datatype, const std::vector<int64_t>& shape,
                               const std::string& bytes) {
    ModelInferRequest request;
    request.set_model_name("graph");
    request.set_id("7");
    AddInput(request, "in", datatype, shape);
    request.add_raw_input_contents(bytes);
    return request;
  }
  // With one input without contents.
  static ModelInferRequest Typed(const std::string& datatype, const std::vector<int64_t>& shape) {
    ModelInferRequest request = Raw(datatype, shape, "");
    request.clear_raw_input_contents();
    return request;
  }
  // Returns "{code}: {text}", or "" for success.
  std::string Fault(const ModelInferRequest& request, ModelInferResponse* response = nullptr) {
    grpc::ClientContext context;
    ModelInferResponse ignored;
    const grpc::Status status =
        stub_->ModelInfer(&context, request, response != nullptr ? response : &ignored);
    return status.ok() ? "" : std::to_string(status.error_code()) + ": " + status.error_message();
  }
  TestResponse Get(std::string_view target) {
    return TestClient(http_->bound_port()).Request("GET", target).value();
  }
  TestResponse Post(const std::string& json, const std::string& binary = "") {
    const std::string header = "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n";
    return TestClient(http_->bound_port())
        .Request("POST", "/v2/models/graph/infer", json + binary, binary.empty() ? "" : header)
        .value();
  }
  // Returns "{status}: {error}".
  std::string RestFault(const std::string& json, const std::string& binary = "") {
    const TestResponse answer = Post(json, binary);
    constexpr std::string_view kBefore = "{\"error\":\"";
    const bool error = answer.body.starts_with(kBefore);
    return std::to_string(answer.status) + ": " +
           (error ? answer.body.substr(kBefore.size(), answer.body.size() - kBefore.size() - 2)
                  : answer.body);
  }
  static std::string Json(const std::string& datatype, const std::string& shape, const std::string& rest) {
    return R"({"inputs":[{"name":"in","datatype":")" + datatype + R"(","shape":)" + shape + rest + "}]}";
  }
  static Tensor Output(DataType type, const Shape& shape, std::string_view bytes,
                       const std::string& custom_type = "") {
    Tensor tensor = FakeGraph::Text(bytes);
    tensor.type = type;
    tensor.shape = shape;
    tensor.custom_type = custom_type;
    return tensor;
  }
  uint64_t Rejected(ApiInterface interface) {
    return graph_->api_counters().rejected({ApiProtocol::kKServe, interface, ApiMethod::kModelInfer});
  }

  Catalog catalog_{Dialect::kOvms};
  FakeControl control_;
  Logger log_;
  ProtocolContext context_{
      .catalog = catalog_, .control = control_, .log = log_, .server_version = "1", .extensions = {}};
  std::shared_ptr<FakeGraph> graph_ = std::make_shared<FakeGraph>("graph");
  // The request as the graph received it, and the outputs to answer with; without outputs it echoes its
  // inputs.
  std::vector<Tensor> inputs_;
  Parameters parameters_;
  std::vector<Tensor> outputs_;
  Parameters answer_parameters_;
  std::unique_ptr<KserveGrpcServer> grpc_;
  std::unique_ptr<KserveHttpServer> http_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

TEST_F(GraphServers, GrpcHandsRawTensorsOverAsTheyAre) {
  ModelInferResponse response;
  // The graph itself refuses sizes that do not fit.
  for (const char* datatype : {"FP32", "FP16", "BF16", "BYTES", "UINT8", "my_type", "INVALID", "CUSTOM"}) {
    ASSERT_EQ(Fault(Raw(datatype, {2, 0, 5}, "odd"), &response), "");
    ASSERT_EQ(inputs_.size(), 1u);
    EXPECT_EQ(TypeName(inputs_[0]), datatype);
    EXPECT_EQ(inputs_[0].shape, (Shape{2, 0, 5}));
    EXPECT_EQ(inputs_[0].data.text(), "odd");
    EXPECT_EQ(response.outputs(0).datatype(), datatype);
    EXPECT_EQ(response.model_name(), "graph");
    EXPECT_EQ(response.model_version(), "1");
    EXPECT_EQ(response.id(), "7");
    EXPECT_THAT(response.raw_output_contents(), ElementsAre("odd"));
  }
  EXPECT_EQ(inputs_[0].type, DataType::kCustom);
  ASSERT_EQ(Fault(Raw("my_type", {1000, 1000, 1000, 1000, 1000, 1000, 1000}, ""), &response), "");
  // A client may send any number of inputs. Its requested outputs have no effect.
  ModelInferRequest request = Raw("UINT8", {1}, "a");
  for (const char* name : {"other", "third"}) {
    AddInput(request, name, "UINT8", {1});
    request.add_raw_input_contents(name);
  }
  request.add_outputs()->set_name("unknown");
  request.set_model_version("17");
  ASSERT_EQ(Fault(request), "");
  ASSERT_EQ(inputs_.size(), 3u);
  EXPECT_EQ(inputs_[2].data.text(), "third");
}

TEST_F(GraphServers, GrpcReadsTypedContents) {
  ModelInferRequest request = Typed("INT16", {2, 1});
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(-2);
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(300);
  ASSERT_EQ(Fault(request), "");
  EXPECT_EQ(inputs_[0].data.text(), std::string("\xfe\xff\x2c\x01", 4));
  request = Typed("BYTES", {5});
  request.mutable_inputs(0)->mutable_contents()->add_bytes_contents("ab");
  request.mutable_inputs(0)->mutable_contents()->add_bytes_contents("");
  ASSERT_EQ(Fault(request), "");
  EXPECT_EQ(inputs_[0].data.text(), std::string("\2\0\0\0ab\0\0\0\0", 10));
  ASSERT_EQ(Fault(Typed("FP32", {0})), "");
  EXPECT_EQ(inputs_[0].data.size(), 0u);
}

TEST_F(GraphServers, GrpcSaysWhatIsWrongWithContents) {
  ModelInferRequest request = Typed("my_type", {1});
  request.mutable_inputs(0)->mutable_contents()->add_bytes_contents("x");
  EXPECT_EQ(
      Fault(request),
      "3: Invalid input precision - Provided datatype is invalid, custom datatypes are allowed only when "
      "raw_input_contents is used.");
  EXPECT_EQ(Fault(Raw("", {1}, "x")), "3: Invalid input precision - Missing datatype; input name: in");
  request = Typed("FP16", {1});
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_EQ(
      Fault(request),
      "12: Functionality not implemented - FP16 is supported only in raw_input_contents; input name: in");
  request = Typed("FP32", {2});
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_EQ(Fault(request),
            "3: Invalid number of values in tensor proto container - Expected: 8 values; Actual: 4 values; "
            "input name: in");
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  EXPECT_EQ(Fault(request),
            "3: Invalid content size of tensor proto - contents do not match datatype FP32; "
            "input name: in");
  request.add_raw_input_contents("12345678");
  const std::string both =
      "3: Passing buffers both in ModelInferRequest::InferInputTensor::contents and in "
      "ModelInferRequest::raw_input_contents is not allowed - ";
  EXPECT_EQ(Fault(request),
            both +
                "Passing buffers both in InferInputTensor contents and in raw_input_contents is not allowed. "
                "Detected buffer in InferInputTensor contents for input: in");
  request.add_raw_input_contents("more");
  EXPECT_EQ(Fault(request), both + "Size of raw_input_contents: 2 is different than number of inputs: 1");
  EXPECT_EQ(Fault(Raw("FP32", {2, -1}, "x")),
            "3: Invalid input shape - Negative dimension size is not acceptable: (2,-1); input name: in");
  EXPECT_EQ(
      Fault(Typed("FP64", {1LL << 40, 1LL << 40})),
      "3: Invalid content size of tensor proto - Provided shape and datatype declare too large buffer.; "
      "input name: in");
  request = Raw("FP32", {1}, "1234");
  request.set_model_version("abc");
  EXPECT_EQ(Fault(request), "3: invalid model version format in request");
  request.set_model_version("");
  request.mutable_parameters()->insert({"nothing", {}});
  EXPECT_EQ(Fault(request), "12: Functionality not implemented - request parameter nothing has no value");
  EXPECT_EQ(Rejected(ApiInterface::kGrpc), 10u);
}

TEST_F(GraphServers, GrpcHandsParametersOver) {
  ModelInferRequest request = Raw("UINT8", {1}, "x");
  auto& parameters = *request.mutable_parameters();
  parameters["OVMS_MP_TIMESTAMP"].set_int64_param(-5);
  parameters["text"].set_string_param("t");
  parameters["flag"].set_bool_param(true);
  parameters["timeout"].set_int64_param(3);
  parameters["real"].set_double_param(0.5);
  parameters["triton_enable_empty_final_response"].set_bool_param(true);
  answer_parameters_ = {{"OVMS_MP_TIMESTAMP", int64_t{1} << 50}};
  ModelInferResponse response;
  ASSERT_EQ(Fault(request, &response), "");
  std::sort(parameters_.begin(), parameters_.end());
  EXPECT_EQ(parameters_, (Parameters{{"OVMS_MP_TIMESTAMP", int64_t{-5}},
                                     {"flag", true},
                                     {"real", 0.5},
                                     {"text", std::string("t")},
                                     {"timeout", int64_t{3}}}));
  EXPECT_EQ(response.parameters().at("OVMS_MP_TIMESTAMP").int64_param(), int64_t{1} << 50);
}

TEST_F(GraphServers, ClassesNeedOutputsThatFit) {
  ModelInferRequest request = Raw("FP32", {3}, "12345678");
  auto& output = *request.add_outputs();
  output.set_name("in");
  (*output.mutable_parameters())["classification"].set_int64_param(1);
  EXPECT_EQ(Fault(request), "13: output 'in' has 8 bytes, which do not fit its shape [3]");
  request.mutable_inputs(0)->set_datatype("my_type");
  EXPECT_EQ(Fault(request), "3: class result not available for output due to unsupported type 'my_type'");
}

TEST_F(GraphServers, RestReadsInputs) {
  EXPECT_EQ(Post(Json("INT32", "[2]", R"(,"data":[1,-1])")).body,
            R"({"model_name":"graph","model_version":"1","outputs":[{"name":"in","datatype":"INT32",)"
            R"("shape":[2],"data":[1,-1]}]})");
  EXPECT_EQ(Post(Json("BYTES", "[1]", R"(,"data":["ab"])")).status, 200);
  EXPECT_EQ(inputs_[0].data.text(), std::string("\2\0\0\0ab", 6));
  // The binary form supports all types and sizes.
  for (const char* datatype : {"FP16", "BF16", "my_type", "FP32", "BYTES"}) {
    outputs_ = {Output(DataType::kUint8, {1}, "x")};
    EXPECT_EQ(Post(Json(datatype, "[4,1]", R"(,"parameters":{"binary_data_size":3})"), "odd").status, 200);
    EXPECT_EQ(TypeName(inputs_[0]), datatype);
    EXPECT_EQ(inputs_[0].data.text(), "odd");
  }
  // Without a size, the shape's size counts; a single element takes all bytes.
  EXPECT_EQ(Post(Json("FP16", "[2]", ""), "1234").status, 200);
  EXPECT_EQ(Post(Json("my_type", "[1]", ""), "12345").status, 200);
  EXPECT_EQ(inputs_[0].data.text(), "12345");
  EXPECT_EQ(RestFault(Json("my_type", "[2]", ""), "12345"),
            "400: binary_data_size parameter is invalid and cannot be parsed - my_type of this shape "
            "requires it; input name: in");
}

TEST_F(GraphServers, RestSaysWhatIsWrongWithInputs) {
  const std::string precision = "400: Could not parse input content. Unsupported data precision detected - ";
  for (const char* datatype : {"FP16", "BF16", "my_type"}) {
    EXPECT_EQ(RestFault(Json(datatype, "[1]", R"(,"data":[1])")),
              precision + "receiving " + datatype +
                  " data via JSON is not supported. Please use the binary data format for input in");
  }
  const std::string count = "400: Invalid number of values in tensor proto container - Expected: ";
  EXPECT_EQ(RestFault(Json("INT16", "[2]", R"(,"data":[1,2,3])")),
            count + "4 values; Actual: 6 values; input name: in");
  EXPECT_EQ(RestFault(Json("INT16", "[2]", "")), count + "4 values; Actual: 0 values; input name: in");
  EXPECT_EQ(RestFault(Json("BYTES", "[2]", R"(,"data":["a"])")),
            count + "2 values; Actual: 1 values; input name: in");
  EXPECT_EQ(RestFault(Json("UINT8", "[1]", R"(,"parameters":{"binary_data_size":1})"), "12"),
            "400: Invalid content size of tensor proto - unexpected additional input data for model 'graph'");
  EXPECT_EQ(RestFault(R"({"inputs":[],"parameters":{"p":0.5}})"),
            "400: Could not parse request parameters - parameter 'p' should be a string, a boolean or a "
            "64-bit integer");
  const auto raw =
      TestClient(http_->bound_port())
          .Request("POST", "/v2/models/graph/infer", "bytes", "Inference-Header-Content-Length: 0\r\n");
  EXPECT_EQ(raw->status, 412);
  EXPECT_EQ(Rejected(ApiInterface::kRest), 9u);
  const auto generate =
      TestClient(http_->bound_port()).Request("POST", "/v2/models/graph/generate", R"({"in":"x"})");
  EXPECT_THAT(generate->body, HasSubstr("generate does not support graph 'graph'"));
}

TEST_F(GraphServers, RestHandsParametersOver) {
  answer_parameters_ = {{"OVMS_MP_TIMESTAMP", int64_t{1} << 50}};
  const TestResponse answer =
      Post(R"({"id":"i","inputs":[{"name":"in","datatype":"UINT8","shape":[1],"data":[65]}],"parameters":)"
           R"({"OVMS_MP_TIMESTAMP":1234567890123,"text":"t","flag":false,"sequence_id":4},)"
           R"("outputs":[{"name":"unknown"}]})");
  EXPECT_EQ(answer.body,
            R"({"id":"i","model_name":"graph","model_version":"1","parameters":{"OVMS_MP_TIMESTAMP":)"
            R"(1125899906842624},"outputs":[{"name":"in","datatype":"UINT8","shape":[1],"data":[65]}]})");
  std::sort(parameters_.begin(), parameters_.end());
  EXPECT_EQ(parameters_, (Parameters{{"OVMS_MP_TIMESTAMP", int64_t{1234567890123}},
                                     {"flag", false},
                                     {"sequence_id", int64_t{4}},
                                     {"text", std::string("t")}}));
}

TEST_F(GraphServers, RestRefusesOutputsThatAreNotWhatTheySay) {
  const std::string json = R"({"inputs":[]})";
  const auto fault = [&](Tensor output) {
    outputs_ = {std::move(output)};
    return RestFault(json);
  };
  EXPECT_EQ(fault(Output(DataType::kFp32, {2}, "1234567")),
            "500: Internal server error - output 'out' has 7 bytes, which do not fit its datatype FP32 and "
            "shape [2]");
  EXPECT_EQ(fault(Output(DataType::kUint8, {-1}, "")),
            "500: Internal server error - output 'out' has 0 bytes, which do not fit its datatype UINT8 and "
            "shape [-1]");
  EXPECT_EQ(fault(Output(DataType::kInt64, {int64_t{1} << 62, 4}, "")),
            "500: Internal server error - output 'out' has 0 bytes, which do not fit its datatype INT64 and "
            "shape [4611686018427387904,4]");
  EXPECT_EQ(fault(Output(DataType::kBytes, {1}, std::string_view("\5\0\0\0ab", 6))),
            "500: Internal server error - output 'out' ends inside a string element");
  const std::string precision = "400: Could not parse input content. Unsupported data precision detected - ";
  EXPECT_EQ(fault(Output(DataType::kCustom, {1}, "x", "my_type")),
            precision +
                "sending my_type data via JSON is not supported. Please use the binary data format for "
                "output out");
  EXPECT_EQ(fault(Output(DataType::kFp16, {1}, "xx")),
            precision +
                "sending FP16 data via JSON is not supported. Please use the binary data format for "
                "output out");
}

TEST_F(GraphServers, RestSendsOutputs) {
  // The number of strings does not follow from the shape.
  outputs_ = {Output(DataType::kBytes, {11}, std::string_view("\2\0\0\0ab\1\0\0\0c", 11)),
              Output(DataType::kUint8, {2}, "AB")};
  EXPECT_THAT(Post(R"({"inputs":[]})").body,
              HasSubstr(R"([{"name":"out","datatype":"BYTES","shape":[11],"data":["ab","c"]},)"
                        R"({"name":"out","datatype":"UINT8","shape":[2],"data":[65,66]}])"));
  // An output in binary form has the size of its bytes.
  outputs_ = {Output(DataType::kCustom, {9}, "1234567", "a \"type\"")};
  const std::string expected =
      R"({"model_name":"graph","model_version":"1","outputs":[{"name":"out","datatype":"a \"type\"",)"
      R"("shape":[9],"parameters":{"binary_data_size":7}}]})";
  for (const char* asked : {R"({"inputs":[],"outputs":[{"name":"out","parameters":{"binary_data":true}}]})",
                            R"({"inputs":[],"parameters":{"binary_data_output":true}})"}) {
    const TestResponse answer = Post(asked);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, expected + "1234567");
    EXPECT_EQ(answer.header("Inference-Header-Content-Length"), std::to_string(expected.size()));
  }
}

TEST_F(GraphServers, TellsMetadata) {
  const std::string json =
      R"({"name":"graph","versions":["1"],"platform":"OpenVINO","inputs":[)"
      R"({"name":"in","datatype":"INVALID","shape":[]},{"name":"other","datatype":"INVALID","shape":[]}],)"
      R"("outputs":[{"name":"out","datatype":"INVALID","shape":[]}]})";
  EXPECT_EQ(Get("/v2/models/graph").body, json);
  EXPECT_EQ(Get("/v2/models/graph/versions/5").body, json);
  grpc::ClientContext context;
  inference::ModelMetadataRequest request;
  request.set_name("graph");
  inference::ModelMetadataResponse response;
  ASSERT_TRUE(stub_->ModelMetadata(&context, request, &response).ok());
  EXPECT_EQ(response.platform(), "OpenVINO");
  EXPECT_THAT(response.versions(), ElementsAre("1"));
  ASSERT_EQ(response.inputs_size(), 2);
  EXPECT_EQ(response.inputs(1).name(), "other");
  EXPECT_EQ(response.inputs(1).datatype(), "INVALID");
  EXPECT_EQ(response.inputs(1).shape_size(), 0);
  EXPECT_EQ(response.outputs(0).name(), "out");
}

TEST_F(GraphServers, GraphsThatAreNotServedAreStillKnown) {
  catalog_.SetState("failed", 1, VersionState::kUnavailable, "x", StatusCode::kUnknown, ServableKind::kGraph);
  catalog_.SetState("gone", 1, VersionState::kUnavailable, "", StatusCode::kOk, ServableKind::kGraph);
  const auto metadata = [&](const std::string& name) {
    grpc::ClientContext context;
    inference::ModelMetadataRequest request;
    request.set_name(name);
    inference::ModelMetadataResponse response;
    const grpc::Status status = stub_->ModelMetadata(&context, request, &response);
    return std::to_string(status.error_code()) + ": " + status.error_message();
  };
  EXPECT_EQ(metadata("failed"), "14: Mediapipe is not loaded yet");
  EXPECT_EQ(metadata("gone"), "5: Mediapipe is retired");
  EXPECT_EQ(metadata("nobody"), "5: Model with requested name is not found");
  for (const char* name : {"failed", "gone", "graph"}) {
    grpc::ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name(name);
    inference::ModelReadyResponse response;
    ASSERT_TRUE(stub_->ModelReady(&context, request, &response).ok());
    EXPECT_EQ(response.ready(), std::string_view(name) == "graph");
  }
  ModelInferRequest request = Raw("UINT8", {1}, "x");
  request.set_model_name("failed");
  EXPECT_EQ(Fault(request), "14: Mediapipe is not loaded yet");
  EXPECT_EQ(Get("/v2/models/graph/ready").status, 200);
  EXPECT_EQ(Get("/v2/models/failed/ready").status, 404);
  EXPECT_EQ(Get("/v2/models/failed/ready").body,
            R"({"error":"Model with requested version is not loaded yet"})");
}

}  // namespace
}  // namespace braid
