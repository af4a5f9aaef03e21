#include "protocols/tfs/tfs_routes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <tuple>

#include "base/clock.h"
#include "protocols/http/testing/test_client.h"
#include "protocols/inference/testing/fake_servable.h"
#include "protocols/kserve/testing/kserve_servers.h"
#include "serving/faults.h"
#include "serving/testing/fake_control.h"

namespace braid {
namespace {

constexpr ApiCall kPredict{ApiProtocol::kTensorFlowServing, ApiInterface::kRest, ApiMethod::kPredict};

class FakeConfig final : public ConfigControl {
 public:
  Result<bool> Reload() override {
    if (!answer_.ok()) return answer_;
    return changed_;
  }
  void set_changed(bool changed) { changed_ = changed; }
  void set_answer(Status answer) { answer_ = std::move(answer); }

 private:
  bool changed_ = false;
  Status answer_;
};

class TfsRest : public testing::Test {
 protected:
  TfsRest() : catalog_(Dialect::kOvms), context_{catalog_, control_, log_, "braid", "1", {}} {}
  ~TfsRest() override {
    if (server_) server_->Shutdown(SteadyNowNs());
  }

  TestClient Connect() {
    if (!server_) {
      routes_ = std::make_unique<TfsRoutes>(context_, with_config_ ? &config_ : nullptr);
      KserveHttpServer::Options options;
      options.address = "127.0.0.1";
      options.others.push_back(routes_.get());
      auto server = KserveHttpServer::Start(context_, options);
      BRAID_CHECK(server.ok());
      server_ = std::move(server).value();
    }
    return TestClient(server_->bound_port());
  }
  TestResponse Get(std::string_view target) { return Connect().Request("GET", target).value(); }
  TestResponse Post(std::string_view target, std::string_view body) {
    return Connect().Request("POST", target, body).value();
  }
  std::string Predict(std::string_view body, int status = 200) {
    const TestResponse response = Post("/v1/models/m:predict", body);
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(response.header("Content-Type"), "application/json");
    return response.body;
  }
  void ExpectError(std::string_view body, int status, std::string_view text) {
    EXPECT_EQ(Predict(body, status), ErrorResponse(400, text).body);
  }

  // Adds a model "m" that echoes its inputs; INPUTx becomes OUTPUTx.
  std::shared_ptr<FakeServable> Add(std::vector<std::pair<DataType, Shape>> inputs) {
    ServableInfo info;
    info.name = "m";
    info.dialect = Dialect::kOvms;
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (auto* specs : {&info.inputs, &info.outputs}) {
        TensorSpec& spec = specs->emplace_back();
        spec.name = (specs == &info.inputs ? "INPUT" : "OUTPUT") + std::to_string(i);
        spec.type = inputs[i].first;
        spec.shape = inputs[i].second;
      }
    }
    auto servable = std::make_shared<FakeServable>(std::move(info));
    catalog_.Publish(servable);
    return servable;
  }

