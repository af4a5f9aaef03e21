#include "protocols/openai/routes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/json.h"
#include "protocols/http/server.h"
#include "protocols/http/testing/test_client.h"
#include "protocols/inference/testing/fake_servable.h"
#include "protocols/openai/tensors.h"
#include "serving/testing/fake_control.h"
#include "tensor/bytes_elements.h"

namespace braid {
namespace {

class OpenAi : public testing::Test {
 protected:
  OpenAi() : context_{catalog_, control_, log_, "braid", "1.2", {}}, routes_(context_, nullptr) {
    ServableInfo writer;
    writer.name = "writer";
    writer.decoupled = true;
    writer.openai.kind = OpenAiKind::kText;
    writer.inputs = {{.name = "text_input", .type = DataType::kBytes, .shape = {1}}};
    writer.outputs = {{.name = "text_output", .type = DataType::kBytes, .shape = {1}}};
    writer_ = std::make_shared<FakeServable>(writer);
    catalog_.Publish(writer_);
    ServableInfo embedder;
    embedder.name = "embedder";
    embedder.max_batch_size = 2;
    embedder.openai.kind = OpenAiKind::kEmbedding;
    embedder.inputs = {{.name = "text_input", .type = DataType::kBytes, .shape = {-1, 1}}};
    embedder.outputs = {{.name = "embedding", .type = DataType::kFp32, .shape = {-1, 2}}};
    embedder_ = std::make_shared<FakeServable>(embedder);
    // A row has the length of its text, and its place in the request.
    embedder_->set_responder([this](std::unique_ptr<InferenceRequest> request) {
      ++requests_;
      parameters_ = ParametersToJson(request->parameters);
      InferenceResponse response;
      response.model_name = "embedder";
      std::string rows;
      BytesElements texts(request->inputs[0].data.text());
      for (float place = 0; texts.Next(); ++place) {
        const float row[] = {static_cast<float>(texts.value().size()), place};
        rows.append(reinterpret_cast<const char*>(row), sizeof(row));
      }
      Tensor& output = response.outputs.emplace_back();
      output.name = "embedding";
      output.type = DataType::kFp32;
      output.shape = {request->inputs[0].shape[0], 2};
      output.data = CopyToHeap(std::as_bytes(std::span(rows)));
      response.parameters.emplace_back("num_input_tokens", static_cast<int64_t>(output.shape[0]));
      request->Respond(std::move(response), true);
    });
    catalog_.Publish(embedder_);
    catalog_.Publish(std::make_shared<FakeServable>(FakeServable::EchoInfo("other")));
    HttpServer::Options options;
    options.address = "127.0.0.1";
    options.port = 0;
    server_ = HttpServer::Start(context_.http_access, control_, {&routes_}, options).value();
  }
  ~OpenAi() override { server_->Shutdown(SteadyNowNs()); }

  TestClient Connect() { return TestClient(server_->bound_port()); }
  TestResponse Ask(std::string_view method, std::string_view path, std::string_view body = "") {
    return Connect().Request(method, path, body).value();
  }
  // Starts a completion and returns its request for the test to answer.
  std::unique_ptr<InferenceRequest> Run(TestClient& client, bool stream, std::string_view more = "") {
    writer_->Hold();
    client.SendRequest("POST", "/v1/completions",
                       std::string(R"({"model":"writer","prompt":"p","stream":)") +
                           (stream ? "true" : "false") + std::string(more) + "}");
    writer_->WaitForHeld(1);
    return writer_->Take();
  }
  static InferenceResponse Text(const std::string& text) {
    HeapAllocator heap;
    InferenceResponse response;
    response.model_name = "writer";
    response.outputs.push_back(TextTensor("text_output", {1}, std::vector<std::string>{text}, heap).value());
    return response;
  }
  static InferenceResponse Failure(Status status) {
    InferenceResponse response;
    response.model_name = "writer";
    response.status = std::move(status);
    return response;
  }

