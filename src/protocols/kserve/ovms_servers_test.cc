// Both servers of KServe in front of servables of a config.json: codes and texts on the wire, lookup,
// readiness, metadata and counters.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "grpc_service.grpc.pb.h"
#include "protocols/http/testing/test_client.h"
#include "protocols/inference/testing/fake_servable.h"
#include "protocols/kserve/testing/kserve_servers.h"
#include "serving/faults.h"
#include "serving/testing/fake_control.h"

namespace braid {
namespace {

using grpc::StatusCode;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

class OvmsServers : public testing::Test {
 protected:
  OvmsServers() {
    ServableInfo info;
    info.name = "dummy";
    info.dialect = Dialect::kOvms;
    info.platform = "OpenVINO";
    info.inputs = {Spec("b", DataType::kFp32, {1, 10})};
    info.outputs = {Spec("a", DataType::kFp32, {1, 10})};
    dummy_ = Publish(info);
    KserveGrpcServer::Options grpc;
    grpc.address = "127.0.0.1";
    grpc.port = 0;
    grpc_ = KserveGrpcServer::Start(context_, grpc).value();
    KserveHttpServer::Options http;
    http.address = "127.0.0.1";
    http.config_to_json = [](const inference::ModelConfig&) { return std::string("{}"); };
    http_ = KserveHttpServer::Start(context_, http).value();
    stub_ = inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(grpc_->bound_port()), grpc::InsecureChannelCredentials()));
  }
  ~OvmsServers() override {
    grpc_->Shutdown(SteadyNowNs());
    http_->Shutdown(SteadyNowNs());
  }

  static TensorSpec Spec(std::string name, DataType type, const Shape& shape) {
    TensorSpec spec;
    spec.name = std::move(name);
    spec.type = type;
    spec.shape = shape;
    return spec;
  }
  std::shared_ptr<FakeServable> Publish(ServableInfo info) {
    auto servable = std::make_shared<FakeServable>(std::move(info));
    catalog_.Publish(servable);
    return servable;
  }

  // A request of one input "b" with raw contents.
  static ModelInferRequest Request(const std::vector<int64_t>& shape = {1, 10}, size_t raw_bytes = 40,
                                   const std::string& datatype = "FP32") {
    ModelInferRequest request;
    request.set_model_name("dummy");
    AddInput(request, "b", shape, datatype);
    request.add_raw_input_contents(std::string(raw_bytes, '\0'));
    return request;
  }
  static ModelInferRequest::InferInputTensor& AddInput(ModelInferRequest& request, const std::string& name,
                                                       const std::vector<int64_t>& shape,
                                                       const std::string& datatype = "FP32") {
    auto& input = *request.add_inputs();
    input.set_name(name);
    input.set_datatype(datatype);
    for (int64_t dimension : shape) input.add_shape(dimension);
    return input;
  }
  grpc::Status Infer(const ModelInferRequest& request, ModelInferResponse* response = nullptr) {
    grpc::ClientContext context;
    ModelInferResponse ignored;
    return stub_->ModelInfer(&context, request, response != nullptr ? response : &ignored);
  }
  // Returns "{code}: {text}", or "" for success.
  std::string Fault(const ModelInferRequest& request) {
    const grpc::Status status = Infer(request);
    return status.ok() ? "" : std::to_string(status.error_code()) + ": " + status.error_message();
  }
  TestResponse Get(std::string_view target) {
    return TestClient(http_->bound_port()).Request("GET", target).value();
  }
  TestResponse Post(std::string_view target, std::string_view body, std::string_view headers = "") {
    return TestClient(http_->bound_port()).Request("POST", target, body, headers).value();
  }
  static std::string Error(std::string_view text) { return "{\"error\":\"" + std::string(text) + "\"}"; }
  uint64_t Good(ApiInterface interface, ApiMethod method) {
    return dummy_->api_counters().success({ApiProtocol::kKServe, interface, method});
  }
  uint64_t Bad(ApiInterface interface, ApiMethod method) {
    return dummy_->api_counters().fail({ApiProtocol::kKServe, interface, method});
  }