  Catalog catalog_;
  FakeControl control_;
  Logger log_;
  ProtocolContext context_;
  FakeConfig config_;
  bool with_config_ = true;
  std::unique_ptr<TfsRoutes> routes_;
  std::unique_ptr<KserveHttpServer> server_;
};

// ---- the gate ----

TEST_F(TfsRest, WhatIsReadCanBeAskedForWithoutItsBody) {
  Add({{DataType::kFp32, {-1, 2}}});
  for (const char* target : {"/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/m", "/v2/models/nope",
                             "/v2/models/m/ready", "/v2/logging", "/v1/models/m", "/v1/models/m/metadata",
                             "/v1/config", "/v1/models/nope", "/v1/models/m:predict"}) {
    const TestResponse whole = Get(target);
    TestClient client = Connect();
    ASSERT_TRUE(client.SendRequest("HEAD", target));
    const auto head = client.ReadHead();
    ASSERT_TRUE(head) << target;
    EXPECT_EQ(head->status, whole.status) << target;
    EXPECT_EQ(head->headers, whole.headers) << target;
    // The next request is answered at once.
    EXPECT_EQ(client.Request("GET", "/v2/health/live")->status, 200) << target;
  }
}

// ---- Predict ----

TEST_F(TfsRest, AnswersRowsWithRowsAndColumnsWithColumns) {
  auto model = Add({{DataType::kFp32, {-1, 2}}});
  const std::string rows = "{\n    \"predictions\": [\n        [1.0, 2.5],\n        [-3.0, 0.1]\n    ]\n}\n";
  const std::string columns = "{\n    \"outputs\": [[1.0, 2.5], [-3.0, 0.1]]\n}\n";
  EXPECT_EQ(Predict(R"({"instances":[[1,2.5],[-3,0.1]]})"), rows);
  EXPECT_EQ(Predict(R"({"signature_name":"x","instances":[{"INPUT0":[1,2.5]},{"INPUT0":[-3,1e-1]}]})"), rows);
  EXPECT_EQ(Predict(R"({"inputs":[[1,2.5],[-3,0.1]]})"), columns);
  EXPECT_EQ(Predict(R"({"inputs":{"INPUT0":[[1,2.5],[-3,0.1]]}})"), columns);
  EXPECT_EQ(model->api_counters().success(kPredict), 4u);
  EXPECT_EQ(Post("/v1/models/m/versions/1:predict", R"({"inputs":[[1,2.5],[-3,0.1]]})").body, columns);
  EXPECT_EQ(Post("/v1/models/m/versions/0:predict", R"({"inputs":[[1,2.5],[-3,0.1]]})").body, columns);
  EXPECT_EQ(Post("/v1/models/m/labels/any:predict", R"({"inputs":[[1,2.5],[-3,0.1]]})").body, columns);
}

TEST_F(TfsRest, NamesSeveralOutputs) {
  Add({{DataType::kFp32, {-1}}, {DataType::kInt64, {-1, 1}}});
  EXPECT_EQ(
      Predict(R"({"instances":[{"INPUT0":1,"INPUT1":[2]},{"INPUT1":[4],"INPUT0":3}]})"),
      "{\n    \"predictions\": [\n        {\n            \"OUTPUT0\": 1.0,\n            \"OUTPUT1\": [2]\n"
      "        },\n        {\n            \"OUTPUT0\": 3.0,\n            \"OUTPUT1\": [4]\n        }\n    "
      "]\n}\n");
  EXPECT_EQ(
      Predict(R"({"inputs":{"INPUT1":[[2],[4]],"INPUT0":[1,3]}})"),
      "{\n    \"outputs\": {\n        \"OUTPUT1\": [[2], [4]],\n        \"OUTPUT0\": [1.0, 3.0]\n    }\n}\n");
  // Row format needs outputs with equally many rows.
  Add({{DataType::kFp32, {-1}}, {DataType::kInt64, {-1}}})->set_responder([](auto request) {
    InferenceResponse response;
    response.outputs.push_back({"a", DataType::kBool, {1}, CopyToHeap(std::as_bytes(std::span("\1", 1)))});
    response.outputs.push_back({"b", DataType::kBool, {2}, CopyToHeap(std::as_bytes(std::span("\1\0", 2)))});
    request->Respond(std::move(response), true);
  });
  ExpectError(R"({"instances":[{"INPUT0":1,"INPUT1":2}]})", 500,
              "Response parsing to JSON error - outputs have different numbers of rows; output name: b");
  EXPECT_EQ(Predict(R"({"inputs":{"INPUT0":[1],"INPUT1":[2]}})"),
            "{\n    \"outputs\": {\n        \"a\": [true],\n        \"b\": [true, false]\n    }\n}\n");
}

TEST_F(TfsRest, CarriesAllTypes) {
  const auto round_trip = [&](DataType type, std::string_view values) {
    Add({{type, {-1}}});
    std::string body = Predict("{\"inputs\":" + std::string(values) + "}");
    constexpr std::string_view kHead = "{\n    \"outputs\": ";
    return body.substr(kHead.size(), body.size() - kHead.size() - 3);
  };
  for (const auto& [type, values] : std::vector<std::pair<DataType, std::string>>{
           {DataType::kBool, "[true, false]"},
           {DataType::kUint8, "[0, 255]"},
           {DataType::kUint16, "[0, 65535]"},
           {DataType::kUint32, "[0, 4294967295]"},
           {DataType::kUint64, "[0, 18446744073709551615]"},
           {DataType::kInt8, "[-128, 127]"},
           {DataType::kInt16, "[-32768, 32767]"},
           {DataType::kInt32, "[-2147483648, 2147483647]"},
           {DataType::kInt64, "[-9223372036854775808, 9223372036854775807]"},
           {DataType::kFp16, "[65504.0, 0.5, -0.0]"},
           {DataType::kBf16, "[1.0, -2.5]"},
           {DataType::kFp32, "[0.1, 3.4028235e+38, 1e-45]"},
           {DataType::kFp64, "[0.1, 1.7976931348623157e+308]"},
           {DataType::kBytes, "[\"\", \"a\\\"b\", \"\xc3\xa4\"]"},
           {DataType::kFp32, "[]"},
       }) {
    EXPECT_EQ(round_trip(type, values), values);
  }
  // Numbers are cast.
  EXPECT_EQ(round_trip(DataType::kInt32, "[1.9, -1.9, 2.0]"), "[1, -1, 2]");
  EXPECT_EQ(round_trip(DataType::kUint64, "[1.8446744073709550e19]"), "[18446744073709549568]");
  EXPECT_EQ(round_trip(DataType::kBool, "[1, 0, 2.5]"), "[true, false, true]");
  EXPECT_EQ(round_trip(DataType::kFp64, "[1, 18446744073709551615]"), "[1.0, 18446744073709551616.0]");
  // Strings that are not UTF-8 return unchanged.
  EXPECT_EQ(round_trip(DataType::kBytes, R"([{"b64":"/w=="}, {"b64":"YWI="}, {"b64":""}])"),
            R"([{"b64": "/w=="}, "ab", ""])");
}

TEST_F(TfsRest, SaysWhyValuesAreRefused) {
  const std::string column = "Could not parse input content. Not valid ndarray detected - ";
  const std::string row = "Could not parse instance content. Not valid ndarray detected - ";
  auto model = Add({{DataType::kInt8, {-1, -1}}});
  ExpectError(R"({"inputs":[[1,2],[3]]})", 400,
              column + "arrays of one dimension differ in length; input name: INPUT0");
  ExpectError(R"({"inputs":[[1,2],3]})", 400,
              column + "arrays of one dimension differ in length; input name: INPUT0");
  ExpectError(R"({"inputs":[1,[2]]})", 400,
              column + "arrays of one dimension differ in length; input name: INPUT0");
  ExpectError(R"({"instances":[[1,2],[3]]})", 400,
              row + "arrays of one dimension differ in length; input name: INPUT0");
  ExpectError(R"({"instances":[[1],[3, 4]]})", 400,
              row + "arrays of one dimension differ in length; input name: INPUT0");
  for (const char* value : {"128", "-129", "1e10", "18446744073709551615", "-128.5e1"}) {
    ExpectError("{\"inputs\":[[" + std::string(value) + "]]}", 400,
                column + "value is out of range for INT8; input name: INPUT0");
  }
  ExpectError(R"({"inputs":[[true]]})", 400, column + "value does not fit INT8; input name: INPUT0");
  ExpectError(R"({"inputs":[[null]]})", 400, column + "value does not fit INT8; input name: INPUT0");
  ExpectError(R"({"inputs":[[{}]]})", 400, column + "value does not fit INT8; input name: INPUT0");
  ExpectError(R"({"inputs":[[1],["x"]]})", 400, column + "value does not fit INT8; input name: INPUT0");
  std::string deep = "{\"inputs\":";
  deep += std::string(70, '[') + "1" + std::string(70, ']') + "}";
  ExpectError(deep, 400, column + "more than 64 dimensions; input name: INPUT0");
  // The first values imply a shape larger than the document can hold.
  std::string wide = "{\"inputs\":[[";
  for (int i = 0; i < 1000; ++i) wide += "1,";
  wide += "1]";
  for (int i = 0; i < 1000; ++i) wide += ",[]";
  ExpectError(wide + "]}", 400, column + "arrays of one dimension differ in length; input name: INPUT0");
  EXPECT_EQ(model->api_counters().fail(kPredict), 16u);

  Add({{DataType::kFp16, {-1}}});
  ExpectError(R"({"inputs":[65520]})", 400, column + "value is out of range for FP16; input name: INPUT0");
  Add({{DataType::kFp32, {-1}}});
  ExpectError(R"({"inputs":[1e39]})", 400, column + "value is out of range for FP32; input name: INPUT0");
  Add({{DataType::kBytes, {-1}}});
  for (const char* value : {"\"YQ=\"", "\"Y===\"", "\"Y!==\"", "7"}) {
    ExpectError("{\"inputs\":[{\"b64\":" + std::string(value) + "}]}", 400,
                column + "invalid base64; input name: INPUT0");
  }
  ExpectError(R"({"inputs":["a",1]})", 400, column + "value does not fit BYTES; input name: INPUT0");
}

TEST_F(TfsRest, SaysWhyABodyIsRefused) {
  Add({{DataType::kFp32, {-1}}, {DataType::kFp32, {-1}}});
  ExpectError("[]", 400, "Request body should be JSON object");
  ExpectError("{}", 400, "Invalid JSON structure. Could not detect row or column format");
  ExpectError(R"({"inputs":{},"instances":[]})", 400,
              "Invalid JSON structure. Could not detect row or column format");
  ExpectError(R"({"instances":{}})", 400, "Invalid JSON structure. Nonamed instance is not an array.");
  ExpectError(R"({"instances":[]})", 400, "Invalid JSON structure. Missing instances in row format");
  ExpectError(R"({"instances":[{"INPUT0":1,"INPUT1":1},1]})", 400,
              "Invalid JSON structure. One of named instances is not a JSON object.");
  ExpectError(R"({"instances":[{"INPUT0":1,"INPUT1":1},{"INPUT0":1}]})", 400,
              "Invalid JSON structure. Request inputs have different batch sizes");
  ExpectError(R"({"instances":[{"INPUT0":1,"INPUT1":1},{"INPUT0":1,"x":1}]})", 400,
              "Invalid JSON structure. Request inputs have different batch sizes");
  ExpectError(R"({"inputs":null})", 400, "Invalid JSON structure. One of inputs is not a JSON object.");
  ExpectError(R"({"inputs":{}})", 400, "Invalid JSON structure, missing inputs");
  ExpectError(R"({"inputs":{"INPUT0":[1],"INPUT0":[1]}})", 400, "duplicate key 'INPUT0' in 'inputs'");
  ExpectError(R"({"inputs":[1]})", 400, "Invalid number of inputs - Expected: 2; Actual: 1");
  ExpectError(R"({"inputs":{"INPUT0":[1]}})", 400, "Invalid number of inputs - Expected: 2; Actual: 1");
  ExpectError(R"({"inputs":{"INPUT0":[1],"x":[1]}})", 400,
              "Missing input with specific name - Required input: INPUT1");
  ExpectError(R"({"inputs":{"a":1,"b":1,"c":1,"d":1,"e":1}})", 400,
              "Invalid number of inputs - Expected: 2; Actual: 5");
  for (const char* body :
       {"", "{", "{\"inputs\":1e999}", "{\"inputs\":[NaN]}", "{\"inputs\":[1,]}", "\xff"}) {
    EXPECT_EQ(Predict(body, 412).rfind("{\"error\":\"The file is not valid json - ", 0), 0u) << body;
  }
  std::string deep(5000, '[');
  EXPECT_EQ(Predict("{\"inputs\":" + deep, 412).rfind("{\"error\":\"The file is not valid json - ", 0), 0u);
  const TestResponse unknown = Post("/v1/models/nope:predict", "{}");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body, R"({"error":"Pipeline with requested name is not found"})");
  const TestResponse version = Post("/v1/models/m/versions/7:predict", "{}");
  EXPECT_EQ(version.status, 404);
  EXPECT_EQ(version.body, R"({"error":"Model with requested version is not found"})");
}

