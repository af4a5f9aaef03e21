#include "load/client.h"

#include <algorithm>
#include <set>
#include <span>

#include <spdlog/fmt/fmt.h>

#include "base/clock.h"
#include "base/json.h"
#include "load/wire.h"

namespace braid::load {
namespace {

constexpr size_t kMostNames = 20;

// An exchange with one response.
class Question : public Exchange {
 public:
  void OnMessage(const ReceivedMessage& message) override { answer = JoinPieces(message.body); }
  void OnEnd(const Status& end) override {
    status = end;
    done = true;
  }

  std::string answer;
  Status status;
  bool done = false;
};

class Answers : public Exchange {
 public:
  Answers(const Encoding& encoding, bool single, const std::function<bool(const InferResponse&)>& take)
      : decoder_(encoding), single_(single), take_(take) {}

  void OnMessage(const ReceivedMessage& message) override {
    if (done) return;
    const Result<const InferResponse*> response = decoder_.Decode(message);
    if (!response.ok()) {
      status = response.status();
      done = true;
      return;
    }
    // A decoupled model may send the final mark in an empty response.
    const bool empty = (*response)->final() && (*response)->outputs.empty();
    const bool more = empty || take_(**response);
    done = !more || single_ || (*response)->final();
  }
  void OnEnd(const Status& end) override {
    if (!done) status = end;
    done = true;
    ended = true;
  }

  Status status;
  bool done = false;
  bool ended = false;

