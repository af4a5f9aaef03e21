#include "protocols/kserve/testing/kserve_servers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "base/clock.h"
#include "protocols/http/message.h"
#include "protocols/http/testing/test_client.h"
#include "protocols/inference/testing/fake_servable.h"
#include "protocols/net/compression.h"
#include "serving/testing/fake_control.h"

namespace braid {
namespace {

using std::string_literals::operator""s;

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string BinaryHeader(size_t json_size) {
  return "Inference-Header-Content-Length: " + std::to_string(json_size) + "\r\n";
}

std::string Error(std::string_view text) { return ErrorResponse(400, text).body; }

class Rest : public testing::Test {
 protected:
  Rest() : context_{catalog_, control_, log_, "braid", "1.2", {"a", "b"}} {
    options_.address = "127.0.0.1";
    echo_ = std::make_shared<FakeServable>(FakeServable::EchoInfo("echo"));
    catalog_.Publish(echo_);
  }
  ~Rest() override {
    if (server_) server_->Shutdown(SteadyNowNs());
  }
  TestClient Connect() {
    if (!server_) {
      auto server = KserveHttpServer::Start(context_, options_);
      BRAID_CHECK(server.ok());
      server_ = std::move(server).value();
    }
    return TestClient(server_->bound_port());
  }
  TestResponse Get(std::string_view target) { return Connect().Request("GET", target).value(); }
  TestResponse Post(std::string_view target, std::string_view body, std::string_view headers = "") {
    return Connect().Request("POST", target, body, headers).value();
  }
  std::shared_ptr<FakeServable> Publish(ServableInfo info) {
    auto servable = std::make_shared<FakeServable>(std::move(info));
    catalog_.Publish(servable);
    return servable;
  }

  Catalog catalog_;
  FakeControl control_;
  Logger log_;
  ProtocolContext context_;
  KserveHttpServer::Options options_;
  std::shared_ptr<FakeServable> echo_;
  std::unique_ptr<KserveHttpServer> server_;
};

constexpr std::string_view kEchoJson =
    R"({"id":"x","inputs":[{"name":"INPUT0","shape":[2],"datatype":"FP32","data":[1,2.5]}]})";
constexpr std::string_view kEchoAnswer =
    R"({"id":"x","model_name":"echo","model_version":"1","outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[2],"data":[1.0,2.5]}]})";

std::string BinaryJson(size_t floats) {
  return R"({"inputs":[{"name":"INPUT0","shape":[)" + std::to_string(floats) +
         R"(],"datatype":"FP32","parameters":{"binary_data_size":)" + std::to_string(floats * 4) +
         R"(}}],"parameters":{"binary_data_output":true}})";
}

TEST_F(Rest, InfersWithJson) {
  TestClient client = Connect();
  for (auto* path :
       {"/v2/models/echo/infer", "/v2/models/echo/versions/1/infer", "/v2/models/%65cho/infer"}) {
    auto response = client.Request("POST", path, kEchoJson);
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, kEchoAnswer);
    EXPECT_EQ(response->header("content-type"), "application/json");
    EXPECT_EQ(response->header("Inference-Header-Content-Length"), "");
  }
}

TEST_F(Rest, InfersWithBinaryOfAllSizes) {
  TestClient client = Connect();
  for (size_t floats : {0u, 1u, 16u, 20'000u, 1'000'000u}) {
    std::vector<float> values(floats);
    for (size_t i = 0; i < floats; ++i) values[i] = static_cast<float>(i);
    const std::string json = BinaryJson(floats);
    auto response =
        client.Request("POST", "/v2/models/echo/infer", json + BytesOf(values), BinaryHeader(json.size()));
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    const size_t size = std::stoul(response->header("Inference-Header-Content-Length"));
    EXPECT_EQ(response->header("Content-Type"), "application/octet-stream");
    EXPECT_NE(response->body.substr(0, size).find("\"binary_data_size\":" + std::to_string(floats * 4)),
              std::string::npos);
    EXPECT_TRUE(response->body.substr(size) == BytesOf(values));
  }
}

TEST_F(Rest, MixesBinaryAndJsonInputs) {
  ServableInfo info = FakeServable::EchoInfo("two");
  info.inputs.push_back(TensorSpec{.name = "INPUT1", .type = DataType::kInt32, .shape = {-1}, .labels = {}});
  info.outputs.push_back(
      TensorSpec{.name = "OUTPUT1", .type = DataType::kInt32, .shape = {-1}, .labels = {}});
  Publish(info);
  const std::string json =
      R"({"inputs":[{"name":"INPUT1","shape":[2],"datatype":"INT32","data":[7,8]},)"
      R"({"name":"INPUT0","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}],)"
      R"("outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}},{"name":"OUTPUT1"}]})";
  auto response = Post("/v2/models/two/infer", json + BytesOf<float>({0.5}), BinaryHeader(json.size()));
  EXPECT_EQ(response.status, 200);
  const size_t size = std::stoul(response.header("Inference-Header-Content-Length"));
  EXPECT_EQ(
      response.body.substr(0, size),
      R"({"model_name":"two","model_version":"1","outputs":[{"name":"OUTPUT1","datatype":"INT32","shape":[2],"data":[7,8]},)"
      R"({"name":"OUTPUT0","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}]})");
  EXPECT_EQ(response.body.substr(size), BytesOf<float>({0.5}));
}

