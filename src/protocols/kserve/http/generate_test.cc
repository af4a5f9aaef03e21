#include "protocols/kserve/http/generate.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/clock.h"
#include "protocols/http/testing/test_client.h"
#include "protocols/inference/testing/fake_servable.h"
#include "protocols/kserve/http/generate_request.h"
#include "protocols/kserve/http/generate_response.h"
#include "protocols/kserve/testing/kserve_servers.h"
#include "serving/testing/fake_control.h"

namespace braid {
namespace {

using std::string_literals::operator""s;

TensorSpec Spec(std::string name, DataType type, Shape shape) {
  return TensorSpec{.name = std::move(name), .type = type, .shape = std::move(shape), .labels = {}};
}

// ---- Requests ----

class GenerateRequest : public testing::Test {
 protected:
  GenerateRequest() {
    info_.name = "m";
    info_.inputs = {Spec("TEXT", DataType::kBytes, {-1}), Spec("N", DataType::kInt32, {1}),
                    Spec("GRID", DataType::kFp32, {2, -1}), Spec("FLAG", DataType::kBool, {1}),
                    Spec("HALF", DataType::kFp16, {1})};
  }
  Result<std::unique_ptr<InferenceRequest>> Read(const std::string& json) {
    padded_ = json + std::string(simdjson::SIMDJSON_PADDING, ' ');
    auto request = std::make_unique<InferenceRequest>();
    BRAID_RETURN_IF_ERROR(ReadGenerateRequest(std::string_view(padded_).substr(0, json.size()),
                                              {info_, heap_, max_input_bytes_}, parser_, *request));
    return request;
  }
  Status Error(const std::string& json) {
    auto read = Read(json);
    return read.ok() ? OkStatus() : read.status();
  }
  // Returns name, shape and bytes of the only input.
  std::string Input(const std::string& json) {
    auto read = Read(json);
    if (!read.ok()) return std::string(read.status().message());
    const Tensor& tensor = (*read)->inputs.at(0);
    return tensor.name + ShapeToString(tensor.shape) + std::string(tensor.data.text());
  }

