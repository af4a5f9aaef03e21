#include "protocols/tfs/tfs_services.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>

#include "base/clock.h"
#include "protocols/kserve/grpc_server.h"
#include "protocols/kserve/testing/fake_control.h"
#include "protocols/kserve/testing/fake_servable.h"
#include "tensorflow_serving.grpc.pb.h"

namespace braid {
namespace {

using grpc::ClientContext;
using tensorflow::TensorProto;
using tensorflow::serving::GetModelMetadataRequest;
using tensorflow::serving::GetModelMetadataResponse;
using tensorflow::serving::GetModelStatusRequest;
using tensorflow::serving::GetModelStatusResponse;
using tensorflow::serving::ModelService;
using tensorflow::serving::ModelVersionStatus;
using tensorflow::serving::PredictionService;
using tensorflow::serving::PredictRequest;
using tensorflow::serving::PredictResponse;

constexpr ApiCall kPredict{ApiProtocol::kTensorFlowServing, ApiInterface::kGrpc, ApiMethod::kPredict};

template <class T>
std::string BytesOf(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

class TfsGrpcTest : public ::testing::Test {
 protected:
  explicit TfsGrpcTest(Dialect dialect = Dialect::kTriton)
      : catalog_(dialect), context_{catalog_, control_, log_, "braid", "1", {}, {}, {}} {}
  ~TfsGrpcTest() override {
    if (server_) server_->Shutdown(SteadyNowNs());
    server_.reset();
  }

  void StartServer() {
    GrpcServer::Options options;
    options.address = "127.0.0.1";
    options.port = 0;
    options.extensions.push_back(&services_);
    auto server = GrpcServer::Start(context_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->bound_port()),
                                         grpc::InsecureChannelCredentials(), arguments);
    prediction_ = PredictionService::NewStub(channel_);
    model_ = ModelService::NewStub(channel_);
  }

  std::shared_ptr<FakeServable> Add(ServableInfo info) {
    auto servable = std::make_shared<FakeServable>(std::move(info));
    catalog_.Publish(servable);
    return servable;
  }

  static PredictRequest EchoRequest(const std::string& model, std::initializer_list<float> values) {
    PredictRequest request;
    request.mutable_model_spec()->set_name(model);
    TensorProto& tensor = (*request.mutable_inputs())["INPUT0"];
    tensor.set_dtype(tensorflow::DT_FLOAT);
    tensor.mutable_tensor_shape()->add_dim()->set_size(static_cast<int64_t>(values.size()));
    tensor.set_tensor_content(BytesOf(values));
    return request;
  }
  grpc::Status Predict(const PredictRequest& request, PredictResponse* response = nullptr) {
    ClientContext context;
    PredictResponse ignored;
    return prediction_->Predict(&context, request, response != nullptr ? response : &ignored);
  }
  void ExpectError(const PredictRequest& request, grpc::StatusCode code, const std::string& message) {
    const grpc::Status status = Predict(request);
    EXPECT_EQ(status.error_code(), code);
    EXPECT_EQ(status.error_message(), message);
  }

  Catalog catalog_;
  FakeControl control_;
  Logger log_;
  KserveContext context_;
  TfsServices services_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<PredictionService::Stub> prediction_;
  std::unique_ptr<ModelService::Stub> model_;
};

class OvmsTfsGrpcTest : public TfsGrpcTest {
 protected:
  OvmsTfsGrpcTest() : TfsGrpcTest(Dialect::kOvms) {}
  static ServableInfo OvmsInfo(std::string name, Shape shape = {1, 10}) {
    ServableInfo info = FakeServable::EchoInfo(std::move(name));
    info.dialect = Dialect::kOvms;
    info.inputs[0].name = "b";
    info.inputs[0].shape = shape;
    info.outputs[0].name = "a";
    info.outputs[0].shape = shape;
    return info;
  }
};

TEST_F(TfsGrpcTest, PredictsFromContent) {
  auto model = Add(FakeServable::EchoInfo("echo", DataType::kFp32, 7));
  StartServer();
  PredictResponse response;
  const grpc::Status status = Predict(EchoRequest("echo", {1.5f, -2}), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.model_spec().name(), "echo");
  EXPECT_EQ(response.model_spec().version().value(), 7);
  ASSERT_EQ(response.outputs_size(), 1);
  const TensorProto& output = response.outputs().at("OUTPUT0");
  EXPECT_EQ(output.dtype(), tensorflow::DT_FLOAT);
  ASSERT_EQ(output.tensor_shape().dim_size(), 1);
  EXPECT_EQ(output.tensor_shape().dim(0).size(), 2);
  EXPECT_EQ(output.tensor_content(), BytesOf({1.5f, -2.0f}));
  EXPECT_EQ(model->api_counters().success(kPredict), 1u);
}

TEST_F(TfsGrpcTest, PredictsTensorsOfAnySize) {
  Add(FakeServable::EchoInfo("echo"));
  StartServer();
  for (size_t elements : {size_t{0}, size_t{1}, size_t{1023}, size_t{1024}, size_t{5} << 20}) {
    std::string bytes(elements * 4, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
    PredictRequest request = EchoRequest("echo", {});
    TensorProto& tensor = (*request.mutable_inputs())["INPUT0"];
    tensor.mutable_tensor_shape()->mutable_dim(0)->set_size(static_cast<int64_t>(elements));
    tensor.set_tensor_content(bytes);
    PredictResponse response;
    const grpc::Status status = Predict(request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_TRUE(response.outputs().at("OUTPUT0").tensor_content() == bytes);
  }
}

TEST_F(TfsGrpcTest, SaysWhyARequestIsRefused) {
  Add(FakeServable::EchoInfo("echo"));
  ServableInfo decoupled = FakeServable::EchoInfo("decoupled");
  decoupled.decoupled = true;
  Add(decoupled);
  StartServer();
  using grpc::StatusCode;
  PredictRequest request;
  ExpectError(request, StatusCode::INVALID_ARGUMENT, "model_spec missing in request");
  ExpectError(EchoRequest("nope", {1}), StatusCode::NOT_FOUND,
              "Request for unknown model: 'nope' is not found");
  ExpectError(EchoRequest("decoupled", {1}), StatusCode::UNIMPLEMENTED,
              "Predict doesn't support models with decoupled transaction policy");
  request = EchoRequest("echo", {1});
  request.mutable_model_spec()->mutable_version()->set_value(3);
  ExpectError(request, StatusCode::NOT_FOUND, "Request for unknown model: 'echo' version 3 is not found");
  request.mutable_model_spec()->mutable_version()->set_value(-1);
  ExpectError(request, StatusCode::INVALID_ARGUMENT, "invalid model version format in request");
  request.mutable_model_spec()->mutable_version()->set_value(1);
  EXPECT_TRUE(Predict(request).ok());
  request.mutable_model_spec()->set_version_label("stable");
  EXPECT_TRUE(Predict(request).ok());
  request.add_output_filter("OUTPUT9");
  ExpectError(request, StatusCode::INVALID_ARGUMENT,
              "unexpected inference output 'OUTPUT9' for model 'echo'");
  request.set_output_filter(0, "OUTPUT0");
  request.add_output_filter("OUTPUT0");
  PredictResponse response;
  EXPECT_TRUE(Predict(request, &response).ok());
  EXPECT_EQ(response.outputs_size(), 1);
}

}  // namespace
}  // namespace braid