TEST_F(Rest, TakesRawRequests) {
  const std::string raw = BytesOf<float>({1, 2, 3});
  auto response = Post("/v2/models/echo/infer", raw, BinaryHeader(0));
  EXPECT_EQ(response.status, 200);
  const size_t size = std::stoul(response.header("Inference-Header-Content-Length"));
  EXPECT_EQ(response.body.substr(size), raw);
  EXPECT_NE(response.body.find("\"shape\":[3]"), std::string::npos);
  EXPECT_EQ(Post("/v2/models/echo/infer", "").status, 200);
  const std::pair<int, Shape> shapes[] = {{0, {1}},    {4, {-1, 1}},  {0, {-1}}, {0, {2}},
                                          {0, {1, 1}}, {4, {-1, -1}}, {4, {-1}}};
  for (const auto& [max_batch_size, shape] : shapes) {
    ServableInfo text = FakeServable::EchoInfo("text", DataType::kBytes);
    text.max_batch_size = max_batch_size;
    text.inputs[0].shape = text.outputs[0].shape = shape;
    Publish(std::move(text));
    response = Post("/v2/models/text/infer", "hello", BinaryHeader(0));
    if (&shape <= &shapes[1].second) {
      EXPECT_EQ(response.status, 200) << response.body;
      EXPECT_NE(response.body.find("\x05\0\0\0hello"s), std::string::npos);
    } else {
      EXPECT_EQ(response.status, 400);
      EXPECT_EQ(response.body,
                Error("For BYTE datatype raw input 'INPUT0', the model must have input shape [1]"));
    }
  }
}

TEST_F(Rest, ChecksTheHeaderOfTheJsonPart) {
  EXPECT_EQ(Post("/v2/models/echo/infer", "{}", "Inference-Header-Content-Length: abc\r\n").body,
            Error("Unable to parse Inference-Header-Content-Length, got: abc"));
  EXPECT_EQ(Post("/v2/models/echo/infer", "{}", BinaryHeader(3)).body,
            Error("inference header size should be in range (0, 2), got: 3"));
  auto negative = Post("/v2/models/echo/infer", "{}", "Inference-Header-Content-Length: -1\r\n");
  EXPECT_EQ(negative.status, 400);
  EXPECT_EQ(negative.body, Error("inference header size should be in range (0, 2), got: -1"));
  TestClient client = Connect();
  ASSERT_TRUE(
      client.Send("POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" +
                  BinaryHeader(9) + "\r\n2\r\n{}\r\n0\r\n\r\n"));
  EXPECT_EQ(client.Read()->body, Error("inference header size should be in range (0, 2), got: 9"));
}

