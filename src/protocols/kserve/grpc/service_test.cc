#include "protocols/kserve/testing/kserve_servers.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "grpc_service.grpc.pb.h"
#include "health.grpc.pb.h"
#include "model_config.pb.h"
#include "protocols/inference/testing/fake_servable.h"
#include "serving/testing/fake_control.h"

namespace braid {
namespace {

using grpc::ClientContext;
using inference::GRPCInferenceService;
using inference::ModelInferRequest;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;

constexpr int64_t kSecond = 1'000'000'000;

std::string Floats(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float)};
}

ModelInferRequest EchoRequest(const std::string& model, const std::string& bytes,
                              const std::string& id = "") {
  ModelInferRequest request;
  request.set_model_name(model);
  request.set_id(id);
  auto& input = *request.add_inputs();
  input.set_name("INPUT0");
  input.set_datatype("FP32");
  input.add_shape(static_cast<int64_t>(bytes.size() / 4));
  request.add_raw_input_contents(bytes);
  return request;
}

class GrpcServerTest : public ::testing::Test {
 protected:
  using Stream = grpc::ClientReaderWriter<ModelInferRequest, ModelStreamInferResponse>;

  GrpcServerTest() { options_.address = "127.0.0.1", options_.port = 0; }
  ~GrpcServerTest() override { StopServer(); }

  void StartServer() {
    auto server = KserveGrpcServer::Start(context_, options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    Connect();
  }
  void Connect() {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    // Tests do not share connections.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->bound_port()),
                                         grpc::InsecureChannelCredentials(), arguments);
    stub_ = GRPCInferenceService::NewStub(channel_);
  }
  void StopServer() {
    if (server_) server_->Shutdown(SteadyNowNs());
    server_.reset();
  }

  std::shared_ptr<FakeServable> AddEcho(const std::string& name) { return Add(FakeServable::EchoInfo(name)); }
  std::shared_ptr<FakeServable> Add(ServableInfo info) {
    auto servable = std::make_shared<FakeServable>(std::move(info));
    catalog_.AddModel(servable->info().name);
    catalog_.Publish(servable);
    return servable;
  }

  grpc::Status Infer(const ModelInferRequest& request, ModelInferResponse* response = nullptr) {
    ClientContext context;
    ModelInferResponse ignored;
    return stub_->ModelInfer(&context, request, response != nullptr ? response : &ignored);
  }
  void ExpectError(const ModelInferRequest& request, grpc::StatusCode code, const std::string& message) {
    const grpc::Status status = Infer(request);
    EXPECT_EQ(status.error_code(), code);
    EXPECT_EQ(status.error_message(), message);
  }
  // Calls a method by its path with a message of any bytes.
  grpc::Status CallRaw(const std::string& path, const std::string& bytes, std::string* answer = nullptr) {
    grpc::GenericStub stub(channel_);
    ClientContext context;
    grpc::CompletionQueue cq;
    auto call = stub.PrepareCall(&context, path, &cq);
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(nullptr);
    cq.Next(&tag, &ok);
    const grpc::Slice slice(bytes);
    if (ok) {
      call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
      cq.Next(&tag, &ok);
    }
    grpc::ByteBuffer buffer;
    call->Read(&buffer, nullptr);
    cq.Next(&tag, &ok);
    if (ok && answer != nullptr) {
      grpc::Slice whole;
      if (buffer.DumpToSingleSlice(&whole).ok())
        answer->assign(reinterpret_cast<const char*>(whole.begin()), whole.size());
    }
    grpc::Status status;
    call->Finish(&status, nullptr);
    cq.Next(&tag, &ok);
    cq.Shutdown();
    while (cq.Next(&tag, &ok)) {
    }
    return status;
  }

  Catalog catalog_;
  FakeControl control_;
  Logger log_;
  ProtocolContext context_{.catalog = catalog_,
                           .control = control_,
                           .log = log_,
                           .server_version = "1",
                           .extensions = {"statistics"}};
  KserveGrpcServer::Options options_;
  std::unique_ptr<KserveGrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<GRPCInferenceService::Stub> stub_;
};

// ---- ModelInfer ----

