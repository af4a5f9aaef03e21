// Both servers of KServe in front of a stateful servable: how clients name sequences, the errors for wrong
// names, and the responses.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "grpc_service.grpc.pb.h"
#include "model_config.pb.h"
#include "protocols/http/testing/test_client.h"
#include "protocols/inference/testing/fake_servable.h"
#include "protocols/kserve/testing/kserve_servers.h"
#include "serving/faults.h"
#include "serving/sequence_inputs.h"
#include "serving/testing/fake_control.h"

namespace braid {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;

template <class T>
std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
std::string Id(uint64_t id) { return Bytes(id); }
std::string Control(uint32_t control) { return Bytes(control); }

enum class Form { kRaw, kTyped };

constexpr std::string_view kBadId = "Could not find sequence id in expected tensor proto field uint64_val";
constexpr std::string_view kBadControl =
    "Could not find sequence control input in expected tensor proto field uint32_val";
constexpr std::string_view kNoId = "Sequence ID has not been provided in request inputs";

// A stateful servable without state: it records the sequence of each request, and answers with its input and
// the sequence's id. Its own id is 77.
class StatefulServers : public testing::Test {
 protected:
  StatefulServers() {
    stateful_ = Publish(Info("stateful"));
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
  ~StatefulServers() override {
    grpc_->Shutdown(SteadyNowNs());
    http_->Shutdown(SteadyNowNs());
  }

  static ServableInfo Info(std::string name) {
    ServableInfo info;
    info.name = std::move(name);
    info.dialect = Dialect::kOvms;
    info.platform = "OpenVINO";
    info.inputs = {Spec("INPUT0", DataType::kFp32, {1, 2})};
    info.outputs = {Spec("OUTPUT0", DataType::kFp32, {1, 2})};
    info.stateful.emplace();
    return info;
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
    servable->set_check(false);
    FakeServable* fake = servable.get();
    servable->set_responder(
        [this, fake](std::unique_ptr<InferenceRequest> request) { Answer(*fake, *request); });
    catalog_.Publish(servable);
    return servable;
  }

  void Answer(const FakeServable& servable, InferenceRequest& request) {
    ServableInfo info = servable.info();
    if (info.stateful) info.outputs.push_back(Spec("sequence_id", DataType::kUint64, {1}));
    Status status = info.stateful ? TakeSequenceInputs(request) : OkStatus();
    if (status.ok()) status = CheckRequest(info, request);
    std::lock_guard lock(mutex_);
    if (status.ok()) {
      seen_.push_back(Text(request));
      status = fault_;
    }
    if (!status.ok()) {
      request.Refuse(std::move(status));
      return;
    }
    InferenceResponse response = FakeServable::Echo(request, info);
    if (info.stateful) {
      const auto* number = std::get_if<uint64_t>(&request.correlation_id);
      const uint64_t id = *number == 0 ? 77 : *number;
      response.outputs.push_back(
          Tensor{"sequence_id", DataType::kUint64, {1}, CopyToHeap(std::as_bytes(std::span(&id, 1)))});
    }
    std::erase_if(response.outputs, [&](const Tensor& output) {
      const auto& wanted = request.requested_outputs;
      return !wanted.empty() && std::find(wanted.begin(), wanted.end(), output.name) == wanted.end();
    });
    request.Respond(std::move(response), true);
  }

  // Returns "5", "5 start" or "'x' end".
  static std::string Text(const InferenceRequest& request) {
    const auto* number = std::get_if<uint64_t>(&request.correlation_id);
    std::string text = number != nullptr ? std::to_string(*number)
                                         : "'" + std::get<std::string>(request.correlation_id) + "'";
    if (request.sequence_start) text += " start";
    if (request.sequence_end) text += " end";
    return text;
  }
  // Returns the records since the last call.
  std::vector<std::string> Seen() {
    std::lock_guard lock(mutex_);
    return std::exchange(seen_, {});
  }
  void SetFault(Status fault) {
    std::lock_guard lock(mutex_);
    fault_ = std::move(fault);
  }

  // ---- gRPC ----

  static ModelInferRequest Request(Form form = Form::kRaw, const std::string& model = "stateful") {
    ModelInferRequest request;
    request.set_model_name(model);
    Add(request, "INPUT0", "FP32", {1, 2}, std::string(8, '\0'));
    if (form == Form::kTyped) {
      request.clear_raw_input_contents();
      for (int i = 0; i < 2; ++i) request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(0);
    }
    return request;
  }
  static ModelInferRequest::InferInputTensor& Add(ModelInferRequest& request, const std::string& name,
                                                  const std::string& datatype,
                                                  const std::vector<int64_t>& shape,
                                                  const std::optional<std::string>& raw = std::nullopt) {
    auto& input = *request.add_inputs();
    input.set_name(name);
    input.set_datatype(datatype);
    for (int64_t dimension : shape) input.add_shape(dimension);
    if (raw) request.add_raw_input_contents(*raw);
    return input;
  }
  static void AddId(ModelInferRequest& request, Form form, uint64_t id) {
    if (form == Form::kRaw) {
      Add(request, "sequence_id", "UINT64", {1}, Id(id));
    } else {
      Add(request, "sequence_id", "UINT64", {1}).mutable_contents()->add_uint64_contents(id);
    }
  }
  static void AddControl(ModelInferRequest& request, Form form, uint32_t control) {
    if (form == Form::kRaw) {
      Add(request, "sequence_control_input", "UINT32", {1}, Control(control));
    } else {
      Add(request, "sequence_control_input", "UINT32", {1}).mutable_contents()->add_uint_contents(control);
    }
  }
  static void AddParameters(ModelInferRequest& request, int64_t id, bool start, bool end) {
    (*request.mutable_parameters())["sequence_id"].set_int64_param(id);
    (*request.mutable_parameters())["sequence_start"].set_bool_param(start);
    (*request.mutable_parameters())["sequence_end"].set_bool_param(end);
  }
  grpc::Status Infer(const ModelInferRequest& request, ModelInferResponse* response = nullptr,
                     const std::vector<std::string>& headers = {}) {
    grpc::ClientContext context;
    for (const std::string& header : headers) context.AddMetadata("braid-sequence-id", header);
    ModelInferResponse ignored;
    return stub_->ModelInfer(&context, request, response != nullptr ? response : &ignored);
  }
  // Returns "{code}: {text}", or the servable's record.
  std::string Outcome(const ModelInferRequest& request, const std::vector<std::string>& headers = {}) {
    const grpc::Status status = Infer(request, nullptr, headers);
    const std::vector<std::string> seen = Seen();
    if (!status.ok()) return std::to_string(status.error_code()) + ": " + status.error_message();
    return seen.size() == 1 ? seen[0] : std::to_string(seen.size()) + " requests";
  }

  // ---- HTTP ----

  TestResponse Post(std::string_view target, std::string_view body, std::string_view headers = "") {
    return TestClient(http_->bound_port()).Request("POST", target, body, headers).value();
  }
  // `members` are the inputs and other members of the body; `tail` follows it.
  std::string HttpOutcome(const std::string& members, const std::string& tail = "",
                          const std::string& headers = "", const std::string& model = "stateful") {
    const std::string json = Body(members);
    const TestResponse response =
        Post("/v2/models/" + model + "/infer", json + tail,
             headers + "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n");
    const std::vector<std::string> seen = Seen();
    if (response.status != 200) return std::to_string(response.status) + ": " + response.body;
    return seen.size() == 1 ? seen[0] : std::to_string(seen.size()) + " requests";
  }
  static std::string Input(const std::string& name, const std::string& datatype, const std::string& shape,
                           const std::string& rest) {
    return R"({"name":")" + name + R"(","datatype":")" + datatype + R"(","shape":)" + shape + rest + "}";
  }
  static std::string Body(const std::string& members) { return std::string("{").append(members).append("}"); }
  static std::string Inputs(const std::vector<std::string>& naming) {
    std::string text = R"("inputs":[)" + Input("INPUT0", "FP32", "[1,2]", R"(,"data":[0,0])");
    for (const std::string& input : naming) text += "," + input;
    return text + "]";
  }
  static std::string JsonId(const std::string& data, const std::string& shape = "[1]",
                            const std::string& datatype = "UINT64") {
    return Input("sequence_id", datatype, shape, R"(,"data":)" + data);
  }
  static std::string JsonControl(const std::string& data, const std::string& shape = "[1]",
                                 const std::string& datatype = "UINT32") {
    return Input("sequence_control_input", datatype, shape, R"(,"data":)" + data);
  }
  static std::string Binary(size_t size) {
    return R"(,"parameters":{"binary_data_size":)" + std::to_string(size) + "}";
  }
  static std::string BinaryId(size_t size = 8) { return Input("sequence_id", "UINT64", "[1]", Binary(size)); }
  static std::string BinaryControl(size_t size = 4) {
    return Input("sequence_control_input", "UINT32", "[1]", Binary(size));
  }
  static std::string Error(int status, std::string_view text) {
    return std::to_string(status) + ": {\"error\":\"" + std::string(text) + "\"}";
  }

  Catalog catalog_{Dialect::kOvms};
  FakeControl control_;
  Logger log_;
  ProtocolContext context_{
      .catalog = catalog_, .control = control_, .log = log_, .server_version = "1", .extensions = {}};
  std::mutex mutex_;
  std::vector<std::string> seen_;  // guarded by mutex_
  Status fault_;                   // guarded by mutex_; the error for good requests
  std::shared_ptr<FakeServable> stateful_;
  std::unique_ptr<KserveGrpcServer> grpc_;
  std::unique_ptr<KserveHttpServer> http_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

TEST_F(StatefulServers, InputsNameSequencesOverGrpc) {
  for (const Form form : {Form::kRaw, Form::kTyped}) {
    ModelInferRequest request = Request(form);
    AddControl(request, form, 1);
    EXPECT_EQ(Outcome(request), "0 start");
    AddId(request, form, uint64_t{1} << 63);
    EXPECT_EQ(Outcome(request), "9223372036854775808 start");
    request = Request(form);
    AddId(request, form, 5);
    EXPECT_EQ(Outcome(request), "5");
    AddControl(request, form, 2);
    EXPECT_EQ(Outcome(request), "5 end");
    // Ahead of the model's own input.
    request.mutable_inputs()->SwapElements(0, 1);
    if (form == Form::kRaw) request.mutable_raw_input_contents()->SwapElements(0, 1);
    EXPECT_EQ(Outcome(request), "5 end");
  }
}

TEST_F(StatefulServers, ParametersNameSequencesOverGrpc) {
  ModelInferRequest request = Request();
  AddParameters(request, 6, true, false);
  EXPECT_EQ(Outcome(request), "6 start");
  AddParameters(request, 6, true, true);
  EXPECT_EQ(Outcome(request), "6 start end");
  AddParameters(request, 6, false, false);
  AddId(request, Form::kRaw, 6);
  EXPECT_EQ(Outcome(request), "6");
  AddControl(request, Form::kRaw, 2);
  EXPECT_EQ(Outcome(request), "6 end");
  AddParameters(request, 7, false, true);
  EXPECT_EQ(Outcome(request),
            "3: the request names two sequences: '6' by its inputs and '7' by its parameters");
  AddParameters(request, 6, true, false);
  EXPECT_EQ(Outcome(request),
            "3: sequence_control_input contradicts the parameters sequence_start and "
            "sequence_end");
  request = Request();
  (*request.mutable_parameters())["sequence_id"].set_string_param("six");
  EXPECT_EQ(Outcome(request), "3: a sequence of a stateful model needs a numeric id, not 'six'");
}

TEST_F(StatefulServers, TellsFaultsOfInputsInTheirOrderOverGrpc) {
  const std::string no_shape = "3: Special input proto does not contain tensor shape information";
  const std::string rank = "3: Invalid number of shape dimensions - Required shape for sequence_";
  const std::string shape = "3: Invalid input shape - Required shape for sequence_";
  const std::string bad_id = "3: " + std::string(kBadId);
  const std::string bad_control = "3: " + std::string(kBadControl);
  for (const Form form : {Form::kRaw, Form::kTyped}) {
    // All later faults of this test are reported before this one.
    ModelInferRequest request = Request(form);
    request.mutable_inputs(0)->set_shape(1, 3);
    AddId(request, form, 0);
    AddControl(request, form, 3);
    auto& id = *request.mutable_inputs(1);
    auto& control = *request.mutable_inputs(2);
    control.clear_shape();
    id.clear_shape();
    EXPECT_EQ(Outcome(request), no_shape);
    id.add_shape(1);
    id.add_shape(1);
    EXPECT_EQ(Outcome(request), rank + "id is: (1)");
    id.mutable_shape()->Truncate(1);
    id.set_shape(0, 2);
    EXPECT_EQ(Outcome(request), shape + "id is: (1)");
    id.set_shape(0, 1);
    id.set_datatype("INT64");
    EXPECT_EQ(Outcome(request), bad_id);
    id.set_datatype("STRANGE");
    EXPECT_EQ(Outcome(request), bad_id);
    id.set_datatype("UINT64");
    EXPECT_EQ(Outcome(request), no_shape);
    control.add_shape(1);
    control.add_shape(1);
    EXPECT_EQ(Outcome(request), rank + "control_input is: (1)");
    control.mutable_shape()->Truncate(1);
    control.set_shape(0, 0);
    EXPECT_EQ(Outcome(request), shape + "control_input is: (1)");
    control.set_shape(0, 1);
    control.set_datatype("INT32");
    EXPECT_EQ(Outcome(request), bad_control);
    control.set_datatype("UINT32");
    EXPECT_EQ(Outcome(request), "3: Unexpected value of sequence control input");
    const auto set_control = [&](uint32_t value) {
      if (form == Form::kRaw) {
        request.set_raw_input_contents(2, Control(value));
      } else {
        control.mutable_contents()->set_uint_contents(0, value);
      }
    };
    for (const uint32_t value : {0u, 2u}) {
      set_control(value);
      EXPECT_EQ(Outcome(request), "3: " + std::string(kNoId));
    }
    set_control(1);
    EXPECT_EQ(Outcome(request).substr(0, 6), "3: Inv");
    EXPECT_NE(Outcome(request).find("input name: INPUT0"), std::string::npos);
  }
  EXPECT_EQ(Outcome(Request()), "3: " + std::string(kNoId));
}

TEST_F(StatefulServers, TakesOneValueOfTheRightFieldOverGrpc) {
  const std::string bad_id = "3: " + std::string(kBadId);
  for (const size_t size : {size_t{0}, size_t{7}, size_t{9}, size_t{16}}) {
    ModelInferRequest request = Request();
    Add(request, "sequence_id", "UINT64", {1}, std::string(size, '\1'));
    EXPECT_EQ(Outcome(request), bad_id) << size;
  }
  ModelInferRequest request = Request(Form::kTyped);
  auto& id = Add(request, "sequence_id", "UINT64", {1});
  EXPECT_EQ(Outcome(request), bad_id);
  id.mutable_contents()->add_int64_contents(5);
  EXPECT_EQ(Outcome(request), bad_id);
  id.mutable_contents()->add_uint64_contents(5);
  EXPECT_EQ(Outcome(request), bad_id);
  id.mutable_contents()->clear_int64_contents();
  EXPECT_EQ(Outcome(request), "5");
  id.mutable_contents()->add_uint64_contents(5);
  EXPECT_EQ(Outcome(request), bad_id);

  request = Request(Form::kTyped);
  AddId(request, Form::kTyped, 5);
  AddControl(request, Form::kTyped, 1);
  request.mutable_inputs(2)->mutable_contents()->add_uint_contents(1);
  EXPECT_EQ(Outcome(request), "3: " + std::string(kBadControl));
}

TEST_F(StatefulServers, TellsFaultsOfTheMessageOverGrpc) {
  const std::string structure =
      "3: Passing buffers both in ModelInferRequest::InferInputTensor::contents and in "
      "ModelInferRequest::raw_input_contents is not allowed - ";
  // Contents cannot be assigned to inputs, so the special inputs have no values.
  ModelInferRequest request = Request();
  Add(request, "sequence_id", "UINT64", {1});
  EXPECT_EQ(Outcome(request),
            structure + "Size of raw_input_contents: 1 is different than number of inputs: 2");
  request = Request();
  AddId(request, Form::kRaw, 5);
  request.mutable_inputs(1)->mutable_contents()->add_uint64_contents(5);
  EXPECT_EQ(Outcome(request),
            structure +
                "Passing buffers both in InferInputTensor contents and in raw_input_contents is not allowed. "
                "Detected buffer in InferInputTensor contents for input: sequence_id");
  // The number of inputs is checked first; the count has all inputs.
  Add(request, "more", "FP32", {1});
  EXPECT_EQ(Outcome(request), "3: Invalid number of inputs - Expected: 2; Actual: 3");
  for (const Form form : {Form::kRaw, Form::kTyped}) {
    request = Request(form);
    AddId(request, form, 5);
    AddControl(request, form, 2);
    if (form == Form::kRaw) {
      Add(request, "more", "FP32", {1}, std::string(4, '\0'));
    } else {
      Add(request, "more", "FP32", {1});
    }
    EXPECT_EQ(Outcome(request), "3: Invalid number of inputs - Expected: 3; Actual: 4");
    request.mutable_inputs()->DeleteSubrange(0, 1);
    request.mutable_inputs()->DeleteSubrange(2, 1);
    if (form == Form::kRaw) {
      request.mutable_raw_input_contents()->DeleteSubrange(0, 1);
      request.mutable_raw_input_contents()->DeleteSubrange(2, 1);
    }
    EXPECT_EQ(Outcome(request), "3: Invalid number of inputs - Expected: 3; Actual: 2");
    request = Request(form);
    AddId(request, form, 5);
    AddId(request, form, 5);
    EXPECT_EQ(Outcome(request), "3: Unexpected input - sequence_id is given more than once");
  }
  EXPECT_EQ(Seen(), std::vector<std::string>());
}

TEST_F(StatefulServers, InputsAreOrdinaryToOthers) {
  ServableInfo info = Info("stateless");
  info.stateful.reset();
  Publish(info);
  ModelInferRequest request = Request(Form::kRaw, "stateless");
  EXPECT_EQ(Outcome(request), "0");
  // They ignore the header too.
  EXPECT_EQ(Outcome(request, {"5"}), "0");
  EXPECT_EQ(Outcome(request, {"5", "6"}), "0");
  AddId(request, Form::kRaw, 5);
  EXPECT_EQ(Outcome(request), "3: Invalid number of inputs - Expected: 1; Actual: 2");
  request.mutable_inputs()->DeleteSubrange(0, 1);
  request.mutable_raw_input_contents()->DeleteSubrange(0, 1);
  EXPECT_EQ(Outcome(request), "3: Missing input with specific name - Required input: INPUT0");
  EXPECT_EQ(HttpOutcome(Inputs({JsonId("[5]")}), "", "", "stateless"),
            Error(400, "Invalid number of inputs - Expected: 1; Actual: 2"));
  EXPECT_EQ(HttpOutcome(Inputs({}), "", "Braid-Sequence-Id: 5\r\n", "stateless"), "0");
}

TEST_F(StatefulServers, MetadataNamesSequencesOverGrpc) {
  ModelInferRequest request = Request();
  EXPECT_EQ(Outcome(request, {"9"}), "9");
  AddControl(request, Form::kRaw, 1);
  EXPECT_EQ(Outcome(request, {"9"}), "9 start");
  EXPECT_EQ(Outcome(request, {"9", "9"}), "9 start");
  EXPECT_EQ(Outcome(request, {"9", "8"}), "3: the header braid-sequence-id has different values");
  EXPECT_EQ(Outcome(request, {"nine"}), "3: a sequence of a stateful model needs a numeric id, not 'nine'");
  EXPECT_EQ(Outcome(request, {"0"}), "0 start");
  AddId(request, Form::kRaw, 8);
  const std::string other =
      "3: the request names two sequences: '9' by its header braid-sequence-id and '8' by its body";
  EXPECT_EQ(Outcome(request, {"9"}), other);
  EXPECT_EQ(Outcome(request, {"8"}), "8 start");
  request = Request();
  EXPECT_EQ(Outcome(request, {"0"}), "3: " + std::string(kNoId));
  AddParameters(request, 8, false, false);
  EXPECT_EQ(Outcome(request, {"9"}), other);
  EXPECT_EQ(Outcome(request, {"8"}), "8");
}

TEST_F(StatefulServers, InputsNameSequencesOverHttp) {
  EXPECT_EQ(HttpOutcome(Inputs({JsonControl("[1]")})), "0 start");
  EXPECT_EQ(HttpOutcome(Inputs({JsonControl("[1]"), JsonId("[18446744073709551615]")})),
            "18446744073709551615 start");
  EXPECT_EQ(HttpOutcome(Inputs({JsonId("[[5]]"), JsonControl("[2]")})), "5 end");
  EXPECT_EQ(HttpOutcome(R"("parameters":{"sequence_id":6,"sequence_start":true},)" + Inputs({})), "6 start");
  EXPECT_EQ(HttpOutcome(R"("parameters":{"sequence_id":6},)" + Inputs({JsonId("[6]")})), "6");
  EXPECT_EQ(HttpOutcome(R"("parameters":{"sequence_id":6},)" + Inputs({JsonId("[7]")})),
            Error(400, "the request names two sequences: '7' by its inputs and '6' by its parameters"));
  EXPECT_EQ(HttpOutcome(R"("parameters":{"sequence_id":"six"},)" + Inputs({})),
            Error(400, "a sequence of a stateful model needs a numeric id, not 'six'"));
}

TEST_F(StatefulServers, BytesNameSequencesOverHttp) {
  EXPECT_EQ(HttpOutcome(Inputs({BinaryId(), BinaryControl()}), Id(5) + Control(2)), "5 end");
  EXPECT_EQ(HttpOutcome(Inputs({BinaryControl(), BinaryId()}), Control(1) + Id(5)), "5 start");
  EXPECT_EQ(HttpOutcome(Inputs({BinaryControl(), JsonId("[5]")}), Control(2)), "5 end");
  EXPECT_EQ(HttpOutcome(Inputs({BinaryId(), JsonControl("[2]")}), Id(5)), "5 end");
  // The special inputs are before, between and after the model's own, which gets its own bytes.
  const auto seen = [this] { return Seen(); };
  stateful_->set_responder([this](std::unique_ptr<InferenceRequest> request) {
    ASSERT_TRUE(TakeSequenceInputs(*request).ok());
    ASSERT_EQ(request->inputs.size(), 1u);
    std::lock_guard lock(mutex_);
    seen_.push_back(std::string(request->inputs[0].data.text()) + " " + Text(*request));
    request->Respond(InferenceResponse(), true);
  });
  const std::string own = Input("INPUT0", "FP32", "[1,2]", Binary(8));
  const std::string own_bytes = "INPUTxyz";
  const auto outcome = [&](const std::string& inputs, const std::string& tail) {
    return HttpOutcome(R"("inputs":[)" + inputs + "]", tail);
  };
  EXPECT_EQ(outcome(BinaryId() + "," + own + "," + BinaryControl(), Id(5) + own_bytes + Control(2)),
            own_bytes + " 5 end");
  EXPECT_EQ(outcome(own + "," + BinaryControl() + "," + BinaryId(), own_bytes + Control(2) + Id(5)),
            own_bytes + " 5 end");
  EXPECT_EQ(outcome(BinaryControl() + "," + BinaryId() + "," + own, Control(2) + Id(5) + own_bytes),
            own_bytes + " 5 end");
  EXPECT_EQ(seen(), std::vector<std::string>());
}

TEST_F(StatefulServers, TellsFaultsOfInputsInTheirOrderOverHttp) {
  const std::string no_shape = Error(400, "Special input proto does not contain tensor shape information");
  const std::string bad_id = Error(400, kBadId);
  const std::string bad_control = Error(400, kBadControl);
  // All faults below are reported before this shape's.
  const auto outcome = [&](const std::string& id, const std::string& control, const std::string& tail = "") {
    return HttpOutcome(R"("inputs":[)" + Input("INPUT0", "FP32", "[1,3]", R"(,"data":[0,0])") + "," + id +
                           "," + control + "]",
                       tail);
  };
  EXPECT_EQ(outcome(JsonId("[0]", "[]"), JsonControl("[3]", "[]")), no_shape);
  EXPECT_EQ(outcome(JsonId("[0]", "[1,1]"), JsonControl("[3]", "[]")),
            Error(400, "Invalid number of shape dimensions - Required shape for sequence_id is: (1)"));
  EXPECT_EQ(outcome(JsonId("[0,1]", "[2]"), JsonControl("[3]", "[]")),
            Error(400, "Invalid input shape - Required shape for sequence_id is: (1)"));
  EXPECT_EQ(outcome(JsonId("[0]", "[1]", "INT64"), JsonControl("[3]", "[]")), bad_id);
  EXPECT_EQ(outcome(JsonId("[0,1]"), JsonControl("[3]", "[]")), bad_id);
  EXPECT_EQ(outcome(JsonId("[]"), JsonControl("[3]", "[]")), bad_id);
  EXPECT_EQ(outcome(Input("sequence_id", "UINT64", "[1]", ""), JsonControl("[3]", "[]")), bad_id);
  EXPECT_EQ(outcome(BinaryId(7), JsonControl("[3]", "[]"), std::string(7, '\0')), bad_id);
  EXPECT_EQ(outcome(JsonId("[0]"), JsonControl("[3]", "[]")), no_shape);
  EXPECT_EQ(
      outcome(JsonId("[0]"), JsonControl("[3]", "[1,1]")),
      Error(400, "Invalid number of shape dimensions - Required shape for sequence_control_input is: (1)"));
  EXPECT_EQ(outcome(JsonId("[0]"), JsonControl("[3]", "[1]", "INT32")), bad_control);
  EXPECT_EQ(outcome(JsonId("[0]"), JsonControl("[3]")),
            Error(400, "Unexpected value of sequence control input"));
  EXPECT_EQ(outcome(JsonId("[0]"), JsonControl("[2]")), Error(400, kNoId));
  EXPECT_EQ(outcome(JsonId("[0]"), JsonControl("[1]")),
            Error(400, "Invalid input shape - Expected: (1,2); Actual: (1,3); input name: INPUT0"));
  // A value that is not a number is an error of the input's JSON.
  EXPECT_EQ(outcome(JsonId("[\"x\"]"), JsonControl("[3]", "[]")),
            Error(400,
                  "Could not parse input content. Not valid ndarray detected - Unable to parse 'data': "
                  "attempt to access JSON non-unsigned-integer as unsigned-integer"));
  EXPECT_EQ(outcome(JsonId("5"), JsonControl("[1]")),
            Error(400,
                  "Could not parse input content. Not valid ndarray detected - Unable to parse 'data': "
                  "attempt to access JSON non-array as array"));
  EXPECT_EQ(HttpOutcome(Inputs({})), Error(400, kNoId));
  EXPECT_EQ(HttpOutcome(Inputs({JsonId("[5]"), JsonId("[5]")})),
            Error(400, "Unexpected input - sequence_id is given more than once"));
  EXPECT_EQ(HttpOutcome(Inputs({JsonId("[5]"), Input("more", "FP32", "[1]", R"(,"data":[1])")})),
            Error(400, "Invalid number of inputs - Expected: 2; Actual: 3"));
}

TEST_F(StatefulServers, TellsFaultsOfBytesOverHttp) {
  EXPECT_EQ(HttpOutcome(Inputs({BinaryId(), BinaryControl()}), Id(0) + Control(3)),
            Error(400, "Unexpected value of sequence control input"));
  EXPECT_EQ(HttpOutcome(Inputs({BinaryId(), BinaryControl()}), Id(0) + Control(2)), Error(400, kNoId));
  EXPECT_EQ(HttpOutcome(R"("parameters":{"sequence_id":6},)" + Inputs({BinaryId()}), Id(7)),
            Error(400, "the request names two sequences: '7' by its inputs and '6' by its parameters"));
  EXPECT_EQ(
      HttpOutcome(Inputs({BinaryId()}), Id(7), "Braid-Sequence-Id: 6\r\n"),
      Error(400, "the request names two sequences: '6' by its header braid-sequence-id and '7' by its body"));
  EXPECT_EQ(HttpOutcome(Inputs({BinaryId()}), Id(7) + "more"),
            Error(400,
                  "Invalid content size of tensor proto - unexpected additional input data for model "
                  "'stateful'"));
  // The connection stays open after a fault that shows only in the bytes.
  TestClient client(http_->bound_port());
  const std::string json = Body(Inputs({BinaryId()}));
  const std::string headers = "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n";
  EXPECT_EQ(client.Request("POST", "/v2/models/stateful/infer", json + Id(0), headers)->status, 400);
  EXPECT_EQ(client.Request("POST", "/v2/models/stateful/infer", json + Id(4), headers)->status, 200);
  EXPECT_EQ(Seen(), std::vector<std::string>{"4"});
  EXPECT_EQ(
      stateful_->api_counters().fail({ApiProtocol::kKServe, ApiInterface::kRest, ApiMethod::kModelInfer}),
      6u);
}

TEST_F(StatefulServers, AHeaderNamesSequencesOverHttp) {
  EXPECT_EQ(HttpOutcome(Inputs({}), "", "braid-sequence-id: 9\r\n"), "9");
  EXPECT_EQ(HttpOutcome(Inputs({JsonControl("[1]")}), "", "Braid-Sequence-Id: 9\r\n"), "9 start");
  EXPECT_EQ(HttpOutcome(Inputs({BinaryControl()}), Control(2), "Braid-Sequence-Id: 9\r\n"), "9 end");
  EXPECT_EQ(HttpOutcome(Inputs({}), "", "Braid-Sequence-Id: 9\r\nBraid-Sequence-Id: 8\r\n"),
            Error(400, "the header braid-sequence-id has different values"));
  EXPECT_EQ(HttpOutcome(Inputs({}), "", "Braid-Sequence-Id: \xff\r\n"),
            Error(400, "the header braid-sequence-id must be UTF-8"));
  EXPECT_EQ(
      HttpOutcome(Inputs({JsonId("[8]")}), "", "Braid-Sequence-Id: 9\r\n"),
      Error(400, "the request names two sequences: '9' by its header braid-sequence-id and '8' by its body"));
  // A body without JSON cannot name another sequence.
  const TestResponse raw = Post("/v2/models/stateful/infer", std::string(8, '\0'),
                                "Inference-Header-Content-Length: 0\r\nBraid-Sequence-Id: 9\r\n");
  EXPECT_EQ(raw.status, 200);
  EXPECT_EQ(Seen(), std::vector<std::string>{"9"});
  EXPECT_EQ(
      Post("/v2/models/stateful/infer", std::string(8, '\0'), "Inference-Header-Content-Length: 0\r\n").body,
      "{\"error\":\"" + std::string(kNoId) + "\"}");
}

TEST_F(StatefulServers, RegionsOfClientsNameSequences) {
  const std::string key = "/braid-stateful-" + std::to_string(getpid());
  UniqueFd file(shm_open(key.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ASSERT_GE(file.get(), 0);
  const std::string content = Id(5) + Control(2) + std::string(52, '\0');
  ASSERT_EQ(write(file.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
  ASSERT_TRUE(context_.client_memory->Register({"region", key, 0, content.size()}).ok());
  const auto in_region = [](auto& parameters, int64_t offset, int64_t size) {
    parameters["shared_memory_region"].set_string_param("region");
    parameters["shared_memory_offset"].set_int64_param(offset);
    parameters["shared_memory_byte_size"].set_int64_param(size);
  };
  for (const Form form : {Form::kRaw, Form::kTyped}) {
    ModelInferRequest request = Request(form);
    in_region(*Add(request, "sequence_id", "UINT64", {1}).mutable_parameters(), 0, 8);
    in_region(*Add(request, "sequence_control_input", "UINT32", {1}).mutable_parameters(), 8, 4);
    EXPECT_EQ(Outcome(request), "5 end");
    auto& output = *request.add_outputs();
    output.set_name("sequence_id");
    in_region(*output.mutable_parameters(), 16, 8);
    ASSERT_TRUE(Infer(request).ok());
    uint64_t told = 0;
    ASSERT_EQ(pread(file.get(), &told, sizeof(told), 16), 8);
    EXPECT_EQ(told, 5u);
    Seen();
    in_region(*request.mutable_inputs(1)->mutable_parameters(), 0, 12);
    EXPECT_EQ(Outcome(request), "3: " + std::string(kBadId));
    (*request.mutable_inputs(1)->mutable_parameters())["shared_memory_region"].set_string_param("none");
    EXPECT_EQ(Outcome(request), "5: Unable to find shared memory region: 'none'");
  }
  const auto region = [](const std::string& name, int offset, int size) {
    return R"(,"parameters":{"shared_memory_region":")" + name + R"(","shared_memory_offset":)" +
           std::to_string(offset) + R"(,"shared_memory_byte_size":)" + std::to_string(size) + "}";
  };
  const auto id = [&](const std::string& name, int size) {
    return Input("sequence_id", "UINT64", "[1]", region(name, 0, size));
  };
  const std::string control = Input("sequence_control_input", "UINT32", "[1]", region("region", 8, 4));
  EXPECT_EQ(HttpOutcome(Inputs({id("region", 8), control})), "5 end");
  EXPECT_EQ(HttpOutcome(Inputs({id("region", 8), BinaryControl()}), Control(1)), "5 start");
  EXPECT_EQ(HttpOutcome(Inputs({id("region", 12), control})), Error(400, kBadId));
  EXPECT_EQ(HttpOutcome(Inputs({id("none", 8), control})),
            Error(404, "Unable to find shared memory region: 'none'"));
  shm_unlink(key.c_str());
}

TEST_F(StatefulServers, GenerateTakesSequences) {
  const auto outcome = [this](const std::string& members, const std::string& headers = "") {
    const TestResponse response =
        Post("/v2/models/stateful/generate", R"({"INPUT0":[1,2])" + members + "}", headers);
    Seen();
    return std::to_string(response.status) + ": " + response.body;
  };
  const std::string good = R"(200: {"model_name":"stateful","model_version":"1","OUTPUT0":[1.0,2.0],)";
  EXPECT_EQ(outcome(R"(,"sequence_start":true)"), good + R"("sequence_id":77})");
  EXPECT_EQ(outcome(R"(,"sequence_control_input":1,"sequence_id":4)"), good + R"("sequence_id":4})");
  EXPECT_EQ(outcome(R"(,"sequence_control_input":[2],"sequence_id":[4])"), good + R"("sequence_id":4})");
  EXPECT_EQ(outcome(R"(,"parameters":{"sequence_id":4,"sequence_end":true})"), good + R"("sequence_id":4})");
  EXPECT_EQ(outcome("", "Braid-Sequence-Id: 4\r\n"), good + R"("sequence_id":4})");
  EXPECT_EQ(outcome(""), Error(400, kNoId));
  EXPECT_EQ(outcome(R"(,"sequence_id":[4,5])"),
            Error(400, "Invalid input shape - Required shape for sequence_id is: (1)"));
  EXPECT_EQ(outcome(R"(,"sequence_id":4,"sequence_control_input":3)"),
            Error(400, "Unexpected value of sequence control input"));
  EXPECT_EQ(outcome(R"(,"sequence_id":"four")"),
            Error(400,
                  "Could not parse input content. Not valid ndarray detected - attempt to access JSON "
                  "non-unsigned-integer as unsigned-integer"));
  EXPECT_EQ(outcome(R"(,"sequence_id":4,"parameters":{"sequence_id":5})"),
            Error(400, "the request names two sequences: '4' by its inputs and '5' by its parameters"));
}

TEST_F(StatefulServers, AnswersWithTheIdOverGrpc) {
  ModelInferRequest request = Request();
  AddControl(request, Form::kRaw, 1);
  ModelInferResponse response;
  ASSERT_TRUE(Infer(request, &response).ok());
  ASSERT_EQ(response.outputs_size(), 2);
  EXPECT_EQ(response.outputs(1).name(), "sequence_id");
  EXPECT_EQ(response.outputs(1).datatype(), "UINT64");
  ASSERT_EQ(response.outputs(1).shape_size(), 1);
  EXPECT_EQ(response.outputs(1).shape(0), 1);
  EXPECT_EQ(response.raw_output_contents(1), Id(77));
  EXPECT_EQ(response.parameters_size(), 0);
  // The response has it even if it was not requested.
  request.add_outputs()->set_name("OUTPUT0");
  ASSERT_TRUE(Infer(request, &response).ok());
  EXPECT_EQ(response.outputs_size(), 2);
  request.add_outputs()->set_name("sequence_id");
  ASSERT_TRUE(Infer(request, &response).ok());
  EXPECT_EQ(response.outputs_size(), 2);
  // It can be the only output.
  request.mutable_outputs()->DeleteSubrange(0, 1);
  ASSERT_TRUE(Infer(request, &response).ok());
  ASSERT_EQ(response.outputs_size(), 1);
  EXPECT_EQ(response.raw_output_contents(0), Id(77));
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(1);
  ASSERT_TRUE(Infer(request, &response).ok());
  EXPECT_EQ(response.outputs(0).datatype(), "BYTES");
  EXPECT_EQ(response.raw_output_contents(0), std::string("\4\0\0\0"
                                                         "77:0",
                                                         8));
  request.mutable_outputs(0)->set_name("other");
  EXPECT_EQ(Outcome(request), "3: requested output 'other' is not an output of 'stateful'");
}

TEST_F(StatefulServers, AnswersWithTheIdOverHttp) {
  const auto body = [this](const std::string& members) {
    return Post("/v2/models/stateful/infer", Body(members + Inputs({JsonId("[5]")}))).body;
  };
  const std::string head = R"({"model_name":"stateful","model_version":"1","outputs":[)";
  const std::string own = R"({"name":"OUTPUT0","datatype":"FP32","shape":[1,2],"data":[0.0,0.0]})";
  const std::string id = R"({"name":"sequence_id","datatype":"UINT64","shape":[1],"data":[5]})";
  EXPECT_EQ(body(""), head + own + "," + id + "]}");
  EXPECT_EQ(body(R"("outputs":[{"name":"OUTPUT0"}],)"), head + own + "," + id + "]}");
  EXPECT_EQ(body(R"("outputs":[{"name":"sequence_id"}],)"), head + id + "]}");
  const std::string binary =
      R"({"name":"sequence_id","datatype":"UINT64","shape":[1],"parameters":{"binary_data_size":8}})";
  EXPECT_EQ(
      body(R"("outputs":[{"name":"OUTPUT0"},{"name":"sequence_id","parameters":{"binary_data":true}}],)"),
      head + own + "," + binary + "]}" + Id(5));
  EXPECT_EQ(body(R"("parameters":{"binary_data_output":true},"outputs":[{"name":"sequence_id"}],)"),
            head + binary + "]}" + Id(5));
  EXPECT_EQ(body(R"("outputs":[{"name":"sequence_id","parameters":{"classification":1}}],)"),
            head + R"({"name":"sequence_id","datatype":"BYTES","shape":[1],"data":["5:0"]}]})");
}

TEST_F(StatefulServers, KeepsCodesOfFaults) {
  const struct {
    Fault code;
    int grpc;
    int http;
    std::string_view text;
  } faults[] = {
      {Fault::kSequenceMissing, 5, 404, "Sequence with provided ID does not exist"},
      {Fault::kSequenceAlreadyExists, 6, 409, "Sequence with provided ID already exists"},
      {Fault::kSequenceTerminated, 9, 412,
       "Sequence last request is being processed and it's not available anymore"},
      {Fault::kMaxSequenceNumberReached, 14, 503,
       "Max sequence number has been reached. Could not create new sequence."},
  };
  ModelInferRequest request = Request();
  AddId(request, Form::kRaw, 5);
  request.set_id("the request");
  grpc::ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  for (const auto& fault : faults) {
    SetFault(FaultError(fault.code));
    EXPECT_EQ(Outcome(request), std::to_string(fault.grpc) + ": " + std::string(fault.text));
    EXPECT_EQ(HttpOutcome(Inputs({JsonId("[5]")})), Error(fault.http, fault.text));
    ASSERT_TRUE(stream->Write(request));
    ModelStreamInferResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.error_message(), fault.text);
    EXPECT_EQ(response.infer_response().id(), "the request");
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StatefulServers, ReadsAStreamInItsOrder) {
  grpc::ClientContext context;
  context.AddMetadata("braid-sequence-id", "9");
  auto stream = stub_->ModelStreamInfer(&context);
  // A fault of one message is answered in order.
  constexpr int kMessages = 100;
  std::vector<std::string> expected;
  for (int i = 0; i < kMessages; ++i) {
    ModelInferRequest request = Request(i % 2 == 0 ? Form::kRaw : Form::kTyped);
    request.set_id(std::to_string(i));
    if (i == 50) AddParameters(request, 8, false, false);
    if (i == 51) AddParameters(request, 9, true, true);
    if (i != 50) expected.push_back(i == 51 ? "9 start end" : "9");
    ASSERT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  for (int i = 0; i < kMessages; ++i) {
    ModelStreamInferResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.infer_response().id(), std::to_string(i));
    EXPECT_EQ(response.error_message(),
              i == 50
                  ? "the request names two sequences: '9' by its header braid-sequence-id and '8' by its body"
                  : "");
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(Seen(), expected);
}

TEST_F(StatefulServers, ReadsAConnectionInItsOrder) {
  TestClient client(http_->bound_port());
  constexpr int kRequests = 50;
  std::vector<std::string> expected;
  for (int i = 1; i <= kRequests; ++i) {
    const std::string json = Body(Inputs({BinaryId()}));
    const std::string header = "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n";
    ASSERT_TRUE(
        client.SendRequest("POST", "/v2/models/stateful/infer", json + Id(static_cast<uint64_t>(i)), header));
    expected.push_back(std::to_string(i));
  }
  for (int i = 1; i <= kRequests; ++i) EXPECT_EQ(client.Read()->status, 200);
  EXPECT_EQ(Seen(), expected);
}

TEST_F(StatefulServers, MetadataHasNoSequenceInputs) {
  EXPECT_EQ(
      TestClient(http_->bound_port()).Request("GET", "/v2/models/stateful")->body,
      R"({"name":"stateful","versions":["1"],"platform":"OpenVINO","inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,2]}],"outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[1,2]}]})");
  grpc::ClientContext context;
  inference::ModelMetadataRequest request;
  request.set_name("stateful");
  inference::ModelMetadataResponse response;
  ASSERT_TRUE(stub_->ModelMetadata(&context, request, &response).ok());
  EXPECT_EQ(response.inputs_size(), 1);
  EXPECT_EQ(response.outputs_size(), 1);
}

// ---- Servables of other kinds that have sequences ----

class SequenceHeader : public StatefulServers {
 protected:
  void PublishTriton(const std::string& name, const std::string& config_text) {
    ServableInfo info = Info(name);
    info.dialect = Dialect::kTriton;
    info.stateful.reset();
    auto config = std::make_shared<inference::ModelConfig>();
    if (!config_text.empty()) {
      auto& control = *config->mutable_sequence_batching()->add_control_input()->add_control();
      control.set_kind(inference::ModelSequenceBatching::Control::CONTROL_SEQUENCE_CORRID);
      control.set_data_type(config_text == "TYPE_STRING" ? inference::TYPE_STRING : inference::TYPE_UINT64);
    }
    info.config = std::move(config);
    Publish(info);
  }
  void PublishKind(const std::string& name, ServableKind kind) {
    ServableInfo info = Info(name);
    info.stateful.reset();
    info.kind = kind;
    Publish(info);
  }
  // Sends over both transports; they must agree.
  std::string Both(const std::string& model, const std::string& header) {
    const std::string over_http = HttpOutcome(Inputs({}), "", "Braid-Sequence-Id: " + header + "\r\n", model);
    EXPECT_EQ(Outcome(Request(Form::kRaw, model), {header}), over_http);
    return over_http;
  }
};

TEST_F(SequenceHeader, NamesSequencesOfTritonModels) {
  PublishTriton("numbers", "TYPE_UINT64");
  PublishTriton("texts", "TYPE_STRING");
  PublishTriton("plain", "");
  EXPECT_EQ(Both("numbers", "12"), "12");
  EXPECT_EQ(Both("numbers", "twelve"), "'twelve'");
  EXPECT_EQ(Both("texts", "12"), "'12'");
  EXPECT_EQ(Both("plain", "12"), "0");
  ModelInferRequest request = Request(Form::kRaw, "texts");
  (*request.mutable_parameters())["sequence_id"].set_string_param("12");
  EXPECT_EQ(Outcome(request, {"12"}), "'12'");
  EXPECT_EQ(Outcome(request, {"13"}),
            "3: the request names two sequences: '13' by its header braid-sequence-id and '12' by its body");
  EXPECT_EQ(
      HttpOutcome(R"("parameters":{"sequence_id":4},)" + Inputs({}), "", "Braid-Sequence-Id: 5\r\n",
                  "numbers"),
      Error(400, "the request names two sequences: '5' by its header braid-sequence-id and '4' by its body"));
  EXPECT_EQ(Post("/v2/models/texts/generate", R"({"INPUT0":[1,2]})", "Braid-Sequence-Id: 12\r\n").status,
            200);
  EXPECT_EQ(Seen(), std::vector<std::string>{"'12'"});
}

TEST_F(SequenceHeader, NamesSequencesOfWhatAsksOthers) {
  PublishKind("pipeline", ServableKind::kPipeline);
  PublishKind("ensemble", ServableKind::kEnsemble);
  PublishKind("graph", ServableKind::kGraph);
  EXPECT_EQ(Both("pipeline", "12"), "12");
  EXPECT_EQ(Both("ensemble", "12"), "12");
  EXPECT_EQ(Both("graph", "12"), "12");
  // A graph sees its parameters unchanged.
  const std::string other =
      "the request names two sequences: '12' by its header braid-sequence-id and '13' by its body";
  ModelInferRequest request = Request(Form::kRaw, "graph");
  (*request.mutable_parameters())["sequence_id"].set_int64_param(13);
  EXPECT_EQ(Outcome(request, {"12"}), "3: " + other);
  EXPECT_EQ(Outcome(request, {"13"}), "13");
  (*request.mutable_parameters())["sequence_id"].set_string_param("13");
  EXPECT_EQ(Outcome(request, {"12"}), "3: " + other);
  // Without the header, the graph alone interprets them.
  EXPECT_EQ(Outcome(request), "0");
  EXPECT_EQ(HttpOutcome(R"("parameters":{"sequence_id":13},)" + Inputs({}), "", "Braid-Sequence-Id: 12\r\n",
                        "graph"),
            Error(400, other));
}

}  // namespace
}  // namespace braid