TEST_F(Rest, TakesChunkedAndCompressedBodies) {
  const std::vector<float> values(30'000, 1.5f);
  const std::string json = BinaryJson(values.size());
  const std::string body = json + BytesOf(values);
  TestClient client = Connect();
  for (auto coding : {ContentCoding::kGzip, ContentCoding::kDeflate}) {
    const std::string name(ContentCodingName(coding));
    const std::string_view parts[] = {body};
    auto response = client.Request(
        "POST", "/v2/models/echo/infer", *Compress(coding, parts),
        "Content-Encoding: " + name + "\r\nAccept-Encoding: " + name + "\r\n" + BinaryHeader(json.size()));
    ASSERT_TRUE(response);
    ASSERT_EQ(response->status, 200) << response->body;
    EXPECT_EQ(response->header("Content-Encoding"), name);
    Decompressor decompressor;
    std::string decoded;
    ASSERT_TRUE(decompressor.Append(response->body, decoded, 1 << 20).ok());
    EXPECT_TRUE(decoded.substr(std::stoul(response->header("Inference-Header-Content-Length"))) ==
                BytesOf(values));
  }
  char chunk[32];
  std::snprintf(chunk, sizeof(chunk), "%zx\r\n", body.size());
  ASSERT_TRUE(
      client.Send("POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" +
                  BinaryHeader(json.size()) + "\r\n" + chunk + body + "\r\n0\r\n\r\n"));
  auto response = client.Read();
  ASSERT_EQ(response->status, 200);
  EXPECT_TRUE(response->body.substr(response->body.size() - values.size() * 4) == BytesOf(values));
}

TEST_F(Rest, AnswersErrorsOfTheModelAndOfTheCatalog) {
  auto unknown = Post("/v2/models/nope/infer", kEchoJson);
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body, Error("Request for unknown model: 'nope' is not found"));
  EXPECT_EQ(Post("/v2/models/echo/versions/9/infer", kEchoJson).body,
            Error("Request for unknown model: 'echo' version 9 is not found"));
  auto failing = Publish(FakeServable::EchoInfo("failing"));
  failing->set_responder(
      [](std::unique_ptr<InferenceRequest> request) { request->Fail(NotFoundError("bare")); });
  auto failed = Post("/v2/models/failing/infer", kEchoJson);
  EXPECT_EQ(failed.status, 404);
  EXPECT_EQ(failed.body, Error("bare"));
  failing->set_responder(
      [](std::unique_ptr<InferenceRequest> request) { request->Respond(std::nullopt, true); });
  EXPECT_EQ(Post("/v2/models/failing/infer", kEchoJson).status, 500);
  ServableInfo decoupled = FakeServable::EchoInfo("decoupled");
  decoupled.decoupled = true;
  Publish(decoupled);
  auto refused = Post("/v2/models/decoupled/infer", kEchoJson);
  EXPECT_EQ(refused.status, 501);
  EXPECT_EQ(refused.body, Error("HTTP end point doesn't support models with decoupled transaction policy"));
  EXPECT_EQ(Post("/v2/models/echo/infer", "{").status, 500);
}

TEST_F(Rest, RefusesInputsBeyondTheLimit) {
  options_.max_input_bytes = 1000;
  auto refused = Post("/v2/models/echo/infer", std::string(1001, 'x'), BinaryHeader(0));
  EXPECT_EQ(refused.status, 413);
  EXPECT_EQ(refused.body,
            Error("request size of 1001 bytes exceeds the maximum allowed input size of 1000 bytes. Use "
                  "--http-max-input-size to increase the limit."));
}

TEST_F(Rest, ForwardsHeadersThatMatch) {
  context_.http_headers = HeaderForwarding::Create("my_.*|timeout").value();
  echo_->set_responder([](std::unique_ptr<InferenceRequest> request) {
    InferenceResponse response;
    response.model_name = "echo";
    response.parameters = request->parameters;
    request->Respond(std::move(response), true);
  });
  EXPECT_EQ(
      Post("/v2/models/echo/infer", kEchoJson, "My_Header: v\r\nNot_my_header: w\r\n").body,
      R"({"id":"x","model_name":"echo","model_version":"0","parameters":{"My_Header":"v"},"outputs":[]})");
  auto refused = Post("/v2/models/echo/infer", kEchoJson, "Timeout: 5\r\n");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.body, Error("Header 'Timeout' is reserved for Triton usage and cannot be forwarded."));
  EXPECT_EQ(HeaderForwarding::Create("(").status().code(), StatusCode::kInvalidArgument);
  context_.http_headers = HeaderForwarding::Create("my_.*|auth.*", {"MY_secret"}).value();
  EXPECT_EQ(
      Post("/v2/models/echo/infer", kEchoJson, "My_Header: v\r\nMy_Secret: s\r\nAuthorization: Bearer t\r\n")
          .body,
      R"({"id":"x","model_name":"echo","model_version":"0","parameters":{"My_Header":"v"},"outputs":[]})");
}