TEST_F(TfsRest, PassesEncodedImagesOn) {
  auto model = Add({{DataType::kUint8, {-1, 4, 4, 3}}});
  model->set_check(false);
  const std::string one = "{\n    \"outputs\": [\"a\", \"b\"]\n}\n";
  EXPECT_EQ(Predict(R"({"inputs":{"INPUT0":[{"b64":"YQ=="},{"b64":"Yg=="}]}})"), one);
  EXPECT_EQ(Predict(R"({"inputs":{"INPUT0":{"b64":"YQ=="}}})"), "{\n    \"outputs\": [\"a\"]\n}\n");
  EXPECT_EQ(Predict(R"({"instances":[{"INPUT0":{"b64":"YQ=="}},{"INPUT0":{"b64":"Yg=="}}]})"),
            "{\n    \"predictions\": [\n        \"a\",\n        \"b\"\n    ]\n}\n");
  EXPECT_EQ(Predict(R"({"instances":[{"b64":"YQ=="},{"b64":"Yg=="}]})"),
            "{\n    \"predictions\": [\n        \"a\",\n        \"b\"\n    ]\n}\n");
}

TEST_F(TfsRest, InputsOfSequencesAreUnknownToOtherModels) {
  Add({{DataType::kFp32, {-1}}});
  ExpectError(R"({"inputs":{"INPUT0":[1],"sequence_id":[10],"sequence_control_input":[1]}})", 400,
              "Invalid number of inputs - Expected: 1; Actual: 3");
  ExpectError(R"({"inputs":{"sequence_id":"x"}})", 400,
              "Missing input with specific name - Required input: INPUT0");
}