 private:
  ResponseDecoder decoder_;
  const bool single_;
  const std::function<bool(const InferResponse&)>& take_;
};

// ---- conversion of gRPC messages to the JSON of the HTTP API

struct Field {
  enum class Kind : unsigned char { kText, kNumber, kFlag, kMessage };
  uint32_t number;
  const char* name;
  Kind kind;
  bool list = false;
  std::span<const Field> inside = {};  // of kMessage
};
using Kind = Field::Kind;
using Fields = std::span<const Field>;

constexpr Field kTensor[] = {
    {1, "name", Kind::kText}, {2, "datatype", Kind::kText}, {3, "shape", Kind::kNumber, true}};
constexpr Field kMetadata[] = {{1, "name", Kind::kText},
                               {2, "versions", Kind::kText, true},
                               {3, "platform", Kind::kText},
                               {4, "inputs", Kind::kMessage, true, kTensor},
                               {5, "outputs", Kind::kMessage, true, kTensor}};
constexpr Field kConfigInput[] = {{1, "name", Kind::kText}, {8, "optional", Kind::kFlag}};
constexpr Field kPolicy[] = {{1, "decoupled", Kind::kFlag}};
constexpr Field kConfig[] = {{4, "max_batch_size", Kind::kNumber},
                             {5, "input", Kind::kMessage, true, kConfigInput},
                             {13, "sequence_batching", Kind::kMessage},
                             {19, "model_transaction_policy", Kind::kMessage, false, kPolicy}};
constexpr Field kConfigAnswer[] = {{1, "config", Kind::kMessage, false, kConfig}};
constexpr Field kDuration[] = {{1, "count", Kind::kNumber}, {2, "ns", Kind::kNumber}};
constexpr Field kInference[] = {{1, "success", Kind::kMessage, false, kDuration},
                                {2, "fail", Kind::kMessage, false, kDuration},
                                {3, "queue", Kind::kMessage, false, kDuration},
                                {4, "compute_input", Kind::kMessage, false, kDuration},
                                {5, "compute_infer", Kind::kMessage, false, kDuration},
                                {6, "compute_output", Kind::kMessage, false, kDuration}};
constexpr Field kModelStatistics[] = {{4, "inference_count", Kind::kNumber},
                                      {5, "execution_count", Kind::kNumber},
                                      {6, "inference_stats", Kind::kMessage, false, kInference}};
constexpr Field kStatistics[] = {{1, "model_stats", Kind::kMessage, true, kModelStatistics}};
constexpr Field kIndexEntry[] = {{1, "name", Kind::kText}};
constexpr Field kIndex[] = {{1, "models", Kind::kMessage, true, kIndexEntry}};
constexpr Field kServer[] = {{1, "name", Kind::kText}, {2, "version", Kind::kText}};

// Returns the JSON of a message without fields: lists and texts exist and are empty.
Json EmptyMessage(Fields fields) {
  Json message = Json::object();
  for (const Field& field : fields) {
    if (field.list) message[field.name] = Json::array();
    if (!field.list && field.kind == Kind::kText) message[field.name] = "";
  }
  return message;
}

Json ReadMessage(WireReader& reader, Fields fields) {
  Json message = EmptyMessage(fields);
  const auto add = [&](const Field& field, Json value) {
    Json& place = message[field.name];
    if (field.list) {
      place.push_back(std::move(value));
    } else {
      place = std::move(value);
    }
  };
  while (reader.Next()) {
    for (const Field& field : fields) {
      if (field.kind == Kind::kText && reader.IsBytes(field.number)) {
        add(field, reader.TakeString());
      } else if (field.kind == Kind::kFlag && reader.IsVarint(field.number)) {
        add(field, reader.TakeVarint() != 0);
      } else if (field.kind == Kind::kNumber &&
                 (reader.IsVarint(field.number) || (field.list && reader.IsBytes(field.number)))) {
        std::vector<int64_t> numbers;
        reader.TakeVarints(numbers);
        for (const int64_t number : numbers) add(field, number);
      } else if (field.kind == Kind::kMessage && reader.IsBytes(field.number)) {
        WireReader inner = reader.TakeMessage();
        add(field, ReadMessage(inner, field.inside));
      } else {
        continue;
      }
      break;
    }
  }
  return message;
}

Result<Json> ReadMessage(const std::string& text, Fields fields) {
  const Pieces pieces{text};
  WireReader reader(pieces);
  Json message = ReadMessage(reader, fields);
  if (!reader.ok()) return InternalError("malformed metadata");
  return message;
}

// ---- reading the JSON

Result<Json> ParseAnswer(const std::string& text) {
  Json parsed = ParseJson(text);
  if (parsed.is_discarded())
    return InternalError("the server does not speak KServe v2: its answer is not JSON");
  return parsed;
}

Result<Json> ReadAnswer(Protocol protocol, const std::string& text, Fields fields) {
  return protocol == Protocol::kHttp ? ParseAnswer(text) : ReadMessage(text, fields);
}

// Some servers write numbers as text. Other texts are parsed as JSON, which reports the error.
int64_t Dimension(const Json& dimension) {
  if (!dimension.is_string()) return dimension.get<int64_t>();
  return ParseJson(dimension.get<std::string>()).get<int64_t>();
}

// A graph's metadata has the datatype INVALID and no shape.
void ReadOpen(TensorInfo& tensor) {
  if (tensor.datatype != "INVALID") return;
  tensor.datatype.clear();
  tensor.any_shape = tensor.shape.empty();
}

std::vector<TensorInfo> TensorsOfJson(const Json& metadata, const char* key) {
  std::vector<TensorInfo> tensors;
  for (const Json& each : metadata.value(key, Json::array())) {
    tensors.push_back({each.at("name").get<std::string>(), each.at("datatype").get<std::string>(), {}});
    for (const Json& dimension : each.at("shape")) tensors.back().shape.push_back(Dimension(dimension));
    ReadOpen(tensors.back());
  }
  return tensors;
}

void MarkOptional(ModelInfo& model, const std::string& name) {
  for (TensorInfo& input : model.inputs) input.optional = input.optional || input.name == name;
}

void ReadConfig(const Json& config, ModelInfo& model) {
  model.has_config = true;
  model.max_batch_size = config.value("max_batch_size", int64_t{0});
  model.decoupled = config.value("model_transaction_policy", Json::object()).value("decoupled", false);
  model.sequences = config.contains("sequence_batching");
  for (const Json& input : config.value("input", Json::array())) {
    if (input.value("optional", false)) MarkOptional(model, input.value("name", ""));
  }
}

void AddStatistics(const Json& model, ServerStatistics& sum) {
  sum.inferences += model.value("inference_count", uint64_t{0});
  sum.executions += model.value("execution_count", uint64_t{0});
  const Json inference = model.value("inference_stats", Json::object());
  const auto of = [&](const char* part, const char* key) {
    return inference.value(part, Json::object()).value(key, uint64_t{0});
  };
  sum.requests += of("success", "count");
  sum.request_ns += of("success", "ns");
  sum.failures += of("fail", "count");
  sum.queue_ns += of("queue", "ns");
  sum.input_ns += of("compute_input", "ns");
  sum.infer_ns += of("compute_infer", "ns");
  sum.output_ns += of("compute_output", "ns");
}

std::string NameAndVersion(const std::string& name, const std::string& version) {
  WireWriter message;
  message.Bytes(1, name);
  if (!version.empty()) message.Bytes(2, version);
  return message.Take();
}

}  // namespace

ServerStatistics ServerStatistics::operator+(const ServerStatistics& other) const {
  return {requests + other.requests,     failures + other.failures,     inferences + other.inferences,
          executions + other.executions, request_ns + other.request_ns, queue_ns + other.queue_ns,
          input_ns + other.input_ns,     infer_ns + other.infer_ns,     output_ns + other.output_ns};
}

ServerStatistics ServerStatistics::operator-(const ServerStatistics& before) const {
  return {requests - before.requests,     failures - before.failures,     inferences - before.inferences,
          executions - before.executions, request_ns - before.request_ns, queue_ns - before.queue_ns,
          input_ns - before.input_ns,     infer_ns - before.infer_ns,     output_ns - before.output_ns};
}

std::string ListNames(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostNames) text += ", and " + std::to_string(names.size() - kMostNames) + " more";
  return text;
}