  Catalog catalog_;
  FakeControl control_;
  Logger log_;
  ProtocolContext context_;
  OpenAiRoutes routes_;
  std::shared_ptr<FakeServable> writer_;
  std::shared_ptr<FakeServable> embedder_;
  std::atomic<int> requests_ = 0;  // to the embedder
  std::string parameters_;         // of the last of them
  std::unique_ptr<HttpServer> server_;
};

TEST_F(OpenAi, ListsTheModelsThatItServes) {
  const Json list = ParseJson(Ask("GET", "/v3/models").body);
  ASSERT_EQ(list.at("data").size(), 2u);
  EXPECT_EQ(list.at("data")[0].at("id"), "embedder");
  EXPECT_EQ(list.at("data")[1].at("id"), "writer");
  const Json model = ParseJson(Ask("GET", "/v1/models/writer").body);
  EXPECT_EQ(model.at("object"), "model");
  EXPECT_EQ(model.at("created"), writer_->made_ms() / 1000);
  const TestResponse unknown = Ask("GET", "/v3/v1/models/other");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(ParseJson(unknown.body).at("error").at("code"), "model_not_found");
}

TEST_F(OpenAi, RefusesInOpenAisForm) {
  const auto error = [](const TestResponse& response) {
    const Json body = ParseJson(response.body).at("error");
    return std::to_string(response.status) + " " + body.at("type").get<std::string>() + " " +
           DumpJson(body.at("param")) + " " + DumpJson(body.at("code"));
  };
  EXPECT_EQ(error(Ask("POST", "/v1/chat/completions", "{")), "400 invalid_request_error null null");
  EXPECT_EQ(error(Ask("POST", "/v1/completions", R"({"model":"writer"})")),
            R"(400 invalid_request_error "prompt" null)");
  EXPECT_EQ(error(Ask("POST", "/v1/completions", R"({"model":"none","prompt":"x"})")),
            R"(404 invalid_request_error "model" "model_not_found")");
  EXPECT_EQ(error(Ask("POST", "/v1/completions", R"({"model":"other","prompt":"x"})")),
            R"(400 invalid_request_error "model" null)");
  EXPECT_EQ(error(Ask("POST", "/v1/embeddings", R"({"model":"embedder","input":[1,2]})")),
            R"(400 invalid_request_error "input" null)");
  EXPECT_EQ(error(Ask("GET", "/v3/chat/completions")), "405 invalid_request_error null null");
  EXPECT_EQ(error(Ask("GET", "/v3/nothing")), "404 invalid_request_error null null");
  EXPECT_EQ(error(Ask("POST", "/v1/responses", "{}")), "404 invalid_request_error null null");
  control_.set_serving(false);
  EXPECT_EQ(error(Ask("GET", "/v1/models")), "503 server_error null null");
}

TEST_F(OpenAi, ShapesErrorsOfTheTransport) {
  TestClient client = Connect();
  client.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n");
  const auto refused = client.Read();
  EXPECT_EQ(refused->status, 413);
  EXPECT_EQ(ParseJson(refused->body).at("error").at("type"), "invalid_request_error");
  TestClient other = Connect();
  other.Send("POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n");
  EXPECT_TRUE(ParseJson(other.Read()->body).at("error").is_string());
}

TEST_F(OpenAi, StreamsEachPieceAtOnce) {
  TestClient client = Connect();
  auto request = Run(client, true);
  request->Respond(Text("a"), false);
  const auto head = client.ReadHead();
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->header("Content-Type"), "text/event-stream; charset=utf-8");
  EXPECT_TRUE(head->header("x-request-id").starts_with("cmpl-"));
  EXPECT_NE(client.ReadChunk()->find(R"("text":"a")"), std::string::npos);
  request->Respond(Failure(InternalError("oh")), false);
  EXPECT_EQ(
      *client.ReadChunk(),
      "data: {\"error\":{\"message\":\"oh\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n"
      "data: [DONE]\n\n");
  EXPECT_EQ(*client.ReadChunk(), "");
  EXPECT_TRUE(request->cancelled());
  request->Respond(std::nullopt, true);
}

TEST_F(OpenAi, AnswersAnErrorBeforeTheFirstEventWithItsStatus) {
  TestClient client = Connect();
  auto request = Run(client, true);
  request->Respond(Failure(InternalError("oh")), true);
  const auto failed = client.Read();
  EXPECT_EQ(failed->status, 500);
  EXPECT_EQ(failed->header("Content-Type"), "application/json");
  EXPECT_EQ(failed->header("x-should-retry"), "false");
  auto busy = Run(client, true);
  busy->Refuse(UnavailableError("full"));
  const auto refused = client.Read();
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->header("x-should-retry"), "");
}

TEST_F(OpenAi, EndsTheReplyAndTheRequestAtAStopText) {
  TestClient client = Connect();
  auto request = Run(client, false, R"(,"stop":"END")");
  request->Respond(Text("one EN"), false);
  EXPECT_FALSE(request->cancelled());
  request->Respond(Text("D two"), false);
  const Json reply = ParseJson(client.Read()->body);
  EXPECT_EQ(reply.at("choices")[0].at("text"), "one ");
  EXPECT_EQ(reply.at("choices")[0].at("finish_reason"), "stop");
  EXPECT_TRUE(request->cancelled());
  request->Respond(Text("three"), false);
  request->Respond(std::nullopt, true);
}