TEST_F(TfsRest, AnswersLargeTensors) {
  Add({{DataType::kFp32, {-1}}});
  std::string values = "[0.0";
  for (int i = 1; i < 300'000; ++i) values.append(", ").append(std::to_string(i % 1000)).append(".0");
  values += "]";
  // Not EXPECT_EQ, whose difference would be too long to read.
  EXPECT_TRUE(Predict("{\"inputs\":" + values + "}") == "{\n    \"outputs\": " + values + "\n}\n");
}

TEST_F(TfsRest, ARequestWhoseClientHasGoneIsCancelled) {
  auto model = Add({{DataType::kFp32, {-1}}});
  model->Hold();
  TestClient client = Connect();
  ASSERT_TRUE(client.SendRequest("POST", "/v1/models/m:predict", R"({"inputs":[1]})"));
  model->WaitForHeld(1);
  client.Close();
  model->WaitForCancelled(1);
  model->ReleaseAll();
}

TEST_F(TfsRest, AnswersErrorsOfModels) {
  auto model = Add({{DataType::kFp32, {-1}}});
  model->set_responder([](auto request) { request->Fail(FaultError(Fault::kInternalInferenceError)); });
  ExpectError(R"({"inputs":[1]})", 500, "Internal inference error");
  model->set_responder([](auto request) { request->Respond(std::nullopt, true); });
  ExpectError(R"({"inputs":[1]})", 500, "the model ended the request without a response");
}

// ---- Stateful models ----

class StatefulTfsRest : public TfsRest {
 protected:
  // Answers its input INPUT0 as OUTPUT0, and the sequence.
  StatefulTfsRest() {
    ServableInfo info;
    info.name = "m";
    info.dialect = Dialect::kOvms;
    info.stateful = StatefulSpec{.states = {}};
    info.inputs.push_back(
        TensorSpec{.name = "INPUT0", .type = DataType::kFp32, .shape = {-1, 2}, .labels = {}});
    info.outputs.push_back(
        TensorSpec{.name = "OUTPUT0", .type = DataType::kFp32, .shape = {-1, 2}, .labels = {}});
    model_ = std::make_shared<FakeServable>(std::move(info));
    catalog_.Publish(model_);
    model_->set_responder([this](auto request) {
      start_ = request->sequence_start;
      end_ = request->sequence_end;
      InferenceResponse response = FakeServable::Echo(*request, model_->info());
      const uint64_t id = std::get<uint64_t>(request->correlation_id);
      response.outputs.push_back(
          {"sequence_id", DataType::kUint64, {1}, CopyToHeap(std::as_bytes(std::span(&id, 1)))});
      request->Respond(std::move(response), true);
    });
  }
  ~StatefulTfsRest() override {
    if (server_) server_->Shutdown(SteadyNowNs());
    server_.reset();
  }

  // `inputs` follow INPUT0.
  static std::string Column(std::string_view inputs) {
    return R"({"signature_name":"serving_default","inputs":{"INPUT0":[[1,2]],)" + std::string(inputs) + "}}";
  }
  void ExpectColumnError(std::string_view inputs, std::string_view text) {
    ExpectError(Column(inputs), 400, text);
  }
  TestResponse PredictWithHeader(std::string_view body, std::string_view id) {
    const std::string header = "Braid-Sequence-Id: " + std::string(id) + "\r\n";
    return Connect().Request("POST", "/v1/models/m:predict", body, header).value();
  }

  static std::string ColumnAnswer(std::string_view id) {
    return "{\n    \"outputs\": {\n        \"OUTPUT0\": [[1.0, 2.0]],\n        \"sequence_id\": [" +
           std::string(id) + "]\n    }\n}\n";
  }

  std::shared_ptr<FakeServable> model_;
  bool start_ = false;  // flag of the last request
  bool end_ = false;
};

TEST_F(StatefulTfsRest, ColumnsNameTheSequence) {
  EXPECT_EQ(Predict(Column(R"("sequence_control_input":[1],"sequence_id":[10])")), ColumnAnswer("10"));
  EXPECT_TRUE(start_);
  EXPECT_FALSE(end_);
  EXPECT_EQ(Predict(Column(R"("sequence_id":[18446744073709551615])")), ColumnAnswer("18446744073709551615"));
  EXPECT_FALSE(start_);
  EXPECT_FALSE(end_);
  EXPECT_EQ(Predict(Column(R"("sequence_id":[10],"sequence_control_input":[2])")), ColumnAnswer("10"));
  EXPECT_TRUE(end_);
  EXPECT_EQ(Predict(Column(R"("sequence_control_input":[1])")), ColumnAnswer("0"));
  EXPECT_EQ(model_->api_counters().success(kPredict), 4u);
}

TEST_F(StatefulTfsRest, SaysWhyAColumnIsRefused) {
  const std::string parse =
      "Could not parse input content. Not valid ndarray detected - expected a non-negative integer; input "
      "name: ";
  for (const std::string name : {"sequence_id", "sequence_control_input"}) {
    const auto with = [&](std::string_view value) {
      return name == "sequence_id" ? R"("sequence_id":)" + std::string(value)
                                   : R"("sequence_id":[1],"sequence_control_input":)" + std::string(value);
    };
    for (const char* value :
         {"[\"x\"]", "[1.5]", "[1.0]", "[-1]", "[[1]]", "[null]", "\"x\"", "-1", "null"}) {
      ExpectColumnError(with(value), parse + name);
    }
    const std::string shape = "Required shape for " + name + " is: (1)";
    ExpectColumnError(with("[1,2]"), "Invalid input shape - " + shape);
    ExpectColumnError(with("[]"), "Invalid input shape - " + shape);
    ExpectColumnError(with("1"), "Special input proto does not contain tensor shape information");
  }
  ExpectColumnError(R"("sequence_id":[1],"sequence_control_input":[3])",
                    "Unexpected value of sequence control input");
  ExpectColumnError(R"("sequence_id":[1],"sequence_control_input":[4294967297])",
                    "Unexpected value of sequence control input");
  const std::string none = "Sequence ID has not been provided in request inputs";
  ExpectColumnError(R"("sequence_control_input":[2])", none);
  ExpectColumnError(R"("sequence_id":[0])", none);
  ExpectError(R"({"inputs":[[1,2]]})", 400, none);
  EXPECT_EQ(model_->api_counters().fail(kPredict), 29u);
}

TEST_F(StatefulTfsRest, TheSequenceIsCheckedBeforeOtherInputs) {
  const std::string shape = "Invalid input shape - Required shape for sequence_id is: (1)";
  ExpectError(R"({"inputs":{"INPUT0":"x","sequence_id":[1,2]}})", 400, shape);
  ExpectError(R"({"inputs":{"a":1,"b":1,"c":1,"d":1,"e":1,"sequence_id":[1,2]}})", 400, shape);
  ExpectError(R"({"inputs":{"sequence_id":[1,2]}})", 400, shape);
  // A wrong number of inputs includes those that name the sequence.
  ExpectError(R"({"inputs":{"a":1,"b":1,"c":1,"d":1,"e":1,"sequence_id":[1]}})", 400,
              "Invalid number of inputs - Expected: 2; Actual: 6");
  ExpectError(R"({"inputs":{"INPUT0":[[1,2]],"b":1,"sequence_id":[1],"sequence_control_input":[0]}})", 400,
              "Invalid number of inputs - Expected: 3; Actual: 4");
  ExpectError(R"({"inputs":{"sequence_id":[1]}})", 400, "Invalid number of inputs - Expected: 2; Actual: 1");
  ExpectError(R"({"inputs":{"b":[1],"sequence_id":[1]}})", 400,
              "Missing input with specific name - Required input: INPUT0");
  ExpectError(R"({"instances":[{"a":1,"b":1,"c":1,"d":1,"sequence_id":1},{"x":1}]})", 400,
              "Invalid number of inputs - Expected: 2; Actual: 5");
  ExpectError(R"({"inputs":{}})", 400, "Invalid JSON structure, missing inputs");
}

TEST_F(StatefulTfsRest, RowsNameTheSequence) {
  EXPECT_EQ(Predict(R"({"instances":[{"INPUT0":[1,2],"sequence_id":10,"sequence_control_input":1}]})"),
            "{\n    \"predictions\": [\n        {\n            \"OUTPUT0\": [1.0, 2.0],\n"
            "            \"sequence_id\": 10\n        }\n    ]\n}\n");
  EXPECT_TRUE(start_);
  // All rows belong to one sequence.
  EXPECT_EQ(Predict(R"({"instances":[{"INPUT0":[1,2],"sequence_id":10},{"sequence_id":10,"INPUT0":[3,4]}]})"),
            "{\n    \"predictions\": [\n        {\n            \"OUTPUT0\": [1.0, 2.0],\n"
            "            \"sequence_id\": 10\n        },\n        {\n            \"OUTPUT0\": [3.0, 4.0],\n"
            "            \"sequence_id\": 10\n        }\n    ]\n}\n");
  EXPECT_FALSE(start_);
}

TEST_F(StatefulTfsRest, SaysWhyRowsAreRefused) {
  const std::string rank = "Invalid number of shape dimensions - Required shape for ";
  ExpectError(R"({"instances":[{"INPUT0":[1,2],"sequence_id":[10]}]})", 400, rank + "sequence_id is: (1)");
  ExpectError(R"({"instances":[{"INPUT0":[1,2],"sequence_id":10,"sequence_control_input":[1]}]})", 400,
              rank + "sequence_control_input is: (1)");
  ExpectError(R"({"instances":[{"INPUT0":[1,2],"sequence_id":-1}]})", 400,
              "Could not parse instance content. Not valid ndarray detected - expected a non-negative "
              "integer; input name: sequence_id");
  ExpectError(R"({"instances":[{"INPUT0":[1,2],"sequence_id":1},{"INPUT0":[1,2],"sequence_id":2}]})", 400,
              "all instances of a request must have the same sequence_id: it is 1 in the first and 2 in "
              "instance 2");
  ExpectError(R"({"instances":[{"INPUT0":[1,2],"sequence_id":1},{"INPUT0":[1,2]}]})", 400,
              "Invalid JSON structure. Request inputs have different batch sizes");
  ExpectError(R"({"instances":[[1,2]]})", 400, "Sequence ID has not been provided in request inputs");
}

TEST_F(StatefulTfsRest, AHeaderNamesTheSequence) {
  EXPECT_EQ(PredictWithHeader(R"({"inputs":[[1,2]]})", "12").body, ColumnAnswer("12"));
  EXPECT_EQ(PredictWithHeader(Column(R"("sequence_control_input":[2])"), "12").body, ColumnAnswer("12"));
  EXPECT_TRUE(end_);
  EXPECT_EQ(PredictWithHeader(Column(R"("sequence_id":[12])"), "12").body, ColumnAnswer("12"));
  const TestResponse other = PredictWithHeader(Column(R"("sequence_id":[13])"), "12");
  EXPECT_EQ(other.status, 400);
  EXPECT_EQ(
      other.body,
      R"({"error":"the request names two sequences: '12' by its header braid-sequence-id and '13' by its )"
      R"(body"})");
  const TestResponse twice = PredictWithHeader(R"({"inputs":[[1,2]]})", "12\r\nBraid-Sequence-Id: 13");
  EXPECT_EQ(twice.status, 400);
  EXPECT_EQ(twice.body, R"({"error":"the header braid-sequence-id has different values"})");
}