Client::Client(Protocol protocol, std::shared_ptr<const Dialer> dialer, Connection::Headers headers,
               double timeout_s, size_t most_bytes)
    : protocol_(protocol),
      dialer_(std::move(dialer)),
      headers_(std::move(headers)),
      timeout_s_(timeout_s),
      most_bytes_(most_bytes) {}

Client::~Client() = default;
Client::Client(Client&&) noexcept = default;

Status Client::Connect() {
  if (connection_ != nullptr) {
    connection_->Receive(false);  // notices that the server has closed it
    if (connection_->alive()) return OkStatus();
  }
  BRAID_ASSIGN_OR_RETURN(connection_,
                         Connection::Open(protocol_, *dialer_, timeout_s_, headers_, most_bytes_));
  return OkStatus();
}

Status Client::WaitUntil(const bool& done, Exchange& exchange) {
  const int64_t deadline_ns = SteadyNowNs() + static_cast<int64_t>(timeout_s_ * 1e9);
  while (!done) {
    connection_->Flush();
    connection_->Receive(true);
    if (!done && SteadyNowNs() > deadline_ns) {
      connection_->Cancel(exchange);
      return UnavailableError(fmt::format("the server did not answer in {:g} s", timeout_s_));
    }
  }
  return OkStatus();
}

Result<std::string> Client::Ask(const OutgoingMessage& message) {
  BRAID_RETURN_IF_ERROR(Connect());
  Question question;
  connection_->Start(question, message, false);
  BRAID_RETURN_IF_ERROR(WaitUntil(question.done, question));
  if (!question.status.ok()) return question.status;
  return std::move(question.answer);
}

Result<std::string> Client::AskHttp(std::string_view method, const std::string& path, std::string_view body) {
  const Encoding encoding{Protocol::kHttp, false, dialer_->address().http_host(), headers_};
  return Ask(EncodeHttp(encoding, method, path, body, 0));
}

Result<std::string> Client::AskGrpc(std::string_view method, std::string message) {
  return Ask({"/inference.GRPCInferenceService/" + std::string(method), std::move(message)});
}

Result<std::string> Client::Ask(std::string_view method, const std::string& path, std::string_view body,
                                std::string_view rpc, std::string message) {
  return protocol_ == Protocol::kHttp ? AskHttp(method, path, body) : AskGrpc(rpc, std::move(message));
}

bool Client::Ready(const std::string& model) {
  if (protocol_ == Protocol::kHttp) {
    return AskHttp("GET", "/v2/health/ready").ok() && AskHttp("GET", ModelPath(model, "") + "/ready").ok();
  }
  // Protobuf omits a false field; { 1: true } is encoded as these two bytes.
  const auto yes = [](const Result<std::string>& answer) { return answer.ok() && *answer == "\x08\x01"; };
  return yes(AskGrpc("ServerReady", "")) && yes(AskGrpc("ModelReady", NameAndVersion(model, "")));
}