TEST_F(GrpcServerTest, AnswersRawTensorsOfAnySize) {
  AddEcho("echo");
  StartServer();
  for (size_t elements :
       {size_t{0}, size_t{1}, size_t{1000}, size_t{1024}, size_t{1} << 18, size_t{5} << 20}) {
    std::string bytes(elements * 4, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
    ModelInferResponse response;
    const grpc::Status status = Infer(EchoRequest("echo", bytes, "id-7"), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.model_name(), "echo");
    EXPECT_EQ(response.model_version(), "1");
    EXPECT_EQ(response.id(), "id-7");
    ASSERT_EQ(response.outputs_size(), 1);
    EXPECT_EQ(response.outputs(0).name(), "OUTPUT0");
    EXPECT_EQ(response.outputs(0).datatype(), "FP32");
    EXPECT_EQ(response.outputs(0).shape(0), static_cast<int64_t>(elements));
    ASSERT_EQ(response.raw_output_contents_size(), 1);
    EXPECT_TRUE(response.raw_output_contents(0) == bytes);
  }
}

TEST_F(GrpcServerTest, AnswersTypedContentsInRawForm) {
  auto model = AddEcho("echo");
  model->set_check(false);
  StartServer();
  ModelInferRequest request;
  request.set_model_name("echo");
  const auto add = [&](const std::string& type, int64_t elements) -> inference::InferTensorContents& {
    auto& input = *request.add_inputs();
    input.set_name("INPUT" + type);
    input.set_datatype(type);
    input.add_shape(elements);
    return *input.mutable_contents();
  };
  auto& floats = add("FP32", 2);
  floats.add_fp32_contents(1.5f);
  floats.add_fp32_contents(-2.0f);
  auto& small = add("INT8", 2);
  small.add_int_contents(-1);
  small.add_int_contents(127);
  auto& flags = add("BOOL", 2);
  flags.add_bool_contents(true);
  flags.add_bool_contents(false);
  auto& texts = add("BYTES", 2);
  texts.add_bytes_contents("ab");
  texts.add_bytes_contents("");
  add("UINT16", 0);
  ModelInferResponse response;
  const grpc::Status status = Infer(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.raw_output_contents_size(), 5);
  EXPECT_EQ(response.raw_output_contents(0), Floats({1.5f, -2.0f}));
  EXPECT_EQ(response.raw_output_contents(1), std::string("\xff\x7f", 2));
  EXPECT_EQ(response.raw_output_contents(2), std::string("\x01\x00", 2));
  EXPECT_EQ(response.raw_output_contents(3), std::string("\x02\x00\x00\x00"
                                                         "ab"
                                                         "\x00\x00\x00\x00",
                                                         10));
  EXPECT_EQ(response.raw_output_contents(4), "");
}

TEST_F(GrpcServerTest, TakesMillionsOfStringsInContents) {
  auto model = Add(FakeServable::EchoInfo("echo", DataType::kBytes));
  StartServer();
  ModelInferRequest request;
  request.set_model_name("echo");
  auto& input = *request.add_inputs();
  input.set_name("INPUT0");
  input.set_datatype("BYTES");
  input.add_shape(2'000'000);
  const std::string element = "a";
  for (int i = 0; i < 2'000'000; ++i) input.mutable_contents()->add_bytes_contents(element);
  ModelInferResponse response;
  const grpc::Status status = Infer(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.raw_output_contents(0).size(), 10'000'000u);
}

TEST_F(GrpcServerTest, SaysWhyARequestIsRefused) {
  AddEcho("echo");
  ServableInfo decoupled = FakeServable::EchoInfo("decoupled");
  decoupled.decoupled = true;
  Add(decoupled);
  StartServer();
  using grpc::StatusCode;
  const ModelInferRequest good = EchoRequest("echo", Floats({1}));

  ExpectError(EchoRequest("nope", ""), StatusCode::NOT_FOUND,
              "Request for unknown model: 'nope' is not found");
  ModelInferRequest request = good;
  request.set_model_version("9");
  ExpectError(request, StatusCode::NOT_FOUND, "Request for unknown model: 'echo' version 9 is not found");
  for (const char* version : {"one", "-1", "1x", "99999999999999999999"}) {
    request.set_model_version(version);
    ExpectError(request, StatusCode::INVALID_ARGUMENT,
                "failed to get model version from specified version string '" + std::string(version) +
                    "' (details: not a number), version should be an integral value > 0");
  }
  ExpectError(EchoRequest("decoupled", Floats({1})), StatusCode::UNIMPLEMENTED,
              "ModelInfer RPC doesn't support models with decoupled transaction policy");

  request = good;
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  ExpectError(
      request, StatusCode::INVALID_ARGUMENT,
      "contents field must not be specified when using raw_input_contents for 'INPUT0' for model 'echo'");
  request.clear_raw_input_contents();
  request.mutable_inputs(0)->mutable_contents()->Clear();
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  ExpectError(
      request, StatusCode::INVALID_ARGUMENT,
      "unexpected explicit tensor data for input tensor 'INPUT0' for model 'echo' of type 'INT32', expected "
      "datatype 'FP32'");
  request.mutable_inputs(0)->clear_contents();
  ExpectError(request, StatusCode::INVALID_ARGUMENT,
              "unable to find data for input tensor 'INPUT0' for model 'echo' in request.");
  request = good;
  request.add_raw_input_contents("more");
  ExpectError(request, StatusCode::INVALID_ARGUMENT, "unexpected additional input data for model 'echo'");
  request = good;
  request.mutable_inputs(0)->set_datatype("FP31");
  ExpectError(request, StatusCode::INVALID_ARGUMENT, "invalid datatype for input INPUT0");
  request = good;
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  ExpectError(request, StatusCode::INVALID_ARGUMENT,
              "'shared_memory_byte_size' must be specified with 'shared_memory_region' for 'INPUT0'");
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_byte_size"].set_int64_param(8);
  ExpectError(request, StatusCode::NOT_FOUND, "Unable to find shared memory region: 'r'");
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_byte_size"].set_int64_param(-8);
  ExpectError(request, StatusCode::INVALID_ARGUMENT,
              "invalid value for 'shared_memory_byte_size' parameter, expected value >= 0.");

  EXPECT_EQ(CallRaw("/inference.GRPCInferenceService/ModelInfer", "\xff\xff\xff").error_code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(CallRaw("/inference.GRPCInferenceService/ModelInfer", "").error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(CallRaw("/inference.GRPCInferenceService/ServerLive", "\xff").error_code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(Infer(good).ok());
}

TEST_F(GrpcServerTest, ReadsReservedParametersAndPassesOthersOn) {
  auto model = AddEcho("echo");
  std::unique_ptr<InferenceRequest> seen;
  model->set_responder([&](std::unique_ptr<InferenceRequest> request) {
    // The client may read it as soon as it has its answer.
    seen = std::move(request);
    InferenceResponse response = FakeServable::Echo(*seen, model->info());
    response.parameters = seen->parameters;
    seen->Respond(std::move(response), true);
  });
  StartServer();
  ModelInferRequest request = EchoRequest("echo", Floats({1}));
  auto& parameters = *request.mutable_parameters();
  parameters["sequence_id"].set_int64_param(42);
  parameters["sequence_start"].set_bool_param(true);
  parameters["sequence_end"].set_bool_param(false);
  parameters["priority"].set_uint64_param(2);
  parameters["timeout"].set_int64_param(1000);
  parameters["triton_enable_empty_final_response"].set_bool_param(true);
  parameters["binary_data_output"].set_bool_param(true);
  parameters["mine"].set_double_param(0.25);
  ModelInferResponse response;
  const grpc::Status status = Infer(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(seen->correlation_id, CorrelationId(uint64_t{42}));
  EXPECT_TRUE(seen->sequence_start);
  EXPECT_FALSE(seen->sequence_end);
  EXPECT_EQ(seen->priority, 2u);
  EXPECT_EQ(seen->timeout_us, 1000u);
  ASSERT_EQ(response.parameters().size(), 1u);
  EXPECT_EQ(response.parameters().at("mine").double_param(), 0.25);

  request.clear_parameters();
  (*request.mutable_parameters())["sequence_id"].set_string_param("name");
  ASSERT_TRUE(Infer(request).ok());
  EXPECT_EQ(seen->correlation_id, CorrelationId(std::string("name")));

  const auto refused = [&](const std::string& key, auto set) {
    request.clear_parameters();
    set((*request.mutable_parameters())[key]);
    const grpc::Status answer = Infer(request);
    EXPECT_EQ(answer.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return answer.error_message();
  };
  EXPECT_EQ(refused("sequence_id", [](auto& p) { p.set_bool_param(true); }),
            "invalid value type for 'sequence_id' parameter, expected int64_param or string_param.");
  EXPECT_EQ(refused("sequence_start", [](auto& p) { p.set_int64_param(1); }),
            "invalid value type for 'sequence_start' parameter, expected bool_param.");
  EXPECT_EQ(refused("priority", [](auto& p) { p.set_int64_param(-1); }),
            "invalid value for 'priority' parameter, expected value >= 0.");
  EXPECT_EQ(refused("timeout", [](auto& p) { p.set_string_param("1"); }),
            "invalid value type for 'timeout' parameter, expected int64_param.");
  EXPECT_TRUE(refused("triton_x", [](auto& p) {
                p.set_bool_param(true);
              }).ends_with("allowed: triton_enable_empty_final_response"));
  EXPECT_EQ(refused("other", [](auto&) {}),
            "invalid value type for 'other' parameter, expected bool_param, int64_param, double_param or "
            "string_param.");
}

TEST_F(GrpcServerTest, ForwardsHeadersThatMatch) {
  auto model = AddEcho("echo");
  model->set_responder([&](std::unique_ptr<InferenceRequest> request) {
    InferenceResponse response = FakeServable::Echo(*request, model->info());
    response.parameters = request->parameters;
    request->Respond(std::move(response), true);
  });
  context_.grpc_headers = HeaderForwarding::Create("MY_.*|timeout").value();
  StartServer();
  ModelInferRequest request = EchoRequest("echo", Floats({1}));
  (*request.mutable_parameters())["my_own"].set_int64_param(5);
  ModelInferResponse response;
  {
    ClientContext context;
    context.AddMetadata("my_header", "value");
    context.AddMetadata("my_own", "lost");
    context.AddMetadata("not_my_header", "value");
    ASSERT_TRUE(stub_->ModelInfer(&context, request, &response).ok());
  }
  ASSERT_EQ(response.parameters().size(), 2u);
  EXPECT_EQ(response.parameters().at("my_header").string_param(), "value");
  EXPECT_EQ(response.parameters().at("my_own").int64_param(), 5);
  {
    ClientContext context;
    context.AddMetadata("timeout", "1");
    EXPECT_EQ(stub_->ModelInfer(&context, request, &response).error_message(),
              "Header 'timeout' is reserved for Triton usage and cannot be forwarded.");
  }
  EXPECT_EQ(HeaderForwarding::Create("(").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(GrpcServerTest, MapsEveryStatusOfTheModel) {
  auto model = AddEcho("echo");
  Status answer;
  model->set_responder([&](std::unique_ptr<InferenceRequest> request) { request->Fail(answer); });
  StartServer();
  const std::pair<Status, grpc::StatusCode> cases[] = {
      {UnknownError("a\nb"), grpc::StatusCode::UNKNOWN},
      {InternalError("text"), grpc::StatusCode::INTERNAL},
      {NotFoundError("text"), grpc::StatusCode::NOT_FOUND},
      {InvalidArgumentError("x"), grpc::StatusCode::INVALID_ARGUMENT},
      {UnavailableError("text"), grpc::StatusCode::UNAVAILABLE},
      {UnsupportedError("text"), grpc::StatusCode::UNIMPLEMENTED},
      {AlreadyExistsError("x"), grpc::StatusCode::ALREADY_EXISTS},
      {CancelledError("text"), grpc::StatusCode::CANCELLED}};
  for (const auto& [status, code] : cases) {
    answer = status;
    ExpectError(EchoRequest("echo", Floats({1})), code, status.message());
  }
}

TEST_F(GrpcServerTest, AnswersWithTheFirstResponseAndDropsOthers) {
  auto model = AddEcho("echo");
  model->Hold();
  StartServer();
  ModelInferResponse response;
  auto answer =
      std::async(std::launch::async, [&] { return Infer(EchoRequest("echo", Floats({1})), &response); });
  model->WaitForHeld(1);
  auto request = model->Take();
  request->Respond(FakeServable::Echo(*request, model->info()), false);
  // The client has its answer while the request is still running.
  EXPECT_TRUE(answer.get().ok());
  EXPECT_EQ(response.outputs_size(), 1);
  EXPECT_FALSE(request->cancelled());
  request->Respond(FakeServable::Echo(*request, model->info()), false);
  request->Respond(std::nullopt, true);
}

TEST_F(GrpcServerTest, FailsARequestThatEndsWithoutAResponse) {
  auto model = AddEcho("echo");
  model->set_responder(
      [](std::unique_ptr<InferenceRequest> request) { request->Respond(std::nullopt, true); });
  StartServer();
  ExpectError(EchoRequest("echo", Floats({1})), grpc::StatusCode::INTERNAL,
              "the model ended the request without a response");
}

TEST_F(GrpcServerTest, TellsTheRequestWhenItsClientCancelsOrRunsOutOfTime) {
  auto model = AddEcho("echo");
  model->Hold();
  StartServer();
  ClientContext context;
  auto answer = std::async(std::launch::async, [&] {
    ModelInferResponse response;
    return stub_->ModelInfer(&context, EchoRequest("echo", Floats({1})), &response);
  });
  model->WaitForHeld(1);
  context.TryCancel();
  EXPECT_EQ(answer.get().error_code(), grpc::StatusCode::CANCELLED);
  model->WaitForCancelled(1);

  ClientContext hurried;
  hurried.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(400));
  ModelInferResponse response;
  EXPECT_EQ(stub_->ModelInfer(&hurried, EchoRequest("echo", Floats({1})), &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  model->WaitForCancelled(2);
  // Late answers are dropped, and the server keeps serving.
  model->ReleaseAll();
  EXPECT_TRUE(Infer(EchoRequest("echo", Floats({1}))).ok());
}

TEST_F(GrpcServerTest, AnswersManyClientsFromOtherThreads) {
  auto model = AddEcho("echo");
  std::vector<std::thread> backends;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::unique_ptr<InferenceRequest>> queue;
  bool stop = false;
  model->set_responder([&](std::unique_ptr<InferenceRequest> request) {
    std::lock_guard lock(mutex);
    queue.push_back(std::move(request));
    changed.notify_one();
  });
  for (int i = 0; i < 2; ++i) {
    backends.emplace_back([&] {
      std::unique_lock lock(mutex);
      while (true) {
        changed.wait(lock, [&] { return stop || !queue.empty(); });
        if (queue.empty()) return;
        auto request = std::move(queue.front());
        queue.pop_front();
        lock.unlock();
        model->Answer(std::move(request));
        lock.lock();
      }
    });
  }
  StartServer();
  std::vector<std::thread> clients;
  std::atomic<int> good = 0;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 100; ++i) {
        const std::string bytes(static_cast<size_t>(4 * (1 + c * 500 + i)), static_cast<char>(c));
        ClientContext context;
        // Some clients leave without waiting.
        if (i % 10 == 9)
          context.set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(200));
        ModelInferResponse response;
        const grpc::Status status =
            stub_->ModelInfer(&context, EchoRequest("echo", bytes, std::to_string(i)), &response);
        if (i % 10 == 9) continue;
        EXPECT_TRUE(status.ok()) << status.error_message();
        EXPECT_EQ(response.id(), std::to_string(i));
        EXPECT_TRUE(response.raw_output_contents(0) == bytes);
        ++good;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 8 * 90);
  StopServer();
  {
    std::lock_guard lock(mutex);
    stop = true;
  }
  changed.notify_all();
  for (std::thread& backend : backends) backend.join();
}

// ---- ModelStreamInfer ----

TEST_F(GrpcServerTest, AnswersAStreamInTheOrderOfItsRequests) {
  auto model = AddEcho("echo");
  model->Hold();
  StartServer();
  ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(stream->Write(EchoRequest("echo", Floats({static_cast<float>(i)}), std::to_string(i))));
  }
  // A request that reaches no model keeps its place in the order too.
  ASSERT_TRUE(stream->Write(EchoRequest("nope", "", "4")));
  ASSERT_TRUE(stream->WritesDone());
  model->WaitForHeld(4);
  for (size_t index : {3, 1, 1, 0}) model->Release(index);
  ModelStreamInferResponse response;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.error_message(), "");
    EXPECT_EQ(response.infer_response().id(), std::to_string(i));
    EXPECT_EQ(response.infer_response().raw_output_contents(0), Floats({static_cast<float>(i)}));
    EXPECT_TRUE(response.infer_response().parameters().at("triton_final_response").bool_param());
  }
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error_message(), "Request for unknown model: 'nope' is not found");
  EXPECT_EQ(response.infer_response().id(), "4");
  EXPECT_EQ(response.infer_response().model_name(), "");
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcServerTest, SendsResponsesOfDecoupledModelsAsTheyCome) {
  ServableInfo info = FakeServable::EchoInfo("repeat");
  info.decoupled = true;
  auto model = Add(info);
  model->Hold();
  StartServer();
  ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  ModelInferRequest quiet = EchoRequest("repeat", Floats({0}), "quiet");
  ModelInferRequest loud = EchoRequest("repeat", Floats({1}), "loud");
  (*loud.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  ASSERT_TRUE(stream->Write(quiet));
  ASSERT_TRUE(stream->Write(loud));
  ASSERT_TRUE(stream->WritesDone());
  model->WaitForHeld(2);
  auto first = model->Take();
  auto second = model->Take();
  ModelStreamInferResponse response;
  const auto expect = [&](const std::string& id, bool final, int outputs) {
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.infer_response().id(), id);
    EXPECT_EQ(response.infer_response().parameters().at("triton_final_response").bool_param(), final);
    EXPECT_EQ(response.infer_response().outputs_size(), outputs);
    EXPECT_EQ(response.infer_response().model_name(), "repeat");
    EXPECT_EQ(response.infer_response().model_version(), "1");
  };
  second->Respond(FakeServable::Echo(*second, info), false);
  expect("loud", false, 1);
  first->Respond(FakeServable::Echo(*first, info), false);
  expect("quiet", false, 1);
  InferenceResponse error;
  error.status = InternalError("once");
  error.model_name = "repeat";
  error.model_version = 1;
  second->Respond(error, false);
  expect("loud", false, 0);
  EXPECT_EQ(response.error_message(), "once");
  second->Respond(std::nullopt, true);
  expect("loud", true, 0);
  EXPECT_EQ(response.error_message(), "");
  first->Respond(std::nullopt, true);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcServerTest, SendsThousandResponsesOfOneRequest) {
  ServableInfo info = FakeServable::EchoInfo("repeat");
  info.decoupled = true;
  auto model = Add(info);
  model->set_responder([&](std::unique_ptr<InferenceRequest> request) {
    for (int i = 0; i < 1000; ++i) {
      InferenceResponse response = FakeServable::Echo(*request, model->info());
      response.parameters.emplace_back("index", int64_t{i});
      request->Respond(std::move(response), i == 999);
    }
  });
  StartServer();
  ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(EchoRequest("repeat", std::string(8000, 'x'))));
  ASSERT_TRUE(stream->WritesDone());
  ModelStreamInferResponse response;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(stream->Read(&response));
    ASSERT_EQ(response.infer_response().parameters().at("index").int64_param(), i);
    ASSERT_EQ(response.infer_response().parameters().at("triton_final_response").bool_param(), i == 999);
  }
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

// Waiting responses go to gRPC with the hint that more follow, up to its buffer of 64 KiB. No mix of sizes
// may leave a message behind.
TEST_F(GrpcServerTest, SendsWaitingResponsesOfAllSizes) {
  ServableInfo info = FakeServable::EchoInfo("repeat", DataType::kUint8);
  info.decoupled = true;
  auto model = Add(info);
  const auto size_of = [](uint32_t i) {
    constexpr uint32_t kAround[] = {0, 1, 100, 16384, 65000, 65536, 70000, 200000};
    return kAround[i * 2654435761u >> 29] + (i % 37);
  };
  constexpr uint32_t kCount = 1500;
  model->set_responder([&](std::unique_ptr<InferenceRequest> request) {
    HeapAllocator heap;
    for (uint32_t i = 0; i < kCount; ++i) {
      InferenceResponse response = FakeServable::Echo(*request, model->info());
      response.outputs[0].shape = {static_cast<int64_t>(size_of(i))};
      response.outputs[0].data = heap.Allocate(size_of(i)).value();
      request->Respond(std::move(response), false);
    }
    request->Respond(std::nullopt, true);
  });
  StartServer();
  ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  ModelInferRequest request = EchoRequest("repeat", "xxxx");
  request.mutable_inputs(0)->set_datatype("UINT8");
  request.mutable_inputs(0)->mutable_shape()->Set(0, 4);
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->WritesDone());
  ModelStreamInferResponse response;
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(stream->Read(&response)) << i;
    ASSERT_EQ(response.infer_response().raw_output_contents(0).size(), size_of(i)) << i;
  }
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcServerTest, CutsOffAStreamWhoseClientDoesNotRead) {
  log_.set_enabled(LogLevel::kWarning, false);
  ServableInfo info = FakeServable::EchoInfo("repeat", DataType::kUint8);
  info.decoupled = true;
  auto model = Add(info);
  model->Hold();
  StartServer();
  ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  ModelInferRequest request = EchoRequest("repeat", "xxxx");
  request.mutable_inputs(0)->set_datatype("UINT8");
  request.mutable_inputs(0)->mutable_shape()->Set(0, 4);
  ASSERT_TRUE(stream->Write(request));
  model->WaitForHeld(1);
  auto held = model->Take();
  // All responses share one buffer; the limit counts the bytes to send.
  HeapAllocator heap;
  const Buffer block = heap.Allocate(size_t{64} << 20).value();
  const auto respond = [&] {
    InferenceResponse response = FakeServable::Echo(*held, info);
    response.outputs[0].shape = {static_cast<int64_t>(block.size())};
    response.outputs[0].data = block;
    held->Respond(std::move(response), false);
  };
  for (int i = 0; i < 5; ++i) respond();
  EXPECT_FALSE(held->cancelled());
  for (int i = 0; i < 5; ++i) respond();
  EXPECT_TRUE(held->cancelled());
  held->Respond(std::nullopt, true);
  ModelStreamInferResponse response;
  int read = 0;
  while (stream->Read(&response)) ++read;
  EXPECT_LT(read, 5);
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcServerTest, TakesOneResponseOfAModelThatAnswersOnce) {
  auto model = AddEcho("echo");
  model->Hold();
  StartServer();
  ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(EchoRequest("echo", Floats({1}), "a")));
  model->WaitForHeld(1);
  auto request = model->Take();
  request->Respond(FakeServable::Echo(*request, model->info()), false);
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.infer_response().parameters().at("triton_final_response").bool_param());
  request->Respond(FakeServable::Echo(*request, model->info()), false);
  ASSERT_TRUE(stream->WritesDone());
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_FALSE(request->cancelled());
  request->Respond(std::nullopt, true);
}