TEST_F(StatefulTfsRest, TheHeaderGoesToWhatHandsRequestsOn) {
  ServableInfo info = model_->info();
  info.stateful.reset();
  info.kind = ServableKind::kPipeline;
  auto pipeline = std::make_shared<FakeServable>(std::move(info));
  CorrelationId seen = uint64_t{0};
  pipeline->set_responder([&](auto request) {
    seen = request->correlation_id;
    request->Respond(FakeServable::Echo(*request, pipeline->info()), true);
  });
  catalog_.Publish(pipeline);
  EXPECT_EQ(PredictWithHeader(R"({"inputs":[[1,2]]})", "12").body, "{\n    \"outputs\": [[1.0, 2.0]]\n}\n");
  EXPECT_EQ(seen, CorrelationId(uint64_t{12}));
  pipeline->set_responder(nullptr);  // it refers to this function
}

TEST_F(StatefulTfsRest, ErrorsOfSequencesPass) {
  const std::tuple<Fault, int, const char*> errors[] = {
      {Fault::kSequenceMissing, 404, "Sequence with provided ID does not exist"},
      {Fault::kSequenceAlreadyExists, 409, "Sequence with provided ID already exists"},
      {Fault::kSequenceTerminated, 412,
       "Sequence last request is being processed and it's not available anymore"},
      {Fault::kMaxSequenceNumberReached, 503,
       "Max sequence number has been reached. Could not create new sequence."},
  };
  for (const auto& [error, status, text] : errors) {
    model_->set_responder([error = error](auto request) { request->Fail(FaultError(error)); });
    ExpectError(Column(R"("sequence_id":[1])"), status, text);
  }
}