  ServableInfo info_;
  HeapAllocator heap_;
  size_t max_input_bytes_ = 1 << 20;
  simdjson::dom::parser parser_;
  std::string padded_;
};

template <class... T>
std::string Bytes(T... values) {
  std::string out;
  ((out.append(reinterpret_cast<const char*>(&values), sizeof(values))), ...);
  return out;
}

TEST_F(GenerateRequest, FitsValuesToTheShapeOfTheInput) {
  EXPECT_EQ(Input(R"({"TEXT":"ab"})"), "TEXT[1]\2\0\0\0ab"s);
  EXPECT_EQ(Input(R"({"TEXT":["ab","c"]})"), "TEXT[2]\2\0\0\0ab\1\0\0\0c"s);
  EXPECT_EQ(Input(R"({"TEXT":[]})"), "TEXT[0]");
  EXPECT_EQ(Input(R"({"N":-7})"), "N[1]" + Bytes(-7));
  EXPECT_EQ(Input(R"({"N":[7]})"), "N[1]" + Bytes(7));
  EXPECT_EQ(Input(R"({"GRID":[1,2,3,4.5]})"), "GRID[2,2]" + Bytes(1.0f, 2.0f, 3.0f, 4.5f));
  EXPECT_EQ(Input(R"({"FLAG":true})"), "FLAG[1]\1");
  constexpr std::string_view kMisfit = "' to tensor with proper shape";
  EXPECT_EQ(Error(R"({"N":[1,2]})").message(), "The schema can not convert input 'N" + std::string(kMisfit));
  EXPECT_EQ(Error(R"({"GRID":[1,2,3]})").message(),
            "The schema can not convert input 'GRID" + std::string(kMisfit));
}

TEST_F(GenerateRequest, MakesOneRowForAModelWithABatchDimension) {
  info_.max_batch_size = 8;
  info_.inputs = {Spec("TEXT", DataType::kBytes, {-1, 1}), Spec("ROW", DataType::kInt32, {-1, -1}),
                  Spec("CUBE", DataType::kInt32, {-1, -1, -1})};
  EXPECT_EQ(Input(R"({"TEXT":"a"})"), "TEXT[1,1]\1\0\0\0a"s);
  EXPECT_EQ(Input(R"({"ROW":[1,2,3]})"), "ROW[1,3]" + Bytes(1, 2, 3));
  EXPECT_EQ(Input(R"({"CUBE":[1,2]})"), "CUBE[1,1,2]" + Bytes(1, 2));
}

TEST_F(GenerateRequest, TakesEverythingElseForParameters) {
  auto read = Read(
      R"({"TEXT":"a","id":"7","stream":true,"parameters":{"seed":1,"priority":3,"sequence_id":"s"},"t":0.5,"x":"y","timeout":9})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)->id, "7");
  EXPECT_EQ(ParametersToJson((*read)->parameters), R"({"stream":true,"seed":1,"t":0.5,"x":"y"})");
  EXPECT_EQ((*read)->priority, 3u);
  EXPECT_EQ((*read)->timeout_us, 9u);
  EXPECT_EQ(std::get<std::string>((*read)->correlation_id), "s");
}

TEST_F(GenerateRequest, SaysWhatIsWrong) {
  const std::string invalid_type = "has invalid type. It should be either 'int', 'bool', or 'string'.";
  struct Case {
    std::string json;
    StatusCode code;
    std::string message;
  };
  for (const Case& c : {
           Case{R"({"TEXT":1})", StatusCode::kInternal, "attempt to access JSON non-string as string"},
           Case{R"({"TEXT":[["a"]]})", StatusCode::kInternal, "attempt to access JSON non-string as string"},
           Case{R"({"TEXT":null})", StatusCode::kInternal, "attempt to access JSON non-string as string"},
           Case{R"({"FLAG":"a","TEXT":1})", StatusCode::kInternal,
                "attempt to access JSON non-boolean as boolean"},
           Case{R"({"TEXT":1,"FLAG":"a"})", StatusCode::kInternal,
                "attempt to access JSON non-string as string"},
           Case{R"({"N":"a"})", StatusCode::kInternal,
                "attempt to access JSON non-signed-integer as signed-integer"},
           Case{R"({"GRID":["a","b"]})", StatusCode::kInternal,
                "attempt to access JSON non-number as double"},
           Case{R"({"N":3000000000})", StatusCode::kInternal, "value is out of range for datatype INT32"},
           Case{R"({"N":1,"N":1})", StatusCode::kInvalidArgument, "input 'N' already exists in request"},
           Case{R"({"p":1,"parameters":{"p":2}})", StatusCode::kInvalidArgument,
                "parameter 'p' already exists in request"},
           Case{R"({"id":7})", StatusCode::kInternal, "attempt to access JSON non-string as string"},
           Case{R"({"parameters":[]})", StatusCode::kInvalidArgument,
                "Expected JSON object for keyword: 'parameters'"},
           Case{R"({"parameters":{"p":{}}})", StatusCode::kInvalidArgument,
                "Converting keyword: 'parameters': parameter 'p' " + invalid_type},
           Case{R"({"p":[]})", StatusCode::kInvalidArgument, "parameter 'p' " + invalid_type},
           Case{R"({"binary_data_output":true})", StatusCode::kInvalidArgument,
                "parameter 'binary_data_output' is not supported: responses are JSON"},
           Case{R"({"HALF":1})", StatusCode::kInvalidArgument,
                "receiving FP16 data via JSON is not supported. Please use the binary data format for input "
                "HALF"},
           Case{"[]", StatusCode::kInternal,
                "Unable to parse 'request': attempt to access JSON non-object as object"},
           Case{"", StatusCode::kInternal,
                "failed to parse the request JSON buffer: The document is empty. at 0"},
       }) {
    const Status status = Error(c.json);
    EXPECT_EQ(status.code(), c.code) << c.json;
    EXPECT_EQ(status.message(), c.message) << c.json;
  }
  max_input_bytes_ = 20;
  EXPECT_EQ(
      Error(R"({"N":1,"TEXT":["abcdefgh","abcdefgh"]})").message(),
      "request size of 28 bytes with input 'TEXT' of size 24 bytes exceeds the maximum allowed input size of "
      "20. Use --http-max-input-size to increase the limit.");
}

// ---- Responses ----

TEST(GenerateResponse, WritesOneValueAsItIsAndOthersAsAList) {
  HeapAllocator heap;
  const auto tensor = [&heap](std::string name, DataType type, Shape shape, const std::string& bytes) {
    Tensor made{.name = std::move(name), .type = type, .shape = std::move(shape), .data = {}};
    made.data = heap.Allocate(bytes.size()).value();
    if (!bytes.empty()) std::memcpy(made.data.mutable_data(), bytes.data(), bytes.size());
    return made;
  };
  InferenceResponse response;
  response.model_name = "m";
  response.model_version = 3;
  response.outputs.push_back(tensor("TEXT", DataType::kBytes, {1, 1}, "\3\0\0\0a\"b"s));
  response.outputs.push_back(tensor("GRID", DataType::kInt32, {2, 2}, Bytes(1, 2, 3, 4)));
  response.outputs.push_back(tensor("NONE", DataType::kFp32, {0, 4}, ""));
  response.parameters = {{"more", 1.5}, {"TEXT", std::string("hidden")}, {"model_name", true}, {"ok", true}};
  std::string json;
  ASSERT_TRUE(AppendGenerateResponse(json, "", response).ok());
  EXPECT_EQ(
      json,
      R"({"model_name":"m","model_version":"3","more":1.5,"ok":true,"TEXT":"a\"b","GRID":[1,2,3,4],"NONE":[]})");
  json.clear();
  response.outputs.clear();
  response.parameters.clear();
  ASSERT_TRUE(AppendGenerateResponse(json, "i", response).ok());
  EXPECT_EQ(json, R"({"model_name":"m","model_version":"3","id":"i"})");
}

// ---- Calls ----

class Generate : public testing::Test {
 protected:
  Generate() : context_{catalog_, control_, log_, "braid", "1.2", {}} {
    ServableInfo info = FakeServable::EchoInfo("many");
    info.decoupled = true;
    many_ = std::make_shared<FakeServable>(info);
    once_ = std::make_shared<FakeServable>(FakeServable::EchoInfo("once"));
    catalog_.Publish(many_);
    catalog_.Publish(once_);
    KserveHttpServer::Options options;
    options.address = "127.0.0.1";
    server_ = KserveHttpServer::Start(context_, options).value();
  }
  ~Generate() override { server_->Shutdown(SteadyNowNs()); }
  TestClient Connect() { return TestClient(server_->bound_port()); }
  // Starts a request and returns it for the test to answer.
  std::unique_ptr<InferenceRequest> Run(TestClient& client, FakeServable& model, std::string_view route) {
    model.Hold();
    client.SendRequest("POST", "/v2/models/" + model.info().name + "/" + std::string(route),
                       R"({"INPUT0":1})");
    model.WaitForHeld(1);
    return model.Take();
  }
  static InferenceResponse Failure(std::string_view text) {
    InferenceResponse response;
    response.status = NotFoundError(std::string(text));
    response.model_name = "many";
    return response;
  }