TEST_F(Rest, AnswersFromAnotherThreadInOrder) {
  echo_->Hold();
  TestClient client = Connect();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(client.SendRequest("POST", "/v2/models/echo/infer", kEchoJson));
    ASSERT_TRUE(client.SendRequest("GET", "/v2/health/live"));
    echo_->WaitForHeld(1);
    echo_->Release();
    EXPECT_EQ(client.Read()->body, kEchoAnswer);
    EXPECT_EQ(client.Read()->body, R"({"live": true})");
  }
}

TEST_F(Rest, AnswersWithTheFirstResponseAndDropsOthers) {
  echo_->Hold();
  TestClient client = Connect();
  client.SendRequest("POST", "/v2/models/echo/infer", kEchoJson);
  echo_->WaitForHeld(1);
  auto held = echo_->Take();
  held->Respond(FakeServable::Echo(*held, echo_->info()), false);
  EXPECT_EQ(client.Read()->body, kEchoAnswer);
  client.Close();
  held->Respond(FakeServable::Echo(*held, echo_->info()), false);
  held->Respond(std::nullopt, true);
}

TEST_F(Rest, CancelsTheRequestOfAClientThatGoesAway) {
  echo_->Hold();
  TestClient client = Connect();
  ASSERT_TRUE(client.SendRequest("POST", "/v2/models/echo/infer", kEchoJson));
  echo_->WaitForHeld(1);
  client.Close();
  echo_->WaitForCancelled(1);
  auto request = echo_->Take();
  EXPECT_TRUE(request->cancelled());
  request->Fail(CancelledError("cancelled"));
}

TEST_F(Rest, WritesLongJsonAwayFromTheThreadThatAnswers) {
  echo_->Hold();
  TestClient client = Connect();
  const std::string json =
      R"({"inputs":[{"name":"INPUT0","shape":[100000],"datatype":"FP32","parameters":{"binary_data_size":400000}}]})";
  ASSERT_TRUE(client.SendRequest("POST", "/v2/models/echo/infer", json + std::string(400'000, '\0'),
                                 BinaryHeader(json.size())));
  echo_->WaitForHeld(1);
  echo_->Release();
  auto response = client.Read();
  EXPECT_EQ(response->status, 200);
  EXPECT_GT(response->body.size(), 400'000u);
}

TEST_F(Rest, TellsHealth) {
  EXPECT_EQ(Get("/v2/health/live").status, 200);
  EXPECT_EQ(Get("/v2/health/live").body, R"({"live": true})");
  EXPECT_EQ(Get("/v2/health/ready").status, 200);
  EXPECT_EQ(Get("/v2/health/ready").body, R"({"ready": true})");
  control_.set_ready(false);
  EXPECT_EQ(Get("/v2/health/ready").status, 400);
  EXPECT_EQ(Get("/v2/health/ready").body, R"({"ready": false})");
  EXPECT_EQ(Get("/v2/health/live").status, 200);
  EXPECT_EQ(Get("/v2/models/echo/ready").status, 200);
  EXPECT_EQ(Get("/v2/models/echo/versions/1/ready").status, 200);
  auto unknown = Get("/v2/models/nope/ready");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body, Error("Request for unknown model: 'nope' is not found"));
  echo_->set_readiness({false, "restarting"});
  auto restarting = Get("/v2/models/echo/ready");
  EXPECT_EQ(restarting.status, 400);
  EXPECT_EQ(restarting.body, Error("Model version not ready"));
  catalog_.SetState("gone", 1, VersionState::kUnavailable, "unloaded");
  EXPECT_EQ(Get("/v2/models/gone/ready").status, 400);
  EXPECT_EQ(Get("/v2/models/gone/versions/1/ready").status, 400);
  EXPECT_EQ(Get("/v2/models/gone/versions/2/ready").status, 404);
}

TEST_F(Rest, RefusesAllButHealthUntilItKnowsItsModels) {
  control_.set_serving(false);
  auto refused = Post("/v2/models/echo/infer", kEchoJson);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.body, Error("Server not ready"));
  EXPECT_EQ(Get("/v2").status, 503);
  EXPECT_EQ(Get("/v2/models/echo/ready").status, 400);
  EXPECT_EQ(Get("/v2/health/live").status, 200);
}