  Catalog catalog_{Dialect::kOvms};
  FakeControl control_;
  Logger log_;
  ProtocolContext context_{
      .catalog = catalog_, .control = control_, .log = log_, .server_version = "1", .extensions = {}};
  std::shared_ptr<FakeServable> dummy_;
  std::unique_ptr<KserveGrpcServer> grpc_;
  std::unique_ptr<KserveHttpServer> http_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

TEST_F(OvmsServers, InfersOverBoth) {
  ModelInferResponse response;
  ASSERT_TRUE(Infer(Request(), &response).ok());
  EXPECT_EQ(response.model_name(), "dummy");
  EXPECT_EQ(response.raw_output_contents(0).size(), 40u);
  const std::string json = R"({"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32"}]})";
  const TestResponse answer =
      Post("/v2/models/dummy/infer", json + std::string(40, '\0'),
           "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find(R"("model_name":"dummy","model_version":"1")"), std::string::npos)
      << answer.body;
  EXPECT_EQ(Good(ApiInterface::kGrpc, ApiMethod::kModelInfer), 1u);
  EXPECT_EQ(Good(ApiInterface::kRest, ApiMethod::kModelInfer), 1u);
}

TEST_F(OvmsServers, SaysWhatIsWrongWithTensors) {
  ModelInferRequest request = Request();
  AddInput(request, "c", {1});
  EXPECT_EQ(Fault(request), "3: Invalid number of inputs - Expected: 1; Actual: 2");
  request = Request();
  request.mutable_inputs(0)->set_name("c");
  EXPECT_EQ(Fault(request), "3: Missing input with specific name - Required input: b");
  EXPECT_EQ(
      Fault(Request({1, -10})),
      "3: Invalid input shape - Negative or zero dimension size is not acceptable: (1,-10); input name: b");
  EXPECT_EQ(Fault(Request({1, 10}, 40, "INT32")),
            "3: Invalid input precision - Expected: FP32; Actual: INT32; input name: b");
  EXPECT_EQ(Fault(Request({1, 10}, 40, "STRANGE")),
            "3: Invalid input precision - Expected: FP32; Actual: STRANGE; input name: b");
  request = Request({1, 10}, 40, "STRANGE");
  request.mutable_inputs(0)->set_name("c");
  EXPECT_EQ(Fault(request), "3: Missing input with specific name - Required input: b");
  AddInput(request, "d", {1}, "STRANGER");
  EXPECT_EQ(Fault(request), "3: Invalid number of inputs - Expected: 1; Actual: 2");
  EXPECT_EQ(Fault(Request({1, 2, 5})),
            "3: Invalid number of shape dimensions - Expected: (1,10); Actual: (1,2,5); input name: b");
  EXPECT_EQ(Fault(Request({2, 10}, 80)),
            "3: Invalid input batch size - Expected: 1; Actual: 2; input name: b");
  EXPECT_EQ(Fault(Request({1, 9}, 36)),
            "3: Invalid input shape - Expected: (1,10); Actual: (1,9); input name: b");
  EXPECT_EQ(Fault(Request({1, 10}, 36)),
            "3: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 36 bytes; input name: b");
  request = Request();
  request.add_outputs()->set_name("x");
  EXPECT_EQ(Fault(request), "3: requested output 'x' is not an output of 'dummy'");
  EXPECT_EQ(Bad(ApiInterface::kGrpc, ApiMethod::kModelInfer), 12u);
}

TEST_F(OvmsServers, SaysWhatIsWrongWithContents) {
  const std::string both =
      "3: Passing buffers both in ModelInferRequest::InferInputTensor::contents and in "
      "ModelInferRequest::raw_input_contents is not allowed - ";
  ModelInferRequest request = Request();
  request.add_raw_input_contents("more");
  EXPECT_EQ(Fault(request), both + "Size of raw_input_contents: 2 is different than number of inputs: 1");
  request = Request();
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_EQ(Fault(request),
            both +
                "Passing buffers both in InferInputTensor contents and in raw_input_contents is not allowed. "
                "Detected buffer in InferInputTensor contents for input: b");
  // The number of inputs is checked first.
  AddInput(request, "c", {1});
  EXPECT_EQ(Fault(request), "3: Invalid number of inputs - Expected: 1; Actual: 2");

  request = Request();
  request.clear_raw_input_contents();
  const std::string count =
      "3: Invalid number of values in tensor proto container - Expected: 10 values; Actual: ";
  EXPECT_EQ(Fault(request), count + "0 values; input name: b");
  auto& contents = *request.mutable_inputs(0)->mutable_contents();
  for (int i = 0; i < 9; ++i) contents.add_fp32_contents(1);
  EXPECT_EQ(Fault(request), count + "9 values; input name: b");
  request.mutable_inputs(0)->set_shape(1, 9);
  EXPECT_EQ(Fault(request), "3: Invalid input shape - Expected: (1,10); Actual: (1,9); input name: b");
  request.mutable_inputs(0)->set_shape(1, 10);
  contents.add_fp32_contents(1);
  EXPECT_EQ(Fault(request), "");
  contents.add_int_contents(1);
  EXPECT_EQ(Fault(request),
            "3: Invalid content size of tensor proto - contents do not match datatype FP32; input "
            "name: b");
  request.mutable_inputs(0)->set_datatype("INT32");
  EXPECT_EQ(Fault(request), "3: Invalid input precision - Expected: FP32; Actual: INT32; input name: b");
}

TEST_F(OvmsServers, TakesEncodedImagesAsTheyAre) {
  ServableInfo info;
  info.name = "image";
  info.dialect = Dialect::kOvms;
  info.inputs = {Spec("b", DataType::kUint8, {1, 2, 2, 3})};
  auto image = Publish(info);
  image->set_check(false);
  std::vector<std::string> seen;
  image->set_responder([&](std::unique_ptr<InferenceRequest> request) {
    EXPECT_EQ(request->inputs[0].type, DataType::kBytes);
    EXPECT_EQ(request->inputs[0].shape, (Shape{1}));
    seen.emplace_back(request->inputs[0].data.text());
    request->Respond(InferenceResponse(), true);
  });
  const std::string framed("\x04\0\0\0png!", 8);
  ModelInferRequest request;
  request.set_model_name("image");
  AddInput(request, "b", {1}, "BYTES");
  request.add_raw_input_contents(framed);
  EXPECT_EQ(Fault(request), "");
  request.clear_raw_input_contents();
  request.mutable_inputs(0)->mutable_contents()->add_bytes_contents("png!");
  EXPECT_EQ(Fault(request), "");
  EXPECT_EQ(seen, (std::vector<std::string>{framed, framed}));
  request.mutable_inputs(0)->set_shape(0, 2);
  EXPECT_EQ(
      Fault(request),
      "3: Invalid number of values in tensor proto container - Expected: 2 values; Actual: 1 values; input "
      "name: b");
}

TEST_F(OvmsServers, LooksServablesUp) {
  catalog_.SetState("coming", 1, VersionState::kLoading, "");
  catalog_.SetState("gone", 1, VersionState::kUnavailable, "");
  catalog_.SetState("coming", 1, VersionState::kLoading, "", braid::StatusCode::kOk, ServableKind::kModel);
  catalog_.SetState("gone", 1, VersionState::kUnavailable, "", braid::StatusCode::kOk, ServableKind::kModel);
  ModelInferRequest request = Request();
  request.set_model_name("nobody");
  EXPECT_EQ(Fault(request), "5: Mediapipe graph definition with requested name is not found");
  request.set_model_name("coming");
  EXPECT_EQ(Fault(request), "14: Model with requested version is not loaded yet");
  request.set_model_name("gone");
  EXPECT_EQ(Fault(request), "5: Model with requested version is retired");
  request.set_model_name("dummy");
  request.set_model_version("7");
  EXPECT_EQ(Fault(request), "5: Model with requested version is not found");
  request.set_model_version("abc");
  EXPECT_EQ(Fault(request), "3: invalid model version format in request");
  request.set_model_version("0");
  EXPECT_EQ(Fault(request), "");

  const TestResponse unknown = Post("/v2/models/nobody/infer", "{}");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body, Error("Mediapipe graph definition with requested name is not found"));
  const TestResponse coming = Post("/v2/models/coming/infer", "{}");
  EXPECT_EQ(coming.status, 404);
  EXPECT_EQ(coming.body, Error("Model with requested version is not loaded yet"));
}

TEST_F(OvmsServers, TellsReadinessOverGrpc) {
  catalog_.SetState("coming", 1, VersionState::kLoading, "", braid::StatusCode::kOk, ServableKind::kModel);
  const auto ready = [this](const std::string& name, const std::string& version = "") {
    grpc::ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name(name);
    request.set_version(version);
    inference::ModelReadyResponse response;
    const grpc::Status status = stub_->ModelReady(&context, request, &response);
    return status.ok() ? std::string(response.ready() ? "ready" : "not ready")
                       : std::to_string(status.error_code()) + ": " + status.error_message();
  };
  EXPECT_EQ(ready("dummy"), "ready");
  EXPECT_EQ(ready("dummy", "1"), "ready");
  EXPECT_EQ(ready("dummy", "2"), "not ready");
  EXPECT_EQ(ready("coming"), "not ready");
  EXPECT_EQ(ready("nobody"), "5: Model with requested name is not found");
  EXPECT_EQ(ready("dummy", "x"), "3: invalid model version format in request");
  dummy_->set_readiness({false, "down"});
  EXPECT_EQ(ready("dummy"), "not ready");
  EXPECT_EQ(Good(ApiInterface::kGrpc, ApiMethod::kModelReady), 3u);
}

TEST_F(OvmsServers, TellsReadinessOverHttp) {
  catalog_.SetState("coming", 1, VersionState::kLoading, "", braid::StatusCode::kOk, ServableKind::kModel);
  EXPECT_EQ(Get("/v2/models/dummy/ready").status, 200);
  EXPECT_EQ(Get("/v2/models/dummy/ready").body, "");
  for (const char* path : {"/v2/models/coming/ready", "/v2/models/dummy/versions/2/ready"}) {
    EXPECT_EQ(Get(path).status, 404);
    EXPECT_EQ(Get(path).body, Error("Model with requested version is not loaded yet"));
  }
  EXPECT_EQ(Get("/v2/models/nobody/ready").status, 404);
  EXPECT_EQ(Get("/v2/models/nobody/ready").body, Error("Model with requested name is not found"));
  EXPECT_EQ(Good(ApiInterface::kRest, ApiMethod::kModelReady), 2u);
}

TEST_F(OvmsServers, TellsWhetherTheServerIsReady) {
  EXPECT_EQ(Get("/v2/health/ready").status, 200);
  grpc::ClientContext context;
  inference::ServerReadyResponse response;
  ASSERT_TRUE(stub_->ServerReady(&context, {}, &response).ok());
  EXPECT_TRUE(response.ready());
  control_.set_ready(false);
  EXPECT_EQ(Get("/v2/health/ready").status, 400);
}

TEST_F(OvmsServers, TellsMetadata) {
  ServableInfo info;
  info.name = "pipeline";
  info.dialect = Dialect::kOvms;
  info.kind = ServableKind::kPipeline;
  info.platform = "OpenVINO";
  info.inputs = {Spec("free", DataType::kInvalid, {}), Spec("in", DataType::kUint8, {-1, 3})};
  Publish(info);
  EXPECT_EQ(
      Get("/v2/models/pipeline/versions/9").body,
      R"({"name":"pipeline","versions":["1"],"platform":"OpenVINO","inputs":[{"name":"free","datatype":"INVALID","shape":[]},{"name":"in","datatype":"UINT8","shape":[-1,3]}],"outputs":[]})");
  grpc::ClientContext context;
  inference::ModelMetadataRequest request;
  request.set_name("pipeline");
  inference::ModelMetadataResponse response;
  ASSERT_TRUE(stub_->ModelMetadata(&context, request, &response).ok());
  EXPECT_EQ(response.inputs(0).datatype(), "INVALID");
  EXPECT_EQ(response.inputs(0).shape_size(), 0);
  EXPECT_EQ(response.platform(), "OpenVINO");

  const TestResponse unknown = Get("/v2/models/nobody");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body, Error("Model with requested name is not found"));
  EXPECT_EQ(Get("/v2/models/dummy").status, 200);
  EXPECT_EQ(Good(ApiInterface::kRest, ApiMethod::kModelMetadata), 1u);
}

