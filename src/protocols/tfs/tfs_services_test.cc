#include "protocols/tfs/tfs_services.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <optional>
#include <span>
#include <tuple>

#include "base/clock.h"
#include "protocols/inference/testing/fake_servable.h"
#include "protocols/kserve/testing/kserve_servers.h"
#include "serving/faults.h"
#include "serving/testing/fake_control.h"
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
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!bytes.empty()) std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

class TfsGrpcTest : public ::testing::Test {
 protected:
  explicit TfsGrpcTest(Dialect dialect = Dialect::kTriton)
      : catalog_(dialect), context_{catalog_, control_, log_, "braid", "1", {}} {}
  ~TfsGrpcTest() override { ShutDown(); }
  void ShutDown() {
    if (server_) server_->Shutdown(SteadyNowNs());
    server_.reset();
  }

  void StartServer() {
    KserveGrpcServer::Options options;
    options.address = "127.0.0.1";
    options.port = 0;
    options.others.push_back(&services_);
    auto server = KserveGrpcServer::Start(context_, options);
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

  // Sends one empty message to any method and returns the call's status.
  grpc::Status CallRaw(const std::string& path, const std::string& secret) {
    ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    if (!secret.empty()) context.AddMetadata("triton-grpc-protocol-x-key", secret);
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    const auto wait = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    auto call = stub.PrepareCall(&context, path, &queue);
    call->StartCall(nullptr);
    wait();
    const grpc::Slice nothing;
    call->WriteLast(grpc::ByteBuffer(&nothing, 1), grpc::WriteOptions(), nullptr);
    wait();
    grpc::ByteBuffer answer;
    do {
      call->Read(&answer, nullptr);
    } while (wait());
    grpc::Status status;
    call->Finish(&status, nullptr);
    wait();
    queue.Shutdown();
    return status;
  }

  Catalog catalog_;
  FakeControl control_;
  Logger log_;
  ProtocolContext context_;
  TfsServices services_{context_};
  std::unique_ptr<KserveGrpcServer> server_;
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

TEST_F(TfsGrpcTest, EveryMethodOfThePortPassesTheAccessPolicy) {
  ASSERT_TRUE(
      context_.grpc_access
          .AddRestriction("health,metadata,inference,shared-memory,model-config,model-repository,statistics,"
                          "trace,logging,reflection:x-key=secret")
          .ok());
  StartServer();
  const auto& pool = *google::protobuf::DescriptorPool::generated_pool();
  size_t methods = 0;
  for (const char* file :
       {"grpc_service.proto", "health.proto", "reflection.proto", "tensorflow_serving.proto"}) {
    const auto* descriptor = pool.FindFileByName(file);
    ASSERT_NE(descriptor, nullptr) << file;
    for (int i = 0; i < descriptor->service_count(); ++i) {
      for (int j = 0; j < descriptor->service(i)->method_count(); ++j) {
        const auto& method = *descriptor->service(i)->method(j);
        const std::string path = "/" + method.service()->full_name() + "/" + method.name();
        ++methods;
        for (const char* secret : {"", "wrong", "secret"}) {
          const grpc::Status status = CallRaw(path, secret);
          const bool refused =
              status.error_code() == grpc::StatusCode::UNAVAILABLE &&
              status.error_message() ==
                  "This protocol is restricted, expecting header 'triton-grpc-protocol-x-key'";
          EXPECT_EQ(refused, std::string_view(secret) != "secret") << path << ": " << status.error_message();
        }
      }
    }
  }
  EXPECT_GE(methods, 28u);
}

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

// ---- Values ----

TEST_F(TfsGrpcTest, TakesValueFieldsOfAllTypes) {
  auto model = Add(FakeServable::EchoInfo("echo"));
  model->set_check(false);
  StartServer();
  PredictRequest request;
  request.mutable_model_spec()->set_name("echo");
  const auto add = [&](tensorflow::DataType dtype, int64_t elements) -> TensorProto& {
    TensorProto& tensor = (*request.mutable_inputs())[tensorflow::DataType_Name(dtype)];
    tensor.set_dtype(dtype);
    tensor.mutable_tensor_shape()->add_dim()->set_size(elements);
    return tensor;
  };
  const auto fill = [](auto* field, auto... values) { (field->Add(values), ...); };
  fill(add(tensorflow::DT_FLOAT, 2).mutable_float_val(), 1.5f, -2.0f);
  fill(add(tensorflow::DT_DOUBLE, 2).mutable_double_val(), 1.5, -2.0);
  fill(add(tensorflow::DT_INT32, 2).mutable_int_val(), -5, 7);
  fill(add(tensorflow::DT_UINT8, 2).mutable_int_val(), 255, 1);
  fill(add(tensorflow::DT_INT8, 2).mutable_int_val(), -128, 127);
  fill(add(tensorflow::DT_UINT16, 2).mutable_int_val(), 65535, 1);
  fill(add(tensorflow::DT_INT16, 2).mutable_int_val(), -32768, 1);
  fill(add(tensorflow::DT_INT64, 2).mutable_int64_val(), int64_t{-1} << 62, int64_t{3});
  fill(add(tensorflow::DT_UINT32, 2).mutable_uint32_val(), 4000000000U, 1U);
  fill(add(tensorflow::DT_UINT64, 2).mutable_uint64_val(), ~uint64_t{0}, uint64_t{1});
  fill(add(tensorflow::DT_BOOL, 2).mutable_bool_val(), true, false);
  fill(add(tensorflow::DT_HALF, 2).mutable_half_val(), 0x3c00, 0xc000);
  fill(add(tensorflow::DT_BFLOAT16, 2).mutable_half_val(), 0x3f80, 0xc000);
  add(tensorflow::DT_STRING, 2).add_string_val("ab");
  (*request.mutable_inputs())["DT_STRING"].add_string_val(std::string(5000, 'x'));
  PredictResponse response;
  const grpc::Status status = Predict(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.outputs_size(), 14);
  const auto content = [&](const char* name) { return response.outputs().at(name).tensor_content(); };
  for (const auto& [name, tensor] : response.outputs()) {
    EXPECT_EQ(tensorflow::DataType_Name(tensor.dtype()), name);
    EXPECT_EQ(tensor.tensor_shape().dim(0).size(), 2);
  }
  EXPECT_EQ(content("DT_FLOAT"), BytesOf({1.5f, -2.0f}));
  EXPECT_EQ(content("DT_DOUBLE"), BytesOf({1.5, -2.0}));
  EXPECT_EQ(content("DT_INT32"), BytesOf<int32_t>({-5, 7}));
  EXPECT_EQ(content("DT_UINT8"), BytesOf<uint8_t>({255, 1}));
  EXPECT_EQ(content("DT_INT8"), BytesOf<int8_t>({-128, 127}));
  EXPECT_EQ(content("DT_UINT16"), BytesOf<uint16_t>({65535, 1}));
  EXPECT_EQ(content("DT_INT16"), BytesOf<int16_t>({-32768, 1}));
  EXPECT_EQ(content("DT_INT64"), BytesOf<int64_t>({int64_t{-1} << 62, 3}));
  EXPECT_EQ(content("DT_UINT32"), BytesOf<uint32_t>({4000000000U, 1}));
  EXPECT_EQ(content("DT_UINT64"), BytesOf<uint64_t>({~uint64_t{0}, 1}));
  EXPECT_EQ(content("DT_BOOL"), std::string("\1\0", 2));
  EXPECT_EQ(content("DT_HALF"), BytesOf<uint16_t>({0x3c00, 0xc000}));
  EXPECT_EQ(content("DT_BFLOAT16"), BytesOf<uint16_t>({0x3f80, 0xc000}));
  const TensorProto& strings = response.outputs().at("DT_STRING");
  EXPECT_EQ(strings.tensor_content(), "");
  ASSERT_EQ(strings.string_val_size(), 2);
  EXPECT_EQ(strings.string_val(0), "ab");
  EXPECT_EQ(strings.string_val(1), std::string(5000, 'x'));
}

TEST_F(TfsGrpcTest, OneValueFillsATensor) {
  auto model = Add(FakeServable::EchoInfo("echo"));
  model->set_check(false);
  StartServer();
  PredictRequest request;
  request.mutable_model_spec()->set_name("echo");
  TensorProto& numbers = (*request.mutable_inputs())["numbers"];
  numbers.set_dtype(tensorflow::DT_INT16);
  numbers.mutable_tensor_shape()->add_dim()->set_size(3);
  numbers.mutable_tensor_shape()->add_dim()->set_size(5);
  numbers.add_int_val(-7);
  TensorProto& text = (*request.mutable_inputs())["text"];
  text.set_dtype(tensorflow::DT_STRING);
  text.mutable_tensor_shape()->add_dim()->set_size(3);
  text.add_string_val("ab");
  TensorProto& none = (*request.mutable_inputs())["none"];
  none.set_dtype(tensorflow::DT_FLOAT);
  none.mutable_tensor_shape()->add_dim()->set_size(0);
  none.add_float_val(1);
  PredictResponse response;
  const grpc::Status status = Predict(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  std::string expected;
  for (int i = 0; i < 15; ++i) expected += BytesOf<int16_t>({-7});
  EXPECT_EQ(response.outputs().at("numbers").tensor_content(), expected);
  ASSERT_EQ(response.outputs().at("text").string_val_size(), 3);
  for (const std::string& element : response.outputs().at("text").string_val()) EXPECT_EQ(element, "ab");
  EXPECT_EQ(response.outputs().at("none").tensor_content(), "");

  numbers.mutable_tensor_shape()->mutable_dim(0)->set_size(int64_t{1} << 40);
  ExpectError(
      request, grpc::StatusCode::INVALID_ARGUMENT,
      "Invalid number of values in tensor proto container - One value can fill at most 67108864 bytes of "
      "a request; input name: numbers");
}

TEST_F(TfsGrpcTest, RefusesTensorsItCannotRead) {
  Add(FakeServable::EchoInfo("echo"));
  StartServer();
  using grpc::StatusCode;
  const auto with = [](auto change) {
    PredictRequest request = EchoRequest("echo", {1});
    change((*request.mutable_inputs())["INPUT0"]);
    return request;
  };
  ExpectError(with([](TensorProto& t) { t.set_dtype(tensorflow::DT_COMPLEX64); }),
              StatusCode::INVALID_ARGUMENT,
              "Invalid input precision - Expected: FP32; Actual: DT_COMPLEX64; input name: INPUT0");
  ExpectError(with([](TensorProto& t) { t.set_dtype(static_cast<tensorflow::DataType>(77)); }),
              StatusCode::INVALID_ARGUMENT,
              "Invalid input precision - Expected: FP32; Actual: type 77; input name: INPUT0");
  ExpectError(with([](TensorProto& t) { t.mutable_tensor_shape()->set_unknown_rank(true); }),
              StatusCode::INVALID_ARGUMENT,
              "Invalid input shape - The rank must be known; input name: INPUT0");
  ExpectError(with([](TensorProto& t) { t.set_dtype(tensorflow::DT_STRING); }), StatusCode::INVALID_ARGUMENT,
              "Invalid string input - Strings must be in string_val; input name: INPUT0");
  ExpectError(with([](TensorProto& t) {
                t.clear_tensor_content();
                t.mutable_tensor_shape()->mutable_dim(0)->set_size(3);
                t.add_float_val(1);
                t.add_float_val(2);
              }),
              StatusCode::INVALID_ARGUMENT,
              "Invalid number of values in tensor proto container - Expected: 3 values; Actual: 2 values; "
              "input name: INPUT0");
  EXPECT_TRUE(Predict(EchoRequest("echo", {1})).ok());
}

TEST_F(TfsGrpcTest, SendsTheOutputsThatWereAskedFor) {
  ServableInfo info = FakeServable::EchoInfo("two");
  info.inputs.push_back(TensorSpec{.name = "INPUT1", .type = DataType::kFp32, .shape = {-1}, .labels = {}});
  info.outputs.push_back(TensorSpec{.name = "OUTPUT1", .type = DataType::kFp32, .shape = {-1}, .labels = {}});
  Add(info);
  StartServer();
  PredictRequest request = EchoRequest("two", {1});
  (*request.mutable_inputs())["INPUT1"] = (*request.mutable_inputs())["INPUT0"];
  request.add_output_filter("OUTPUT1");
  PredictResponse response;
  ASSERT_TRUE(Predict(request, &response).ok());
  EXPECT_EQ(response.outputs_size(), 1);
  EXPECT_TRUE(response.outputs().contains("OUTPUT1"));
}

TEST_F(TfsGrpcTest, ACancelledCallCancelsItsRequest) {
  auto model = Add(FakeServable::EchoInfo("echo"));
  StartServer();
  model->Hold();
  ClientContext context;
  PredictResponse response;
  auto call = std::async(std::launch::async,
                         [&] { return prediction_->Predict(&context, EchoRequest("echo", {1}), &response); });
  model->WaitForHeld(1);
  context.TryCancel();
  EXPECT_EQ(call.get().error_code(), grpc::StatusCode::CANCELLED);
  model->WaitForCancelled(1);
  model->ReleaseAll();
  EXPECT_TRUE(Predict(EchoRequest("echo", {1})).ok());
}

TEST_F(TfsGrpcTest, OtherMethodsAreNotServed) {
  StartServer();
  ClientContext context;
  tensorflow::serving::ClassificationResponse classification;
  EXPECT_EQ(prediction_->Classify(&context, {}, &classification).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  ClientContext second;
  tensorflow::serving::RegressionResponse regression;
  EXPECT_EQ(prediction_->Regress(&second, {}, &regression).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  ClientContext third;
  tensorflow::serving::MultiInferenceResponse multi;
  const grpc::Status status = prediction_->MultiInference(&third, {}, &multi);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(status.error_message(), "MultiInferenceRequest is not supported; use Predict");
  ClientContext fourth;
  tensorflow::serving::ReloadConfigResponse reload;
  EXPECT_TRUE(model_->HandleReloadConfigRequest(&fourth, {}, &reload).ok());
  EXPECT_EQ(reload.status().error_code(), tensorflow::error::OK);
}

TEST_F(TfsGrpcTest, TellsMetadata) {
  ServableInfo info = FakeServable::EchoInfo("echo", DataType::kBf16, 3);
  info.inputs[0].shape = {-1, 4};
  Add(info);
  StartServer();
  GetModelMetadataRequest request;
  const auto ask = [&](GetModelMetadataResponse& response) {
    ClientContext context;
    return prediction_->GetModelMetadata(&context, request, &response);
  };
  GetModelMetadataResponse response;
  EXPECT_EQ(ask(response).error_message(), "model_spec missing in request");
  request.mutable_model_spec()->set_name("echo");
  EXPECT_EQ(ask(response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.add_metadata_field("signature_def");
  const grpc::Status status = ask(response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.model_spec().name(), "echo");
  EXPECT_EQ(response.model_spec().version().value(), 3);
  tensorflow::serving::SignatureDefMap signatures;
  ASSERT_TRUE(response.metadata().at("signature_def").UnpackTo(&signatures));
  const auto& input = signatures.signature_def().at("serving_default").inputs().at("INPUT0");
  EXPECT_EQ(input.name(), "INPUT0");
  EXPECT_EQ(input.dtype(), tensorflow::DT_BFLOAT16);
  ASSERT_EQ(input.tensor_shape().dim_size(), 2);
  EXPECT_EQ(input.tensor_shape().dim(0).size(), -1);
  EXPECT_EQ(input.tensor_shape().dim(1).size(), 4);
  EXPECT_TRUE(signatures.signature_def().at("serving_default").outputs().contains("OUTPUT0"));
  request.mutable_model_spec()->mutable_version()->set_value(9);
  EXPECT_EQ(ask(response).error_code(), grpc::StatusCode::NOT_FOUND);
  request.add_metadata_field("other");
  EXPECT_EQ(ask(response).error_message(),
            "Invalid signature name - metadata_field must be exactly [signature_def]");
}

TEST_F(OvmsTfsGrpcTest, TellsTheStatesOfVersions) {
  catalog_.SetState("m", 1, VersionState::kUnavailable, "", StatusCode::kOk, ServableKind::kModel);
  catalog_.SetState("m", 2, VersionState::kUnavailable, "x", StatusCode::kInternal, ServableKind::kModel);
  ServableInfo info = OvmsInfo("m");
  info.version = 3;
  Add(info);
  catalog_.SetState("m", 4, VersionState::kLoading, "", StatusCode::kOk, ServableKind::kModel);
  catalog_.SetState("p", 1, VersionState::kUnavailable, "x", StatusCode::kFailedPrecondition,
                    ServableKind::kPipeline);
  catalog_.SetState("failed", 1, VersionState::kUnavailable, "x", StatusCode::kUnknown, ServableKind::kGraph);
  catalog_.SetState("retired", 1, VersionState::kUnavailable, "", StatusCode::kOk, ServableKind::kGraph);
  ServableInfo graph = OvmsInfo("graph");
  graph.kind = ServableKind::kGraph;
  Add(graph);
  StartServer();
  const auto ask = [&](const std::string& name, int64_t version, GetModelStatusResponse& response) {
    ClientContext context;
    GetModelStatusRequest request;
    request.mutable_model_spec()->set_name(name);
    if (version != 0) request.mutable_model_spec()->mutable_version()->set_value(version);
    return model_->GetModelStatus(&context, request, &response);
  };
  GetModelStatusResponse response;
  ASSERT_TRUE(ask("m", 0, response).ok());
  ASSERT_EQ(response.model_version_status_size(), 4);
  const auto expect = [&](int index, int64_t version, ModelVersionStatus::State state, const char* text) {
    const ModelVersionStatus& one = response.model_version_status(index);
    EXPECT_EQ(one.version(), version);
    EXPECT_EQ(one.state(), state);
    EXPECT_EQ(one.status().error_message(), text);
    EXPECT_EQ(tensorflow::error::Code_Name(one.status().error_code()), text);
  };
  expect(0, 1, ModelVersionStatus::END, "OK");
  expect(1, 2, ModelVersionStatus::LOADING, "UNKNOWN");
  expect(2, 3, ModelVersionStatus::AVAILABLE, "OK");
  expect(3, 4, ModelVersionStatus::LOADING, "OK");
  ASSERT_TRUE(ask("m", 2, response).ok());
  ASSERT_EQ(response.model_version_status_size(), 1);
  expect(0, 2, ModelVersionStatus::LOADING, "UNKNOWN");
  ASSERT_TRUE(ask("p", 8, response).ok());
  expect(0, 1, ModelVersionStatus::LOADING, "FAILED_PRECONDITION");
  // Graphs have one version, which answers to any number.
  ASSERT_TRUE(ask("graph", 7, response).ok());
  expect(0, 1, ModelVersionStatus::AVAILABLE, "OK");
  ASSERT_TRUE(ask("failed", 0, response).ok());
  expect(0, 1, ModelVersionStatus::LOADING, "FAILED_PRECONDITION");
  ASSERT_TRUE(ask("retired", 0, response).ok());
  expect(0, 1, ModelVersionStatus::END, "OK");
  grpc::Status status = ask("m", 9, response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "Model with requested version is not found");
  status = ask("nope", 0, response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "Model with requested name is not found");
}

TEST_F(OvmsTfsGrpcTest, AnswersWithTheTextsOfOpenVinoModelServer) {
  auto model = Add(OvmsInfo("m"));
  ServableInfo graph = OvmsInfo("graph");
  graph.kind = ServableKind::kGraph;
  Add(graph);
  StartServer();
  using grpc::StatusCode;
  const auto request = [](const std::string& name, const std::vector<int64_t>& shape, size_t floats) {
    PredictRequest made;
    made.mutable_model_spec()->set_name(name);
    TensorProto& tensor = (*made.mutable_inputs())["b"];
    tensor.set_dtype(tensorflow::DT_FLOAT);
    for (int64_t size : shape) tensor.mutable_tensor_shape()->add_dim()->set_size(size);
    tensor.set_tensor_content(std::string(floats * 4, '\0'));
    return made;
  };
  EXPECT_TRUE(Predict(request("m", {1, 10}, 10)).ok());
  ExpectError(request("nope", {1, 10}, 10), StatusCode::NOT_FOUND,
              "Pipeline with requested name is not found");
  ExpectError(request("graph", {1, 10}, 10), StatusCode::NOT_FOUND,
              "Pipeline with requested name is not found");
  PredictRequest bad = request("m", {1, 10}, 10);
  bad.mutable_model_spec()->mutable_version()->set_value(2);
  ExpectError(bad, StatusCode::NOT_FOUND, "Model with requested version is not found");
  ExpectError(request("m", {1, 10}, 0), StatusCode::INVALID_ARGUMENT,
              "Invalid content size of tensor proto - Expected: 40 bytes; Actual: 0 bytes; input name: b");
  ExpectError(request("m", {1, 9}, 9), StatusCode::INVALID_ARGUMENT,
              "Invalid input shape - Expected: (1,10); Actual: (1,9); input name: b");
  bad = request("m", {1, 10}, 10);
  (*bad.mutable_inputs())["b"].set_dtype(tensorflow::DT_INT32);
  ExpectError(bad, StatusCode::INVALID_ARGUMENT,
              "Invalid input precision - Expected: FP32; Actual: I32; input name: b");
  // A fault of the whole request is reported before a fault in a tensor's bytes.
  bad = request("m", {1, 10}, 0);
  (*bad.mutable_inputs())["b"].add_float_val(1);
  (*bad.mutable_inputs())["b"].add_float_val(2);
  ExpectError(bad, StatusCode::INVALID_ARGUMENT,
              "Invalid number of values in tensor proto container - Expected: 10 values; Actual: 2 values; "
              "input name: b");
  (*bad.mutable_inputs())["c"] = (*bad.mutable_inputs())["b"];
  ExpectError(bad, StatusCode::INVALID_ARGUMENT, "Invalid number of inputs - Expected: 1; Actual: 2");
  EXPECT_EQ(model->api_counters().success(kPredict), 1u);
  EXPECT_EQ(model->api_counters().fail(kPredict), 5u);
}

TEST_F(OvmsTfsGrpcTest, PassesEncodedImagesOn) {
  auto model = Add(OvmsInfo("m", {1, 8, 8, 3}));
  model->set_check(false);
  StartServer();
  PredictRequest request;
  request.mutable_model_spec()->set_name("m");
  TensorProto& tensor = (*request.mutable_inputs())["b"];
  tensor.set_dtype(tensorflow::DT_STRING);
  tensor.add_string_val("not really a JPEG");
  PredictResponse response;
  ASSERT_TRUE(Predict(request, &response).ok());
  EXPECT_EQ(response.outputs().at("b").tensor_shape().dim(0).size(), 1);
  EXPECT_EQ(response.outputs().at("b").string_val(0), "not really a JPEG");
  tensor.mutable_tensor_shape()->add_dim()->set_size(2);
  ExpectError(request, grpc::StatusCode::INVALID_ARGUMENT,
              "Invalid number of values in tensor proto container - Expected: 2 values; Actual: 1 values; "
              "input name: b");
  tensor.set_string_val(0, "");
  ExpectError(request, grpc::StatusCode::INVALID_ARGUMENT, "String val is empty - input name: b");
}

// ---- Stateful models ----

class StatefulTfsGrpcTest : public OvmsTfsGrpcTest {
 protected:
  // A model that echoes its input and the sequence.
  StatefulTfsGrpcTest() {
    ServableInfo info = OvmsInfo("m", {1, 2});
    info.stateful = StatefulSpec{.states = {}};
    stateful_ = Add(std::move(info));
    stateful_->set_check(false);  // it has no output sequence_id in its info
    stateful_->set_responder([this](auto request) {
      InferenceResponse response = FakeServable::Echo(*request, stateful_->info());
      response.outputs[0].name = "a";
      const uint64_t id = std::get<uint64_t>(request->correlation_id);
      response.outputs.push_back(
          {"sequence_id", DataType::kUint64, {1}, CopyToHeap(std::as_bytes(std::span(&id, 1)))});
      request->Respond(std::move(response), true);
    });
  }
  ~StatefulTfsGrpcTest() override { ShutDown(); }

  static PredictRequest Request(std::optional<uint64_t> id, std::optional<uint32_t> control) {
    PredictRequest request;
    request.mutable_model_spec()->set_name("m");
    TensorProto& tensor = (*request.mutable_inputs())["b"];
    tensor.set_dtype(tensorflow::DT_FLOAT);
    for (int64_t size : {1, 2}) tensor.mutable_tensor_shape()->add_dim()->set_size(size);
    tensor.set_tensor_content(BytesOf({1.0f, 2.0f}));
    if (id) AddNumber(request, "sequence_id", tensorflow::DT_UINT64).add_uint64_val(*id);
    if (control) AddNumber(request, "sequence_control_input", tensorflow::DT_UINT32).add_uint32_val(*control);
    return request;
  }
  static TensorProto& AddNumber(PredictRequest& request, const char* name, tensorflow::DataType dtype) {
    TensorProto& tensor = (*request.mutable_inputs())[name];
    tensor.set_dtype(dtype);
    tensor.mutable_tensor_shape()->add_dim()->set_size(1);
    return tensor;
  }

  std::shared_ptr<FakeServable> stateful_;
};

TEST_F(StatefulTfsGrpcTest, AnswersWithTheSequence) {
  StartServer();
  PredictResponse response;
  grpc::Status status = Predict(Request(uint64_t{1} << 40, 2), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.outputs_size(), 2);
  EXPECT_EQ(response.outputs().at("a").tensor_content(), BytesOf({1.0f, 2.0f}));
  const TensorProto& id = response.outputs().at("sequence_id");
  EXPECT_EQ(id.dtype(), tensorflow::DT_UINT64);
  ASSERT_EQ(id.tensor_shape().dim_size(), 1);
  EXPECT_EQ(id.tensor_shape().dim(0).size(), 1);
  ASSERT_EQ(id.uint64_val_size(), 1);
  EXPECT_EQ(id.uint64_val(0), uint64_t{1} << 40);
  EXPECT_EQ(id.tensor_content(), "");
  EXPECT_EQ(stateful_->api_counters().success(kPredict), 1u);

  PredictRequest filtered = Request(7, std::nullopt);
  filtered.add_output_filter("sequence_id");
  ASSERT_TRUE(Predict(filtered, &response).ok());
  EXPECT_EQ(response.outputs_size(), 1);
  EXPECT_EQ(response.outputs().at("sequence_id").uint64_val(0), 7u);
  filtered.set_output_filter(0, "a");
  ASSERT_TRUE(Predict(filtered, &response).ok());
  EXPECT_EQ(response.outputs_size(), 2);
}

TEST_F(StatefulTfsGrpcTest, MetadataNamesTheSequence) {
  StartServer();
  const auto predict = [&](const PredictRequest& request, const char* header, PredictResponse& response,
                           const char* second = nullptr) {
    ClientContext context;
    context.AddMetadata("braid-sequence-id", header);
    if (second != nullptr) context.AddMetadata("braid-sequence-id", second);
    return prediction_->Predict(&context, request, &response);
  };
  PredictResponse response;
  ASSERT_TRUE(predict(Request(std::nullopt, std::nullopt), "12", response).ok());
  EXPECT_EQ(response.outputs().at("sequence_id").uint64_val(0), 12u);
  ASSERT_TRUE(predict(Request(12, 1), "12", response).ok());
  ASSERT_TRUE(predict(Request(12, 1), "12", response, "12").ok());
  grpc::Status status = predict(Request(12, 1), "12", response, "13");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "the header braid-sequence-id has different values");
  status = predict(Request(13, 1), "12", response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "the request names two sequences: '12' by its header braid-sequence-id and '13' by its body");
  EXPECT_EQ(stateful_->api_counters().fail(kPredict), 2u);
}

TEST_F(StatefulTfsGrpcTest, ErrorsOfSequencesPass) {
  StartServer();
  using grpc::StatusCode;
  ExpectError(Request(std::nullopt, std::nullopt), StatusCode::INVALID_ARGUMENT,
              "Sequence ID has not been provided in request inputs");
  ExpectError(Request(0, 2), StatusCode::INVALID_ARGUMENT,
              "Sequence ID has not been provided in request inputs");
  ExpectError(Request(1, 3), StatusCode::INVALID_ARGUMENT, "Unexpected value of sequence control input");
  EXPECT_EQ(stateful_->api_counters().fail(kPredict), 3u);
  const std::tuple<Fault, StatusCode, const char*> errors[] = {
      {Fault::kSequenceMissing, StatusCode::NOT_FOUND, "Sequence with provided ID does not exist"},
      {Fault::kSequenceAlreadyExists, StatusCode::ALREADY_EXISTS, "Sequence with provided ID already exists"},
      {Fault::kSequenceTerminated, StatusCode::FAILED_PRECONDITION,
       "Sequence last request is being processed and it's not available anymore"},
      {Fault::kMaxSequenceNumberReached, StatusCode::UNAVAILABLE,
       "Max sequence number has been reached. Could not create new sequence."},
  };
  for (const auto& [error, code, text] : errors) {
    stateful_->set_responder([error = error](auto request) { request->Fail(FaultError(error)); });
    ExpectError(Request(1, 1), code, text);
  }
}

}  // namespace
}  // namespace braid