TEST_F(Rest, DescribesItselfAndItsModels) {
  EXPECT_EQ(Get("/v2").body, R"({"name":"braid","version":"1.2","extensions":["a","b"]})");
  EXPECT_EQ(
      Get("/v2/models/echo").body,
      R"({"name":"echo","versions":["1"],"platform":"fake","inputs":[{"name":"INPUT0","datatype":"FP32","shape":[-1]}],)"
      R"("outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[-1]}]})");
  catalog_.AddModel("later");
  auto later = Get("/v2/models/later");
  EXPECT_EQ(later.status, 404);
  EXPECT_EQ(later.body, Error("Request for unknown model: 'later' has no available versions"));
  EXPECT_EQ(Get("/v2/models/echo/config").status, 501);
}

TEST_F(Rest, CountsWhatItDid) {
  Post("/v2/models/echo/infer", kEchoJson);
  for (auto* path : {"/v2/models/stats", "/v2/models/echo/stats", "/v2/models/echo/versions/1/stats"}) {
    auto stats = Get(path);
    EXPECT_EQ(stats.status, 200);
    EXPECT_EQ(stats.body.rfind(R"({"model_stats":[{"name":"echo","version":"1","last_inference":)", 0), 0u)
        << stats.body;
    EXPECT_NE(stats.body.find(
                  R"("inference_count":1,"execution_count":1,"inference_stats":{"success":{"count":1,"ns":)"),
              std::string::npos);
    EXPECT_NE(
        stats.body.find(R"("response_stats":{},"batch_stats":[{"batch_size":1,"compute_input":{"count":1,)"),
        std::string::npos);
    EXPECT_NE(stats.body.find(R"("memory_usage":[]}]})"), std::string::npos);
  }
  catalog_.SetState("gone", 1, VersionState::kUnavailable, "unloaded");
  auto gone = Get("/v2/models/gone/stats");
  EXPECT_EQ(gone.status, 400);
  EXPECT_EQ(gone.body, Error("requested model 'gone' is not available"));
  EXPECT_EQ(Get("/v2/models/nope/stats").status, 404);
}

TEST_F(Rest, ListsTheRepository) {
  catalog_.AddModel("never");
  catalog_.SetState("broken", 2, VersionState::kUnavailable, "no \"file\"");
  EXPECT_EQ(Post("/v2/repository/index", "").body,
            R"([{"name":"broken","version":"2","state":"UNAVAILABLE","reason":"no \"file\""},)"
            R"({"name":"echo","version":"1","state":"READY"},{"name":"never"}])");
  EXPECT_EQ(Post("/v2/repository/index", R"({"ready":true})").body,
            R"([{"name":"echo","version":"1","state":"READY"}])");
  auto wrong = Post("/v2/repository/index", R"({"ready":1})");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(wrong.body, Error("Invalid value for 'ready': expected a boolean"));
  for (const size_t depth : {1, 99, 150, 3000}) {
    const std::string nested = std::string(depth, '[') + std::string(depth, ']');
    auto deep = Post("/v2/repository/index", R"({"x": [1], "ready": )" + nested + "}");
    EXPECT_EQ(deep.status, 400);
    EXPECT_EQ(deep.body, Error("Invalid value for 'ready': expected a boolean")) << depth;
  }
  const std::string other =
      R"({"ready": true, "x": )" + std::string(3000, '[') + std::string(3000, ']') + "}";
  EXPECT_EQ(Post("/v2/repository/index", other).body,
            Error("JSON nesting depth exceeds maximum allowed limit (100)"));
  auto named = Post("/v2/repository/mine/index", "");
  EXPECT_EQ(named.status, 501);
  EXPECT_EQ(named.body, Error("'repository_name' specification is not supported"));
}