TEST_F(GrpcServerTest, KeepsAStreamOpenAfterAnError) {
  auto model = AddEcho("echo");
  bool fail = true;
  model->set_responder([&](std::unique_ptr<InferenceRequest> request) {
    if (std::exchange(fail, false)) {
      request->Fail(InternalError("broken"));
    } else {
      model->Answer(std::move(request));
    }
  });
  StartServer();
  ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Write(EchoRequest("echo", Floats({1}), "a")));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error_message(), "broken");
  EXPECT_EQ(response.infer_response().id(), "a");
  EXPECT_EQ(response.infer_response().model_name(), "echo");
  EXPECT_TRUE(response.infer_response().parameters().at("triton_final_response").bool_param());
  EXPECT_EQ(response.infer_response().outputs_size(), 0);
  ASSERT_TRUE(stream->Write(EchoRequest("echo", Floats({1}), "b")));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error_message(), "");
  EXPECT_EQ(response.infer_response().id(), "b");
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcServerTest, EndsAStreamAtItsFirstErrorWhenAskedTo) {
  auto model = AddEcho("echo");
  model->Hold();
  StartServer();
  ClientContext context;
  context.AddMetadata("triton_grpc_error", "true");
  auto stream = stub_->ModelStreamInfer(&context);
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(stream->Write(EchoRequest("echo", Floats({1}), id)));
  model->WaitForHeld(3);
  auto second = model->Take(1);
  second->Fail(InternalError("broken"));
  model->Release(0);
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "a");
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message(), "broken");
  model->WaitForCancelled(1);
  // The late answer has no receiver.
  model->ReleaseAll();
}