TEST_F(StatefulTfsRest, AnswersLargeTensorsWithTheSequence) {
  std::string values = "[[0.0, 1.0]";
  for (int i = 1; i < 20'000; ++i) values += ", [0.0, 1.0]";
  values += "]";
  const std::string answer = Predict("{\"inputs\":{\"INPUT0\":" + values + R"(,"sequence_id":[10]}})");
  EXPECT_TRUE(answer == "{\n    \"outputs\": {\n        \"OUTPUT0\": " + values +
                            ",\n        \"sequence_id\": [10]\n    }\n}\n");
}

// ---- Metadata, states, configuration ----

TEST_F(TfsRest, TellsMetadata) {
  Add({{DataType::kFp32, {1, -1}}});
  const TestResponse response = Get("/v1/models/m/metadata");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("Content-Type"), "application/json");
  EXPECT_EQ(response.body, Get("/v1/models/m/versions/1/metadata").body);
  for (const char* part :
       {R"("modelSpec": {)", R"("name": "m")", R"("signatureName": "")", R"("version": "1")",
        R"("@type": "type.googleapis.com/tensorflow.serving.SignatureDefMap")", R"("signatureDef": {)",
        R"("serving_default": {)", R"("methodName": "")", R"("dtype": "DT_FLOAT")", R"("size": "-1")",
        R"("unknownRank": false)", R"("name": "INPUT0")", R"("OUTPUT0": {)"}) {
    EXPECT_NE(response.body.find(part), std::string::npos) << part << " in " << response.body;
  }
  EXPECT_EQ(Get("/v1/models/nope/metadata").body, R"({"error":"Model with requested name is not found"})");
  EXPECT_EQ(Get("/v1/models/nope/metadata").status, 404);
  EXPECT_EQ(Get("/v1/models/m/versions/9/metadata").status, 404);
}