TEST_F(OvmsServers, HasNoModelConfigurations) {
  grpc::ClientContext context;
  inference::ModelConfigRequest request;
  request.set_name("dummy");
  inference::ModelConfigResponse response;
  const grpc::Status status = stub_->ModelConfig(&context, request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
  const std::string text =
      "'dummy' comes from a config.json and has no model configuration; ask for its metadata";
  EXPECT_EQ(status.error_message(), text);
  EXPECT_EQ(Get("/v2/models/dummy/config").status, 501);
  EXPECT_EQ(Get("/v2/models/dummy/config").body, Error(text));
}

TEST_F(OvmsServers, KeepsCodesAndTextsOfAnswers) {
  dummy_->set_responder([](std::unique_ptr<InferenceRequest> request) {
    request->Fail(FaultError(Fault::kPipelineDemultiplexerNoResults));
  });
  EXPECT_EQ(Fault(Request()), "10: Pipeline execution aborted due to no content from custom node");
  TestClient client(http_->bound_port());
  const std::string body =
      R"({"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[1,1,1,1,1,1,1,1,1,1]}]})";
  const auto answer = client.Request("POST", "/v2/models/dummy/infer", body);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 204);
  EXPECT_EQ(answer->body, "");
  EXPECT_EQ(answer->header("Content-Length"), "");
  // The connection stays open.
  EXPECT_EQ(client.Request("GET", "/v2/health/live")->status, 200);
}

TEST_F(OvmsServers, SaysWhatIsWrongWithHeaders) {
  const TestResponse text = Post("/v2/models/dummy/infer", "{}", "Inference-Header-Content-Length: x\r\n");
  EXPECT_EQ(text.status, 400);
  EXPECT_EQ(text.body, Error("Inference-Header-Content-Length header is invalid and couldn't be parsed"));
  const TestResponse large = Post("/v2/models/dummy/infer", "{}", "Inference-Header-Content-Length: 3\r\n");
  EXPECT_EQ(large.status, 400);
  EXPECT_EQ(large.body, Error("Inference-Header-Content-Length header exceeds actual payload length"));
  const TestResponse empty = Post("/v2/models/dummy/infer", "");
  EXPECT_EQ(empty.status, 412);
  EXPECT_EQ(empty.body, Error("The file is not valid json - The document is empty."));
  EXPECT_EQ(Bad(ApiInterface::kRest, ApiMethod::kModelInfer), 3u);
}

}  // namespace
}  // namespace braid