TEST_F(GrpcServerTest, CancelsAllRequestsOfACancelledStream) {
  auto model = AddEcho("echo");
  model->Hold();
  StartServer();
  ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream->Write(EchoRequest("echo", Floats({1}))));
  model->WaitForHeld(3);
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  model->WaitForCancelled(3);
  model->ReleaseAll();
  EXPECT_TRUE(Infer(EchoRequest("echo", Floats({1}))).ok());
}

TEST_F(GrpcServerTest, ReadsNoFurtherThanTheRequestsItKeepsOpen) {
  auto model = AddEcho("echo");
  model->Hold();
  StartServer();
  ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  constexpr int kRequests = 1000;
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      ASSERT_TRUE(stream->Write(EchoRequest("echo", Floats({static_cast<float>(i)}), std::to_string(i))));
    }
    stream->WritesDone();
  });
  model->WaitForHeld(256);
  // The last request finishes first. It frees no slot, since its answer cannot be sent yet.
  model->Release(255);
  EXPECT_LE(model->held(), 255u);
  ModelStreamInferResponse response;
  for (int i = 0; i < kRequests; ++i) {
    if (i != 255) {
      model->WaitForHeld(1);
      EXPECT_LE(model->held(), 256u);
      model->Release(0);
    }
    ASSERT_TRUE(stream->Read(&response));
    ASSERT_EQ(response.infer_response().id(), std::to_string(i));
  }
  writer.join();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcServerTest, KeepsStreamsApartUnderLoad) {
  auto model = AddEcho("echo");
  ServableInfo info = FakeServable::EchoInfo("repeat");
  info.decoupled = true;
  auto repeat = Add(info);
  repeat->set_responder([&](std::unique_ptr<InferenceRequest> request) {
    std::thread([&, request = std::move(request)]() mutable {
      for (int i = 0; i < 5; ++i) request->Respond(FakeServable::Echo(*request, info), false);
      request->Respond(std::nullopt, true);
    }).detach();
  });
  StartServer();
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      for (int round = 0; round < 5; ++round) {
        ClientContext context;
        auto stream = stub_->ModelStreamInfer(&context);
        for (int i = 0; i < 20; ++i) {
          ASSERT_TRUE(stream->Write(
              EchoRequest(i % 2 ? "repeat" : "echo", std::string(8192, 'x'), std::to_string(i))));
        }
        ModelStreamInferResponse response;
        if (c == 3) {
          // This client disconnects in the middle.
          stream->Read(&response);
          context.TryCancel();
          stream->Finish();
          continue;
        }
        stream->WritesDone();
        int count = 0;
        int last_echo = -2;
        while (stream->Read(&response)) {
          ++count;
          const int id = std::stoi(response.infer_response().id());
          if (id % 2 == 0) {
            EXPECT_EQ(id, last_echo + 2);
            last_echo = id;
          }
        }
        EXPECT_EQ(count, 10 + 50);
        EXPECT_TRUE(stream->Finish().ok());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  // The servable's gate waits for the detached backends of disconnected clients.
  repeat->gate().Close();
  EXPECT_TRUE(repeat->gate().WaitUntilEmpty(SteadyNowNs() + 30 * kSecond));
}

// ---- Start and stop ----

TEST_F(GrpcServerTest, RefusesAPortInUse) {
  StartServer();
  options_.port = server_->bound_port();
  const Status status = KserveGrpcServer::Start(context_, options_).status();
  EXPECT_EQ(status.message(), "Socket '127.0.0.1:" + std::to_string(options_.port) + "' already in use");
}

TEST_F(GrpcServerTest, SaysWhenItDoesNotServe) {
  AddEcho("echo");
  StartServer();
  control_.set_serving(false);
  ExpectError(EchoRequest("echo", Floats({1})), grpc::StatusCode::UNAVAILABLE, "Server not ready");
  grpc::ClientContext context;
  inference::ModelReadyRequest request;
  request.set_name("echo");
  inference::ModelReadyResponse response;
  ASSERT_TRUE(stub_->ModelReady(&context, request, &response).ok());
  EXPECT_FALSE(response.ready());
  control_.set_serving(true);
  EXPECT_TRUE(Infer(EchoRequest("echo", Floats({1}))).ok());
}

TEST_F(GrpcServerTest, DrainLetsRunningCallsEnd) {
  auto model = AddEcho("echo");
  model->Hold();
  StartServer();
  ClientContext idle_context, busy_context;
  auto idle = stub_->ModelStreamInfer(&idle_context);
  auto busy = stub_->ModelStreamInfer(&busy_context);
  ASSERT_TRUE(busy->Write(EchoRequest("echo", Floats({1}), "s")));
  model->WaitForHeld(1);
  auto answer = std::async(std::launch::async, [&] { return Infer(EchoRequest("echo", Floats({1}))); });
  model->WaitForHeld(2);
  server_->Drain();
  ModelStreamInferResponse response;
  EXPECT_FALSE(idle->Read(&response));
  EXPECT_EQ(idle->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  ExpectError(EchoRequest("echo", Floats({1})), grpc::StatusCode::UNAVAILABLE, "Server exiting");
  auto stopped = std::async(std::launch::async, [&] { server_->Shutdown(SteadyNowNs() + 60 * kSecond); });
  model->ReleaseAll();
  EXPECT_TRUE(answer.get().ok());
  ASSERT_TRUE(busy->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "s");
  EXPECT_FALSE(busy->Read(&response));
  EXPECT_EQ(busy->Finish().error_message(), "Server exiting");
  stopped.get();
}

TEST_F(GrpcServerTest, ShutdownCancelsAtTheDeadlineWhatDoesNotEnd) {
  auto model = AddEcho("echo");
  model->Hold();
  StartServer();
  auto answer = std::async(std::launch::async, [&] { return Infer(EchoRequest("echo", Floats({1}))); });
  ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(EchoRequest("echo", Floats({1}))));
  model->WaitForHeld(2);
  server_->Shutdown(SteadyNowNs());
  EXPECT_FALSE(answer.get().ok());
  EXPECT_FALSE(stream->Finish().ok());
  model->WaitForCancelled(2);
  server_.reset();
  // The backends answer after the server is destroyed.
  model->ReleaseAll();
}

// ---- The control plane ----

TEST_F(GrpcServerTest, AnswersHealthWhileLoadsBlock) {
  AddEcho("echo");
  options_.load_threads = 2;
  StartServer();
  control_.BlockLoads(true);
  std::vector<std::future<grpc::Status>> loads;
  for (int i = 0; i < 5; ++i) {
    loads.push_back(std::async(std::launch::async, [&] {
      ClientContext context;
      inference::RepositoryModelLoadRequest request;
      request.set_model_name("m");
      inference::RepositoryModelLoadResponse response;
      return stub_->RepositoryModelLoad(&context, request, &response);
    }));
  }
  control_.WaitForLoads(2);
  for (int i = 0; i < 20; ++i) {
    ClientContext live, ready, index, check;
    inference::ServerLiveResponse is_live;
    ASSERT_TRUE(stub_->ServerLive(&live, {}, &is_live).ok());
    EXPECT_TRUE(is_live.live());
    inference::ModelReadyRequest model;
    model.set_name("echo");
    inference::ModelReadyResponse is_ready;
    ASSERT_TRUE(stub_->ModelReady(&ready, model, &is_ready).ok());
    EXPECT_TRUE(is_ready.ready());
    inference::RepositoryIndexResponse entries;
    ASSERT_TRUE(stub_->RepositoryIndex(&index, {}, &entries).ok());
    grpc::health::v1::HealthCheckResponse health;
    ASSERT_TRUE(grpc::health::v1::Health::NewStub(channel_)->Check(&check, {}, &health).ok());
    EXPECT_EQ(health.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  }
  EXPECT_TRUE(Infer(EchoRequest("echo", Floats({1}))).ok());
  control_.BlockLoads(false);
  for (auto& load : loads) EXPECT_TRUE(load.get().ok());
  EXPECT_EQ(control_.loads().size(), 5u);
}

TEST_F(GrpcServerTest, HealthFollowsReadiness) {
  StartServer();
  auto health = grpc::health::v1::Health::NewStub(channel_);
  const auto check = [&](const std::string& service, grpc::health::v1::HealthCheckResponse& response) {
    ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    return health->Check(&context, request, &response);
  };
  grpc::health::v1::HealthCheckResponse response;
  ASSERT_TRUE(check("inference.GRPCInferenceService", response).ok());
  EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  control_.set_ready(false);
  ASSERT_TRUE(check("", response).ok());
  EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(check("other", response).error_code(), grpc::StatusCode::NOT_FOUND);
  ClientContext context;
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(stub_->ServerReady(&context, {}, &ready).ok());
  EXPECT_FALSE(ready.ready());
}

TEST_F(GrpcServerTest, DescribesModels) {
  auto config = std::make_shared<inference::ModelConfig>();
  config->set_name("echo");
  ServableInfo info = FakeServable::EchoInfo("echo");
  info.config = config;
  auto model = Add(info);
  info.version = 3;
  Add(info);
  AddEcho("plain");
  catalog_.AddModel("sleeping");
  StartServer();
  {
    ClientContext context;
    inference::ServerMetadataResponse metadata;
    ASSERT_TRUE(stub_->ServerMetadata(&context, {}, &metadata).ok());
    EXPECT_EQ(metadata.name(), "braid");
    EXPECT_EQ(metadata.version(), "1");
    EXPECT_EQ(metadata.extensions_size(), 1);
  }
  {
    ClientContext context;
    inference::ModelMetadataRequest request;
    request.set_name("echo");
    inference::ModelMetadataResponse metadata;
    ASSERT_TRUE(stub_->ModelMetadata(&context, request, &metadata).ok());
    EXPECT_EQ(metadata.platform(), "fake");
    ASSERT_EQ(metadata.versions_size(), 2);
    EXPECT_EQ(metadata.versions(1), "3");
    ASSERT_EQ(metadata.inputs_size(), 1);
    EXPECT_EQ(metadata.inputs(0).datatype(), "FP32");
    EXPECT_EQ(metadata.inputs(0).shape(0), -1);
  }
  {
    ClientContext context;
    inference::ModelMetadataRequest request;
    request.set_name("sleeping");
    inference::ModelMetadataResponse metadata;
    const grpc::Status status = stub_->ModelMetadata(&context, request, &metadata);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_EQ(status.error_message(), "Request for unknown model: 'sleeping' has no available versions");
  }
  {
    ClientContext context, none;
    inference::ModelConfigRequest request;
    request.set_name("echo");
    inference::ModelConfigResponse response;
    ASSERT_TRUE(stub_->ModelConfig(&context, request, &response).ok());
    EXPECT_EQ(response.config().name(), "echo");
    request.set_name("plain");
    EXPECT_EQ(stub_->ModelConfig(&none, request, &response).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  for (const char* name : {"sleeping", "nope"}) {
    ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name(name);
    inference::ModelReadyResponse response;
    ASSERT_TRUE(stub_->ModelReady(&context, request, &response).ok());
    EXPECT_FALSE(response.ready());
  }
  {
    ClientContext context;
    inference::RepositoryIndexResponse index;
    ASSERT_TRUE(stub_->RepositoryIndex(&context, {}, &index).ok());
    ASSERT_EQ(index.models_size(), 4);
    EXPECT_EQ(index.models(0).state(), "READY");
    EXPECT_EQ(index.models(3).name(), "sleeping");
    EXPECT_EQ(index.models(3).version(), "");
  }
}

TEST_F(GrpcServerTest, CountsBeforeTheClientCanSee) {
  AddEcho("echo");
  catalog_.AddModel("sleeping");
  StartServer();
  ASSERT_TRUE(Infer(EchoRequest("echo", Floats({1}))).ok());
  inference::ModelStatisticsRequest request;
  inference::ModelStatisticsResponse response;
  {
    ClientContext context;
    request.set_name("echo");
    ASSERT_TRUE(stub_->ModelStatistics(&context, request, &response).ok());
  }
  ASSERT_EQ(response.model_stats_size(), 1);
  EXPECT_EQ(response.model_stats(0).name(), "echo");
  EXPECT_EQ(response.model_stats(0).version(), "1");
  {
    ClientContext context;
    request.set_name("sleeping");
    EXPECT_EQ(stub_->ModelStatistics(&context, request, &response).error_message(),
              "requested model 'sleeping' is not available");
  }
  {
    ClientContext context;
    request.set_name("nope");
    EXPECT_EQ(stub_->ModelStatistics(&context, request, &response).error_code(), grpc::StatusCode::NOT_FOUND);
  }
}

TEST_F(GrpcServerTest, PassesLoadsAndUnloadsOn) {
  StartServer();
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("m");
  (*load.mutable_parameters())["config"].set_string_param("{}");
  (*load.mutable_parameters())["file:1/model.py"].set_bytes_param("code");
  inference::RepositoryModelLoadResponse loaded;
  {
    ClientContext context;
    ASSERT_TRUE(stub_->RepositoryModelLoad(&context, load, &loaded).ok());
  }
  ASSERT_EQ(control_.loads().size(), 1u);
  EXPECT_EQ(control_.loads()[0].config_json, "{}");
  EXPECT_EQ(control_.loads()[0].files.at("1/model.py"), "code");
  {
    ClientContext context;
    (*load.mutable_parameters())["other"].set_int64_param(1);
    EXPECT_EQ(stub_->RepositoryModelLoad(&context, load, &loaded).error_message(),
              "Unrecognized load parameter 'other' with type 'INT'");
  }
  {
    ClientContext context;
    load.clear_parameters();
    load.set_repository_name("r");
    const grpc::Status status = stub_->RepositoryModelLoad(&context, load, &loaded);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(status.error_message(), "'repository_name' specification is not supported");
  }
  inference::RepositoryModelUnloadRequest unload;
  unload.set_model_name("m");
  (*unload.mutable_parameters())["unload_dependents"].set_bool_param(true);
  inference::RepositoryModelUnloadResponse unloaded;
  {
    ClientContext context;
    ASSERT_TRUE(stub_->RepositoryModelUnload(&context, unload, &unloaded).ok());
  }
  EXPECT_EQ(control_.unloads().at(0), std::make_pair(std::string("m"), true));
  control_.set_answer(UnavailableError("explicit model load / unload is not allowed if polling is enabled"));
  {
    ClientContext context;
    EXPECT_EQ(stub_->RepositoryModelUnload(&context, unload, &unloaded).error_code(),
              grpc::StatusCode::UNAVAILABLE);
  }
}

TEST_F(GrpcServerTest, ChangesLogSettingsAllOrNone) {
  StartServer();
  const auto change = [&](auto set, inference::LogSettingsResponse& response) {
    ClientContext context;
    inference::LogSettingsRequest request;
    set(*request.mutable_settings());
    return stub_->LogSettings(&context, request, &response);
  };
  inference::LogSettingsResponse response;
  ASSERT_TRUE(change(
                  [](auto& settings) {
                    settings["log_info"].set_bool_param(false);
                    settings["log_verbose_level"].set_uint32_param(2);
                    settings["log_format"].set_string_param("ISO8601");
                  },
                  response)
                  .ok());
  EXPECT_FALSE(response.settings().at("log_info").bool_param());
  EXPECT_TRUE(response.settings().at("log_error").bool_param());
  EXPECT_EQ(response.settings().at("log_verbose_level").uint32_param(), 2u);
  EXPECT_EQ(response.settings().at("log_format").string_param(), "ISO8601");
  EXPECT_EQ(response.settings().at("log_file").string_param(), "");
  EXPECT_EQ(log_.verbose_level(), 2);

  EXPECT_EQ(change([](auto& s) { s["log_info"].set_uint32_param(1); }, response).error_message(),
            "expect boolean for 'log_info'");
  EXPECT_EQ(change([](auto& s) { s["log_verbose_level"].set_bool_param(true); }, response).error_message(),
            "expect int32 for 'log_verbose_level'");
  EXPECT_EQ(change([](auto& s) { s["log_format"].set_bool_param(true); }, response).error_message(),
            "expect string for 'log_format'");
  EXPECT_EQ(change([](auto& s) { s["log_format"].set_string_param("x"); }, response).error_message(),
            "invalid argument for --log_format, got: x");
  const grpc::Status file = change(
      [](auto& s) {
        s["log_info"].set_bool_param(true);
        s["log_file"].set_string_param("f");
      },
      response);
  EXPECT_EQ(file.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(file.error_message(), "log file location can not be updated through network protocol");
  EXPECT_FALSE(log_.enabled(LogLevel::kInfo));
}

TEST_F(GrpcServerTest, RestrictsEveryMethod) {
  ASSERT_TRUE(
      context_.grpc_access
          .AddRestriction("health,metadata,inference,shared-memory,model-config,model-repository,statistics,"
                          "trace,logging:Key=secret")
          .ok());
  AddEcho("echo");
  StartServer();
  const auto* service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName("inference.GRPCInferenceService");
  ASSERT_NE(service, nullptr);
  ASSERT_EQ(service->method_count(), 20);
  std::vector<std::string> paths = {"/grpc.health.v1.Health/Check"};
  for (int i = 0; i < service->method_count(); ++i) {
    paths.push_back("/inference.GRPCInferenceService/" + service->method(i)->name());
  }
  for (const std::string& path : paths) {
    const grpc::Status status = CallRaw(path, "");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << path;
    EXPECT_EQ(status.error_message(),
              "This protocol is restricted, expecting header 'triton-grpc-protocol-key'")
        << path;
  }
  ModelInferResponse response;
  for (const char* secret : {"wrong", "secret"}) {
    ClientContext context;
    context.AddMetadata("triton-grpc-protocol-key", secret);
    EXPECT_EQ(stub_->ModelInfer(&context, EchoRequest("echo", Floats({1})), &response).ok(),
              std::string(secret) == "secret");
  }
}

TEST_F(GrpcServerTest, RefusesWhatItDoesNotHave) {
  StartServer();
  EXPECT_EQ(CallRaw("/inference.GRPCInferenceService/TraceSetting", "").error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(CallRaw("/grpc.health.v1.Health/Watch", "").error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(GrpcServerTest, ListsItsServicesByReflection) {
  StartServer();
  std::string answer;
  // ServerReflectionRequest.list_services = ""
  EXPECT_TRUE(CallRaw("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                      std::string("\x3a\x00", 2), &answer)
                  .ok());
  EXPECT_NE(answer.find("inference.GRPCInferenceService"), std::string::npos);
  EXPECT_NE(answer.find("grpc.health.v1.Health"), std::string::npos);
}

}  // namespace
}  // namespace braid