TEST_F(OpenAi, CancelsWhenTheClientGoesAway) {
  for (const bool stream : {false, true}) {
    TestClient client = Connect();
    auto request = Run(client, stream);
    request->Respond(Text("a"), false);
    if (stream) EXPECT_EQ(client.ReadHead()->status, 200);
    client.Close();
    while (!request->cancelled()) std::this_thread::yield();
    for (int i = 0; i < 3; ++i) request->Respond(Text("b"), false);
    request->Respond(std::nullopt, true);
  }
}

TEST_F(OpenAi, MeasuresTheTimesOfTokens) {
  TestClient client = Connect();
  auto request = Run(client, false);
  request->Respond(Text("a"), false);
  request->Respond(Text("b"), false);
  request->Respond(Text("c"), true);
  EXPECT_EQ(client.Read()->status, 200);
  const auto sum = [](const std::vector<uint64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  };
  const StatisticsSnapshot seen = writer_->statistics().Snapshot();
  EXPECT_EQ(sum(seen.first_token_s.counts), 1u);
  EXPECT_EQ(sum(seen.next_token_s.counts), 2u);
}

TEST_F(OpenAi, SplitsTextsIntoRequestsThatTheModelTakes) {
  const Json reply = ParseJson(
      Ask("POST", "/v1/embeddings", R"({"model":"embedder","input":["a","bb","ccc","","eeeee"]})").body);
  EXPECT_EQ(requests_, 3);
  std::string rows;
  for (const Json& row : reply.at("data")) rows += DumpJson(row.at("embedding"));
  EXPECT_EQ(rows, "[1.0,0.0][2.0,1.0][3.0,0.0][0.0,1.0][5.0,0.0]");
  EXPECT_EQ(reply.at("data")[4].at("index"), 4);
  EXPECT_EQ(reply.at("usage"), ParseJson(R"({"prompt_tokens":5,"total_tokens":5})"));
  EXPECT_EQ(reply.at("model"), "embedder");
}

TEST_F(OpenAi, WritesEmbeddingsAsBase64) {
  const Json reply = ParseJson(
      Ask("POST", "/v1/embeddings", R"({"model":"embedder","input":"a","encoding_format":"base64"})").body);
  EXPECT_EQ(reply.at("data")[0].at("embedding"), "AACAPwAAAAA=");
}

TEST_F(OpenAi, SendsFurtherFieldsWithTexts) {
  const TestResponse reply =
      Ask("POST", "/v1/embeddings", R"({"model":"embedder","input":"a","input_type":"query","user":"u"})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(parameters_, R"({"input_type":"query"})");
  EXPECT_NE(reply.header("x-request-id"), "");
  EXPECT_EQ(Ask("POST", "/v1/embeddings", R"({"model":"embedder","input":"a","dimensions":1})").status, 400);
}

TEST_F(OpenAi, RefusesNumbersThatJsonCannotCarry) {
  embedder_->set_responder([](std::unique_ptr<InferenceRequest> request) {
    const float row[] = {std::numeric_limits<float>::quiet_NaN(), 0};
    InferenceResponse response;
    response.model_name = "embedder";
    response.outputs.push_back(
        Tensor{"embedding", DataType::kFp32, {1, 2}, CopyToHeap(std::as_bytes(std::span(row)))});
    request->Respond(std::move(response), true);
  });
  EXPECT_EQ(Ask("POST", "/v1/embeddings", R"({"model":"embedder","input":"a"})").status, 500);
  EXPECT_EQ(
      Ask("POST", "/v1/embeddings", R"({"model":"embedder","input":"a","encoding_format":"base64"})").status,
      200);
}

TEST_F(OpenAi, FailsAllTextsIfOneRequestFails) {
  embedder_->set_responder([this](std::unique_ptr<InferenceRequest> request) {
    if (++requests_ == 2) {
      request->Respond(Failure(UnavailableError("gone")), true);
    } else {
      embedder_->Answer(std::move(request));
    }
  });
  const TestResponse reply = Ask("POST", "/v1/embeddings", R"({"model":"embedder","input":["a","b","c"]})");
  // The echo of the first request lacks an embedding.
  EXPECT_EQ(reply.status, 500);
  EXPECT_NE(reply.body.find("must be FP32 with a row for each of 2 texts, but there is none"),
            std::string::npos);
}

}  // namespace
}  // namespace braid