constexpr std::string_view kAvailable =
    "{\n \"model_version_status\": [\n  {\n   \"version\": \"1\",\n   \"state\": \"AVAILABLE\",\n"
    "   \"status\": {\n    \"error_code\": \"OK\",\n    \"error_message\": \"OK\"\n   }\n  }\n ]\n}\n";

TEST_F(TfsRest, TellsStates) {
  Add({{DataType::kFp32, {1}}});
  EXPECT_EQ(Get("/v1/models/m").body, kAvailable);
  EXPECT_EQ(Get("/v1/models/m/versions/1").body, kAvailable);
  EXPECT_EQ(Get("/v1/models/m/versions/0").body, kAvailable);
  EXPECT_EQ(Get("/v1/models/m/labels/x").body, kAvailable);
  EXPECT_EQ(Get("/v1/models/m/versions/2").status, 404);
  EXPECT_EQ(Get("/v1/models/m/versions/2").body, R"({"error":"Model with requested version is not found"})");
  catalog_.SetState("p", 1, VersionState::kUnavailable, "x", StatusCode::kFailedPrecondition,
                    ServableKind::kPipeline);
  EXPECT_NE(Get("/v1/models/p").body.find("\"error_code\": \"FAILED_PRECONDITION\""), std::string::npos);
}