Result<ModelInfo> Client::Model(const std::string& name, const std::string& version) {
  const std::string path = ModelPath(name, version);
  Result<std::string> answer = Ask("GET", path, {}, "ModelMetadata", NameAndVersion(name, version));
  if (!answer.ok()) {
    const StatusCode code = answer.status().code();
    const bool there = code != StatusCode::kUnavailable || answer.status().message().starts_with("HTTP") ||
                       answer.status().message().starts_with("gRPC");
    if (!there) {
      if (answer.status().message().find("cannot") == 0) return answer.status();
      return answer.status().WithMessage(
          answer.status().message() + "\nis this the " +
          (protocol_ == Protocol::kHttp ? "gRPC port? use -i grpc" : "HTTP port? use -i http"));
    }
    std::string text = answer.status().message();
    if (const Result<std::vector<std::string>> names = Models(); names.ok()) {
      text += names->empty() ? "\nthe server has no ready model" : "\nready models: " + ListNames(*names);
    }
    return answer.status().WithMessage(text);
  }
  try {
    ModelInfo model;
    BRAID_ASSIGN_OR_RETURN(const Json metadata, ReadAnswer(protocol_, *answer, kMetadata));
    model.name = metadata.value("name", name);
    model.versions = metadata.value("versions", std::vector<std::string>());
    model.platform = metadata.value("platform", "");
    model.inputs = TensorsOfJson(metadata, "inputs");
    model.outputs = TensorsOfJson(metadata, "outputs");
    const Result<std::string> config =
        Ask("GET", path + "/config", {}, "ModelConfig", NameAndVersion(name, version));
    if (!config.ok()) return model;
    Result<Json> parsed = ReadAnswer(protocol_, *config, kConfigAnswer);
    if (parsed.ok() && protocol_ == Protocol::kGrpc) parsed = parsed->value("config", Json::object());
    if (parsed.ok()) ReadConfig(*parsed, model);
    return model;
  } catch (const std::exception& error) {
    return InternalError(std::string("the model's metadata does not follow KServe v2: ") + error.what());
  }
}

Result<std::vector<std::string>> Client::Models() {
  WireWriter message;
  message.Varint(2, 1);
  BRAID_ASSIGN_OR_RETURN(const std::string answer, Ask("POST", "/v2/repository/index", R"({"ready":true})",
                                                       "RepositoryIndex", message.Take()));
  BRAID_ASSIGN_OR_RETURN(const Json read, ReadAnswer(protocol_, answer, kIndex));
  std::set<std::string> names;
  for (const Json& model : protocol_ == Protocol::kGrpc ? read.at("models") : read) {
    if (model.is_object() && model.value("state", "READY") == "READY") names.insert(model.value("name", ""));
  }
  return std::vector<std::string>(names.begin(), names.end());
}

Result<ServerStatistics> Client::Statistics(const std::string& model, const std::string& version) {
  BRAID_ASSIGN_OR_RETURN(const std::string answer, Ask("GET", ModelPath(model, version) + "/stats", {},
                                                       "ModelStatistics", NameAndVersion(model, version)));
  BRAID_ASSIGN_OR_RETURN(const Json parsed, ReadAnswer(protocol_, answer, kStatistics));
  ServerStatistics sum;
  try {
    for (const Json& each : parsed.at("model_stats")) AddStatistics(each, sum);
  } catch (const Json::exception& error) {
    return InternalError(std::string("malformed model statistics: ") + error.what());
  }
  return sum;
}

std::string Client::ServerName() {
  const Result<std::string> answer = Ask("GET", "/v2", {}, "ServerMetadata", "");
  const Result<Json> parsed = answer.ok() ? ReadAnswer(protocol_, *answer, kServer) : answer.status();
  if (!parsed.ok() || !parsed->is_object() || !parsed->contains("name") || !(*parsed)["name"].is_string())
    return "";
  const bool versioned = parsed->contains("version") && (*parsed)["version"].is_string();
  return (*parsed)["name"].get<std::string>() + " " +
         (versioned ? (*parsed)["version"].get<std::string>() : "");
}

Status Client::RegisterMemory(const std::string& name, const std::string& key, size_t bytes) {
  WireWriter message;
  message.Bytes(1, name);
  message.Bytes(2, key);
  message.Varint(4, bytes);
  const Json body = {{"key", key}, {"offset", 0}, {"byte_size", bytes}};
  return Ask("POST", "/v2/systemsharedmemory/region/" + name + "/register", DumpJson(body),
             "SystemSharedMemoryRegister", message.Take())
      .status();
}

Status Client::UnregisterMemory(const std::string& name) {
  WireWriter message;
  message.Bytes(1, name);
  return Ask("POST", "/v2/systemsharedmemory/region/" + name + "/unregister", {},
             "SystemSharedMemoryUnregister", message.Take())
      .status();
}

Status Client::Infer(const InferRequest& request, const Encoding& encoding, bool stream, bool single,
                     const std::function<bool(const InferResponse&)>& take) {
  BRAID_RETURN_IF_ERROR(Connect());
  const OutgoingMessage message = EncodeInfer(encoding, request);
  Answers answers(encoding, single, take);
  connection_->Start(answers, message, stream);
  BRAID_RETURN_IF_ERROR(WaitUntil(answers.done, answers));
  if (!answers.ended) {
    // Ends the stream without a cancellation, which a server would count as a failure.
    if (stream) connection_->EndSending(answers);
    BRAID_RETURN_IF_ERROR(WaitUntil(answers.ended, answers));
  }
  return answers.status;
}

}  // namespace braid::load