TEST_F(Rest, LoadsAndUnloads) {
  auto loaded =
      Post("/v2/repository/models/m/load",
           R"({"parameters":{"config":"{\"name\":\"m\"}","file:1/model.py":"aGVsbG8=","file:1/empty":""}})");
  EXPECT_EQ(loaded.status, 200) << loaded.body;
  EXPECT_EQ(Post("/v2/repository/models/n/load", "").status, 200);
  ASSERT_EQ(control_.loads().size(), 2u);
  EXPECT_EQ(control_.loads()[0].model_name, "m");
  EXPECT_EQ(control_.loads()[0].config_json, R"({"name":"m"})");
  EXPECT_EQ(control_.loads()[0].files,
            (std::map<std::string, std::string>{{"1/model.py", "hello"}, {"1/empty", ""}}));
  EXPECT_EQ(control_.loads()[1].config_json, std::nullopt);
  auto unknown = Post("/v2/repository/models/m/load", R"({"parameters":{"other":"x"}})");
  EXPECT_EQ(unknown.status, 500);
  EXPECT_EQ(unknown.body, Error("unexpected error on creating Triton parameter"));
  EXPECT_EQ(Post("/v2/repository/models/m/load", R"({"parameters":{"file:x":"not base64"}})").status, 400);
  EXPECT_EQ(Post("/v2/repository/models/m/unload", R"({"parameters":{"unload_dependents":true}})").status,
            200);
  EXPECT_EQ(Post("/v2/repository/models/m/unload", "").status, 200);
  EXPECT_EQ(control_.unloads(), (std::vector<std::pair<std::string, bool>>{{"m", true}, {"m", false}}));
  control_.set_answer(UnavailableError("explicit model load / unload is not allowed if polling is enabled"));
  auto refused = Post("/v2/repository/models/m/load", "");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.body, Error("explicit model load / unload is not allowed if polling is enabled"));
}

TEST_F(Rest, AnswersHealthWhileLoadsRun) {
  options_.control_threads = 2;
  control_.BlockLoads(true);
  std::vector<TestClient> loading;
  for (int i = 0; i < 3; ++i) {
    loading.push_back(Connect());
    ASSERT_TRUE(loading.back().SendRequest("POST", "/v2/repository/models/m/load"));
  }
  control_.WaitForLoads(2);
  EXPECT_EQ(Get("/v2/health/live").status, 200);
  EXPECT_EQ(Post("/v2/models/echo/infer", kEchoJson).status, 200);
  control_.BlockLoads(false);
  for (TestClient& client : loading) EXPECT_EQ(client.Read()->status, 200);
}

TEST_F(Rest, ChangesTheLog) {
  const std::string defaults =
      R"({"log_file":"","log_info":true,"log_warning":true,"log_error":true,"log_verbose_level":0,"log_format":"default"})";
  EXPECT_EQ(Get("/v2/logging").body, defaults);
  struct Case {
    std::string body;
    int status;
    std::string message;
  };
  for (const Case& c : {
           Case{R"({"log_info":false,"log_file":"/tmp/x"})", 501,
                "log file location can not be updated through network protocol"},
           Case{R"({"log_format":"x"})", 503, "invalid argument for --log_format, got: x"},
           Case{R"({"log_info":1})", 500, "attempt to access JSON non-boolean as boolean"},
           Case{R"({"log_verbose_level":-1})", 500,
                "attempt to access JSON non-unsigned-integer as unsigned-integer"},
           Case{R"({"log_verbose_level":"1"})", 500,
                "attempt to access JSON non-unsigned-integer as unsigned-integer"},
           Case{R"({"other":1})", 400, "unknown log setting 'other'"},
       }) {
    auto refused = Post("/v2/logging", c.body);
    EXPECT_EQ(refused.status, c.status) << c.body;
    EXPECT_EQ(refused.body, Error(c.message));
  }
  EXPECT_EQ(Get("/v2/logging").body, defaults);
  EXPECT_EQ(
      Post("/v2/logging", R"({"log_info":false,"log_verbose_level":2,"log_format":"ISO8601"})").body,
      R"({"log_file":"","log_info":false,"log_warning":true,"log_error":true,"log_verbose_level":2,"log_format":"ISO8601"})");
}

TEST_F(Rest, SaysWhatItDoesNotServe) {
  auto unknown = Get("/v2/nothing");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body, R"({"error":"Not Found"})");
  auto method = Get("/v2/models/echo/infer");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.body, R"({"error":"Method Not Allowed"})");
  EXPECT_EQ(Post("/v2/systemsharedmemory/region/r/register", "{}").status, 400);
  EXPECT_EQ(Get("/v2/trace/setting").status, 501);
}