TEST_F(TfsRest, TellsAndReloadsTheConfiguration) {
  EXPECT_EQ(Get("/v1/config").body, "{}\n");
  Add({{DataType::kFp32, {1}}});
  const std::string all = "{\n\"m\" : " + std::string(kAvailable.substr(0, kAvailable.size() - 1)) + "\n}\n";
  EXPECT_EQ(Get("/v1/config").body, all);
  TestResponse response = Post("/v1/config/reload", "");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, all);
  config_.set_changed(true);
  response = Post("/v1/config/reload", "ignored");
  EXPECT_EQ(response.status, 201);
  EXPECT_EQ(response.body, all);
  config_.set_answer(FaultError(Fault::kJsonInvalid));
  response = Post("/v1/config/reload", "");
  EXPECT_EQ(response.status, 412);
  EXPECT_EQ(response.body, R"({"error":"The file is not valid json"})");
}

TEST_F(TfsRest, SaysThatThereIsNoConfiguration) {
  with_config_ = false;
  const TestResponse response = Post("/v1/config/reload", "");
  EXPECT_EQ(response.status, 412);
  EXPECT_EQ(response.body, R"({"error":"nothing to reload: the server was started without a config.json"})");
}

// ---- Routes ----

TEST_F(TfsRest, RefusesWhatIsNoRoute) {
  Add({{DataType::kFp32, {1}}});
  EXPECT_EQ(Post("/v1/models/m:classify", "{}").status, 404);
  EXPECT_EQ(Post("/v1/models/m:regress", "{}").body, R"({"error":"Requested REST resource not found"})");
  EXPECT_EQ(Get("/v1/models/m:predict").status, 406);
  EXPECT_EQ(Get("/v1/models/m:predict").body, R"({"error":"Unsupported method"})");
  EXPECT_EQ(Post("/v1/config", "").status, 406);
  EXPECT_EQ(Get("/v1/elsewhere").status, 400);
  EXPECT_EQ(Get("/v1/elsewhere").body, R"({"error":"Invalid request URL"})");
  EXPECT_EQ(Get("/v1/models/../m").status, 400);
  EXPECT_EQ(Get("/v1/models/%2e%2e/m").body,
            R"({"error":"The provided base path is invalid or doesn't exists"})");
  for (auto* path : {"/v1/models/../x", "/v1/models/%zz", "/v1/models/m%FF"}) {
    EXPECT_EQ(Get(path).body, R"({"error":"The provided base path is invalid or doesn't exists"})") << path;
  }
  EXPECT_EQ(Get("/v2/health/live").status, 200);
  EXPECT_EQ(Get("/elsewhere").status, 400);
}

TEST_F(TfsRest, EveryRoutePassesTheAccessPolicy) {
  for (int api = 0; api < kApiCount; ++api) {
    const std::string name(ApiName(static_cast<Api>(api)));
    ASSERT_TRUE(context_.http_access.AddRestriction(name + ":key-" + name + "=secret").ok());
  }
  Add({{DataType::kFp32, {1}}});
  TestClient client = Connect();
  for (const HttpRoute& route : TfsRoutes::Routes()) {
    std::string target(route.pattern);
    for (const auto& [variable, value] :
         {std::pair("{n}", "m"), std::pair("{v}", "1"), std::pair("{l}", "l")}) {
      if (const size_t at = target.find(variable); at != std::string::npos) target.replace(at, 3, value);
    }
    const std::string header = "key-" + std::string(ApiName(route.api));
    auto response = client.Request(route.method, target);
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 403) << target;
    EXPECT_EQ(response->body, "{\"error\":\"This API is restricted, expecting header '" + header + "'\"}");
    response = client.Request(route.method, target, "", header + ": secret\r\n");
    ASSERT_TRUE(response);
    EXPECT_NE(response->status, 403) << target;
    response = client.Request(route.method, target, "", header + ": secret\r\nOrigin: null\r\n");
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status == 403, route.method != "GET") << target;
  }
  control_.set_serving(false);
  for (auto* target : {"/v1/models/m", "/v1/config"}) {
    EXPECT_EQ(
        client.Request("GET", target, "", "key-metadata: secret\r\nkey-model-repository: secret\r\n")->status,
        503);
  }
}

}  // namespace
}  // namespace braid
