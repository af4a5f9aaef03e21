#include "load/client.h"

#include <algorithm>
#include <set>

#include <spdlog/fmt/fmt.h>

#include "base/clock.h"
#include "base/json.h"
#include "load/wire.h"

namespace braid::load {
namespace {

constexpr size_t kMostNames = 20;

// An exchange with one answer.
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
    // The mark may come in an answer that has nothing else.
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

Result<Json> ParseAnswer(const std::string& text) {
  Json parsed = ParseJson(text);
  if (parsed.is_discarded())
    return InternalError("what answers does not speak KServe v2: it answers no JSON");
  return parsed;
}

// Some servers write numbers as text; one that is no number at all is read again as JSON, which says so.
int64_t Dimension(const Json& dimension) {
  if (!dimension.is_string()) return dimension.get<int64_t>();
  return ParseJson(dimension.get<std::string>()).get<int64_t>();
}

// A graph's metadata has the datatype INVALID, and no shape.
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

void ReadConfig(WireReader config, ModelInfo& model) {
  model.has_config = true;
  while (config.Next()) {
    if (config.IsVarint(4)) {
      model.max_batch_size = static_cast<int64_t>(config.TakeVarint());
    } else if (config.IsBytes(5)) {  // an input
      WireReader input = config.TakeMessage();
      std::string name;
      bool optional = false;
      while (input.Next()) {
        if (input.IsBytes(1)) {
          name = input.TakeString();
        } else if (input.IsVarint(8)) {
          optional = input.TakeVarint() != 0;
        } else {
          input.Skip();
        }
      }
      if (optional) MarkOptional(model, name);
    } else if (config.IsBytes(13)) {
      model.sequences = true;
      config.Skip();
    } else if (config.IsBytes(19)) {
      WireReader policy = config.TakeMessage();
      while (policy.Next()) {
        if (policy.IsVarint(1)) {
          model.decoupled = policy.TakeVarint() != 0;
        } else {
          policy.Skip();
        }
      }
    } else {
      config.Skip();
    }
  }
}

TensorInfo ReadTensor(WireReader reader) {
  TensorInfo tensor;
  while (reader.Next()) {
    if (reader.IsBytes(1)) {
      tensor.name = reader.TakeString();
    } else if (reader.IsBytes(2)) {
      tensor.datatype = reader.TakeString();
    } else if (reader.IsBytes(3) || reader.IsVarint(3)) {
      reader.TakeVarints(tensor.shape);
    } else {
      reader.Skip();
    }
  }
  ReadOpen(tensor);
  return tensor;
}

Result<ModelInfo> ReadMetadata(const std::string& answer) {
  ModelInfo model;
  const Pieces pieces{answer};
  WireReader reader(pieces);
  while (reader.Next()) {
    if (reader.IsBytes(1)) {
      model.name = reader.TakeString();
    } else if (reader.IsBytes(2)) {
      model.versions.push_back(reader.TakeString());
    } else if (reader.IsBytes(3)) {
      model.platform = reader.TakeString();
    } else if (reader.IsBytes(4)) {
      model.inputs.push_back(ReadTensor(reader.TakeMessage()));
    } else if (reader.IsBytes(5)) {
      model.outputs.push_back(ReadTensor(reader.TakeMessage()));
    } else {
      reader.Skip();
    }
  }
  if (!reader.ok()) return InternalError("malformed metadata");
  return model;
}

std::pair<uint64_t, uint64_t> ReadDuration(WireReader reader) {
  uint64_t count = 0;
  uint64_t ns = 0;
  while (reader.Next()) {
    if (reader.IsVarint(1)) {
      count = reader.TakeVarint();
    } else if (reader.IsVarint(2)) {
      ns = reader.TakeVarint();
    } else {
      reader.Skip();
    }
  }
  return {count, ns};
}

void AddStatistics(WireReader model, ServerStatistics& sum) {
  while (model.Next()) {
    if (model.IsVarint(4)) {
      sum.inferences += model.TakeVarint();
    } else if (model.IsVarint(5)) {
      sum.executions += model.TakeVarint();
    } else if (model.IsBytes(6)) {
      WireReader inference = model.TakeMessage();
      while (inference.Next()) {
        const bool known[] = {inference.IsBytes(1), inference.IsBytes(2), inference.IsBytes(3),
                              inference.IsBytes(4), inference.IsBytes(5), inference.IsBytes(6)};
        if (std::ranges::none_of(known, std::identity())) {
          inference.Skip();
          continue;
        }
        const auto [count, ns] = ReadDuration(inference.TakeMessage());
        if (known[0]) sum.requests += count, sum.request_ns += ns;
        if (known[1]) sum.failures += count;
        if (known[2]) sum.queue_ns += ns;
        if (known[3]) sum.input_ns += ns;
        if (known[4]) sum.infer_ns += ns;
        if (known[5]) sum.output_ns += ns;
      }
    } else {
      model.Skip();
    }
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
    connection_->Receive(false);  // sees that the server has closed it
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
  const Encoding encoding{Protocol::kHttp, false, dialer_->address().authority(), headers_};
  return Ask(EncodeHttp(encoding, method, path, body, 0));
}

Result<std::string> Client::AskGrpc(std::string_view method, std::string message) {
  return Ask({"/inference.GRPCInferenceService/" + std::string(method), std::move(message)});
}

bool Client::Ready(const std::string& model) {
  if (protocol_ == Protocol::kHttp) {
    return AskHttp("GET", "/v2/health/ready").ok() && AskHttp("GET", ModelPath(model, "") + "/ready").ok();
  }
  // A field that is false is not sent; { 1: true } is these two bytes.
  const auto yes = [](const Result<std::string>& answer) { return answer.ok() && *answer == "\x08\x01"; };
  return yes(AskGrpc("ServerReady", "")) && yes(AskGrpc("ModelReady", NameAndVersion(model, "")));
}

Result<ModelInfo> Client::Model(const std::string& name, const std::string& version) {
  Result<std::string> answer = protocol_ == Protocol::kHttp
                                   ? AskHttp("GET", ModelPath(name, version))
                                   : AskGrpc("ModelMetadata", NameAndVersion(name, version));
  if (!answer.ok()) {
    const StatusCode code = answer.status().code();
    const bool there = code != StatusCode::kUnavailable || answer.status().message().starts_with("HTTP") ||
                       answer.status().message().starts_with("gRPC");
    if (!there) {
      if (answer.status().message().find("cannot") == 0) return answer.status();
      return answer.status().WithMessage(
          answer.status().message() + "\nis it the port of " +
          (protocol_ == Protocol::kHttp ? "gRPC? ask it with -i grpc" : "HTTP? ask it with -i http"));
    }
    std::string text = answer.status().message();
    if (const Result<std::vector<std::string>> names = Models(); names.ok()) {
      text += names->empty() ? "\nthe server has no model that is ready" : "\nthe models that are ready:";
      for (size_t i = 0; i < std::min(names->size(), kMostNames); ++i)
        text += (i == 0 ? " " : ", ") + (*names)[i];
      if (names->size() > kMostNames) text += ", and " + std::to_string(names->size() - kMostNames) + " more";
    }
    return answer.status().WithMessage(text);
  }
  try {
    ModelInfo model;
    if (protocol_ == Protocol::kHttp) {
      BRAID_ASSIGN_OR_RETURN(const Json metadata, ParseAnswer(*answer));
      model.name = metadata.value("name", name);
      model.versions = metadata.value("versions", std::vector<std::string>());
      model.platform = metadata.value("platform", "");
      model.inputs = TensorsOfJson(metadata, "inputs");
      model.outputs = TensorsOfJson(metadata, "outputs");
      const Result<std::string> config = AskHttp("GET", ModelPath(name, version) + "/config");
      if (config.ok()) {
        if (const Result<Json> parsed = ParseAnswer(*config); parsed.ok()) ReadConfig(*parsed, model);
      }
      return model;
    }
    BRAID_ASSIGN_OR_RETURN(model, ReadMetadata(*answer));
    const Result<std::string> config = AskGrpc("ModelConfig", NameAndVersion(name, version));
    if (config.ok()) {
      const Pieces pieces{*config};
      WireReader reader(pieces);
      while (reader.Next()) {
        if (reader.IsBytes(1)) {
          ReadConfig(reader.TakeMessage(), model);
        } else {
          reader.Skip();
        }
      }
    }
    return model;
  } catch (const std::exception& error) {
    return InternalError(std::string("the metadata of the model is not KServe v2's: ") + error.what());
  }
}

Result<std::vector<std::string>> Client::Models() {
  std::set<std::string> names;
  if (protocol_ == Protocol::kHttp) {
    BRAID_ASSIGN_OR_RETURN(const std::string answer,
                           AskHttp("POST", "/v2/repository/index", R"({"ready":true})"));
    BRAID_ASSIGN_OR_RETURN(const Json index, ParseAnswer(answer));
    for (const Json& model : index) {
      if (model.is_object() && model.value("state", "READY") == "READY")
        names.insert(model.value("name", ""));
    }
  } else {
    WireWriter message;
    message.Varint(2, 1);
    BRAID_ASSIGN_OR_RETURN(const std::string answer, AskGrpc("RepositoryIndex", message.Take()));
    const Pieces pieces{answer};
    WireReader reader(pieces);
    while (reader.Next()) {
      if (reader.IsBytes(1)) {
        names.insert(
            ReadTensor(reader.TakeMessage()).name);  // its first field is the name, as that of a tensor
      } else {
        reader.Skip();
      }
    }
  }
  return std::vector<std::string>(names.begin(), names.end());
}

Result<ServerStatistics> Client::Statistics(const std::string& model, const std::string& version) {
  ServerStatistics sum;
  if (protocol_ == Protocol::kHttp) {
    BRAID_ASSIGN_OR_RETURN(const std::string answer, AskHttp("GET", ModelPath(model, version) + "/stats"));
    BRAID_ASSIGN_OR_RETURN(const Json parsed, ParseAnswer(answer));
    try {
      for (const Json& each : parsed.at("model_stats")) AddStatistics(each, sum);
    } catch (const Json::exception& error) {
      return InternalError(std::string("the statistics of the model are not as expected: ") + error.what());
    }
    return sum;
  }
  BRAID_ASSIGN_OR_RETURN(const std::string answer,
                         AskGrpc("ModelStatistics", NameAndVersion(model, version)));
  const Pieces pieces{answer};
  WireReader reader(pieces);
  while (reader.Next()) {
    if (reader.IsBytes(1)) {
      AddStatistics(reader.TakeMessage(), sum);
    } else {
      reader.Skip();
    }
  }
  return sum;
}

std::string Client::ServerName() {
  if (protocol_ == Protocol::kHttp) {
    const Result<std::string> answer = AskHttp("GET", "/v2");
    const Json parsed = answer.ok() ? ParseJson(*answer) : Json();
    if (!parsed.is_object() || !parsed.contains("name") || !parsed["name"].is_string()) return "";
    return parsed["name"].get<std::string>() + " " +
           (parsed.contains("version") && parsed["version"].is_string() ? parsed["version"].get<std::string>()
                                                                        : "");
  }
  const Result<std::string> answer = AskGrpc("ServerMetadata", "");
  if (!answer.ok()) return "";
  const Pieces pieces{*answer};
  WireReader reader(pieces);
  std::string name;
  while (reader.Next()) {
    if (reader.IsBytes(1) || reader.IsBytes(2)) {
      name += (name.empty() ? "" : " ") + reader.TakeString();
    } else {
      reader.Skip();
    }
  }
  return name;
}

Status Client::RegisterMemory(const std::string& name, const std::string& key, size_t bytes) {
  if (protocol_ == Protocol::kHttp) {
    const Json body = {{"key", key}, {"offset", 0}, {"byte_size", bytes}};
    return AskHttp("POST", "/v2/systemsharedmemory/region/" + name + "/register", DumpJson(body)).status();
  }
  WireWriter message;
  message.Bytes(1, name);
  message.Bytes(2, key);
  message.Varint(4, bytes);
  return AskGrpc("SystemSharedMemoryRegister", message.Take()).status();
}

Status Client::UnregisterMemory(const std::string& name) {
  if (protocol_ == Protocol::kHttp) {
    return AskHttp("POST", "/v2/systemsharedmemory/region/" + name + "/unregister").status();
  }
  WireWriter message;
  message.Bytes(1, name);
  return AskGrpc("SystemSharedMemoryUnregister", message.Take()).status();
}

Status Client::Infer(const InferRequest& request, const Encoding& encoding, bool stream, bool single,
                     const std::function<bool(const InferResponse&)>& take) {
  BRAID_RETURN_IF_ERROR(Connect());
  const OutgoingMessage message = EncodeInfer(encoding, request);
  Answers answers(encoding, single, take);
  connection_->Start(answers, message, stream);
  BRAID_RETURN_IF_ERROR(WaitUntil(answers.done, answers));
  if (!answers.ended) {
    // Without a cancellation, which a server would count as a failure.
    if (stream) connection_->EndSending(answers);
    BRAID_RETURN_IF_ERROR(WaitUntil(answers.ended, answers));
  }
  return answers.status;
}

}  // namespace braid::load