// Proves that every route checks rights. With every API restricted, every route of the table requires its
// API's secret, and the secret of another API is not accepted.
TEST_F(Rest, GuardsEveryRoute) {
  for (int api = 0; api < kApiCount; ++api) {
    const std::string name(ApiName(static_cast<Api>(api)));
    ASSERT_TRUE(context_.http_access.AddRestriction(name + ":key-" + name + "=secret-" + name).ok());
  }
  TestClient client = Connect();
  for (const HttpRoute& route : KserveHttp::Routes()) {
    std::string path(route.pattern);
    for (auto [variable, value] : {std::pair("{m}", "echo"), std::pair("{v}", "1"), std::pair("{r}", "r")}) {
      if (size_t at = path.find(variable); at != std::string::npos) path.replace(at, 3, value);
    }
    const std::string name(ApiName(route.api));
    const std::string expected = Error("This API is restricted, expecting header 'key-" + name + "'");
    const std::string other = name == "health" ? "metadata" : "health";
    for (const std::string& headers :
         {""s, "key-" + name + ": wrong\r\n", "key-" + other + ": secret-" + other + "\r\n"}) {
      auto refused = client.Request(route.method, path, "", headers);
      ASSERT_TRUE(refused) << path;
      EXPECT_EQ(refused->status, 403) << route.method << " " << path;
      EXPECT_EQ(refused->body, expected) << path;
    }
    const std::string key = "Key-" + name + ": secret-" + name + "\r\n";
    auto let_in = client.Request(route.method, path, "", key);
    ASSERT_TRUE(let_in);
    EXPECT_NE(let_in->status, 403) << path;
    // A page of another origin cannot change anything, even with the secret.
    auto page = client.Request(route.method, path, "", key + "Origin: http://evil.example\r\n");
    ASSERT_TRUE(page);
    EXPECT_EQ(page->status == 403, route.method != "GET") << path;
  }
}

TEST_F(Rest, ShutsDownWhileRequestsRun) {
  echo_->Hold();
  TestClient client = Connect();
  ASSERT_TRUE(client.SendRequest("POST", "/v2/models/echo/infer", kEchoJson));
  echo_->WaitForHeld(1);
  std::thread stopper([this] { server_->Shutdown(SteadyNowNs() + 20'000'000'000); });
  echo_->Release();
  EXPECT_EQ(client.Read()->body, kEchoAnswer);
  client.Close();
  stopper.join();
  // A request that outlives the server is cancelled, and its answer is dropped.
  echo_->Hold();
  server_.reset();
  TestClient second = Connect();
  ASSERT_TRUE(second.SendRequest("POST", "/v2/models/echo/infer", kEchoJson));
  echo_->WaitForHeld(1);
  server_->Shutdown(SteadyNowNs());
  server_.reset();
  echo_->WaitForCancelled(1);
  echo_->Release();
  EXPECT_TRUE(second.AtEnd());
}

// Whole requests, mutated at random and cut into random pieces: the server keeps answering correctly.
TEST_F(Rest, SurvivesRandomRequests) {
  const std::string json = BinaryJson(4);
  const std::string seeds[] = {
      "POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
          std::to_string(json.size() + 16) + "\r\n" + BinaryHeader(json.size()) + "\r\n" + json +
          std::string(16, 'f'),
      "POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1e\r\n" +
          std::string(kEchoJson.substr(0, 30)) + "\r\n0\r\n\r\n",
      "POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: "
      "5\r\n\r\n\x1f\x8b\x08xx",
      "POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
      "14\r\n\r\n{\"ready\":true}GET /v2 "
      "HTTP/1.1\r\nHost: localhost\r\n\r\n",
  };
  std::mt19937 random(3);
  for (int i = 0; i < 800; ++i) {
    std::string text = seeds[random() % 4];
    for (unsigned edits = random() % 4; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 2)
        text[at] = static_cast<char>(random());
      else
        text.insert(at, text.substr(random() % text.size(), random() % 30));
    }
    TestClient client = Connect();
    size_t at = 0;
    while (at < text.size()) {
      const size_t piece = std::min<size_t>(text.size() - at, 1 + random() % 200);
      if (!client.Send(std::string_view(text).substr(at, piece))) break;
      at += piece;
    }
    client.HalfClose();
    while (client.Read()) {
    }
  }
  EXPECT_EQ(Post("/v2/models/echo/infer", kEchoJson).body, kEchoAnswer);
}

}  // namespace
}  // namespace braid