  Catalog catalog_;
  FakeControl control_;
  Logger log_;
  ProtocolContext context_;
  std::shared_ptr<FakeServable> many_;
  std::shared_ptr<FakeServable> once_;
  std::unique_ptr<KserveHttpServer> server_;
};

constexpr std::string_view kEvent =
    "data: {\"model_name\":\"many\",\"model_version\":\"1\",\"OUTPUT0\":1.0}\n\n";

TEST_F(Generate, WaitsForTheEndOfADecoupledRequest) {
  TestClient client = Connect();
  auto request = Run(client, *many_, "generate");
  request->Respond(FakeServable::Echo(*request, many_->info()), false);
  request->Respond(std::nullopt, true);
  EXPECT_EQ(client.Read()->body, R"({"model_name":"many","model_version":"1","OUTPUT0":1.0})");
}

TEST_F(Generate, CancelsARequestThatMakesASecondResponse) {
  TestClient client = Connect();
  auto request = Run(client, *many_, "generate");
  request->Respond(FakeServable::Echo(*request, many_->info()), false);
  EXPECT_FALSE(request->cancelled());
  request->Respond(FakeServable::Echo(*request, many_->info()), false);
  EXPECT_TRUE(request->cancelled());
  EXPECT_EQ(client.Read()->status, 400);
  client.Close();
  request->Respond(FakeServable::Echo(*request, many_->info()), false);
  request->Respond(std::nullopt, true);
}

TEST_F(Generate, StreamsEventsAsTheyComeAndErrorsAmongThem) {
  TestClient client = Connect();
  for (int i = 0; i < 2; ++i) {
    auto request = Run(client, *many_, "generate_stream");
    request->Respond(FakeServable::Echo(*request, many_->info()), false);
    EXPECT_EQ(client.ReadHead()->header("Content-Type"), "text/event-stream; charset=utf-8");
    EXPECT_EQ(client.ReadChunk(), kEvent);
    request->Respond(Failure("oh"), false);
    EXPECT_EQ(client.ReadChunk(), "data: {\"error\":\"oh\"}\n\n");
    request->Respond(std::nullopt, true);
    EXPECT_EQ(client.ReadChunk(), "");
  }
}

TEST_F(Generate, TakesTheStatusFromTheFirstResponse) {
  TestClient client = Connect();
  auto request = Run(client, *many_, "generate_stream");
  request->Respond(Failure("oh"), true);
  auto failed = client.Read();
  EXPECT_EQ(failed->status, 404);
  EXPECT_EQ(failed->header("Content-Type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(failed->body, "data: {\"error\":\"oh\"}\n\n");
  auto empty = Run(client, *many_, "generate_stream");
  empty->Respond(std::nullopt, true);
  auto none = client.Read();
  EXPECT_EQ(none->status, 200);
  EXPECT_EQ(none->body, "");
  auto refused = Run(client, *many_, "generate_stream");
  refused->Refuse(UnavailableError("full"));
  auto plain = client.Read();
  EXPECT_EQ(plain->status, 503);
  EXPECT_EQ(plain->header("Content-Type"), "application/json");
  EXPECT_EQ(plain->body, R"({"error":"full"})");
}

TEST_F(Generate, EndsTheStreamOfAModelThatAnswersOnceWithItsAnswer) {
  TestClient client = Connect();
  auto request = Run(client, *once_, "generate_stream");
  request->Respond(FakeServable::Echo(*request, once_->info()), false);
  EXPECT_NE(client.Read()->body.find("\"OUTPUT0\":1.0"), std::string::npos);
  client.Close();
  request->Respond(FakeServable::Echo(*request, once_->info()), false);
  request->Respond(std::nullopt, true);
}

TEST_F(Generate, CancelsWhenTheClientGoesAwayBetweenEvents) {
  TestClient client = Connect();
  auto request = Run(client, *many_, "generate_stream");
  request->Respond(FakeServable::Echo(*request, many_->info()), false);
  EXPECT_EQ(client.ReadHead()->status, 200);
  client.Close();
  while (!request->cancelled()) std::this_thread::yield();
  for (int i = 0; i < 3; ++i) request->Respond(FakeServable::Echo(*request, many_->info()), false);
  request->Respond(std::nullopt, true);
}

TEST_F(Generate, CancelsWhatAClientDoesNotRead) {
  log_.set_enabled(LogLevel::kWarning, false);
  TestClient client = Connect();
  many_->Hold();
  client.SendRequest(
      "POST", "/v2/models/many/generate_stream", "{\"INPUT0\":[0" + [] {
        std::string values;
        for (int i = 0; i < 500'000; ++i) values += ",1.2345678";
        return values;
      }() + "]}");
  many_->WaitForHeld(1);
  auto request = many_->Take();
  int sent = 0;
  while (!request->cancelled() && ++sent < 100) {
    request->Respond(FakeServable::Echo(*request, many_->info()), false);
  }
  EXPECT_GT(sent, 10);
  EXPECT_LT(sent, 100);
  request->Respond(std::nullopt, true);
}

}  // namespace
}  // namespace braid
