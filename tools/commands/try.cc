#include "commands/try.h"

#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include <spdlog/fmt/fmt.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "images/image_size.h"
#include "load/chat.h"
#include "load/client.h"
#include "load/connect_options.h"
#include "load/data.h"
#include "load/elements.h"
#include "load/npy.h"

namespace braid {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

constexpr size_t kShownElements = 8;
constexpr size_t kShownText = 200;  // bytes of a text element
constexpr char kFooter[] =
    "examples:\n"
    "  braid try add_sub\n"
    "  braid try add_sub -d INPUT0=[1,2,3,4] -d INPUT1=10 -u localhost:8001 -i grpc\n"
    "  braid try classifier -d IMAGE=@cat.png --raw > scores.bin\n"
    "  braid try repeat -i grpc -u localhost:8001\n"
    "  braid try add_sub -u unix:/run/braid/http.sock\n"
    "  braid try add_sub --curl\n"
    "  braid try llm --chat 'What is a braid?' -p max_tokens=64\n";

struct TryOptions {
  load::ConnectOptions connect;
  std::string model;
  std::string version;
  std::vector<std::string> data;
  std::vector<std::string> shapes;
  std::vector<std::string> datatypes;
  std::vector<std::string> outputs;
  std::vector<std::string> parameters;
  std::optional<std::string> chat;  // a user's message
  std::string id;
  std::string sequence_id;
  int steps = 0;  // of a sequence; 0: no sequence
  int64_t batch = 1;
  uint64_t seed = 0;
  bool zero = false;
  bool stream = false;
  bool json = false;
  bool raw = false;
  bool curl = false;
  bool all = false;
};

int Refuse(const Status& status, int exit_code) {
  std::cerr << "braid try: " << ToUtf8(status.message()) << '\n';
  return exit_code;
}

// ---- data ---------------------------------------------------------------------------------------------------

// Returns a tensor with one BYTES element: the bytes of a file.
load::Tensor ElementTensor(const load::ModelInfo& model, const load::TensorInfo& info,
                           const std::string& bytes) {
  load::Tensor tensor{info.name, "BYTES", {1}, {}};
  if (info.datatype == "BYTES") {
    tensor.shape.assign(std::max<size_t>(1, info.shape.size()), 1);
  } else if (load::HasBatches(model)) {
    tensor.shape = {1};
  }
  load::AppendBytesElement(bytes, tensor.data);
  return tensor;
}

// A single number fills all elements of an input.
Result<Json> Spread(const load::ModelInfo& model, const load::TensorInfo& info,
                    const load::DataOptions& options, Json value) {
  if (value.is_array() || value.is_object()) return value;
  load::DataOptions quiet = options;  // the shape is shown with the request
  quiet.note = nullptr;
  const std::vector<int64_t> shape = load::ShapeToMake(model, info, quiet);
  BRAID_ASSIGN_OR_RETURN(const size_t count, load::ElementCount(shape));
  return Json{{"content", std::vector<Json>(count, value)}, {"shape", shape}};
}

// Reads the numbers in a text: JSON, or lines of numbers separated by blanks or commas. Returns a discarded
// value for other texts.
Json ReadNumbers(const std::string& text) {
  Json rows = ParseJson(text);
  if (rows.is_array() || rows.is_number()) return rows;
  rows = Json::array();
  constexpr std::string_view kBetween = " \t\r,;";
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    Json row = Json::array();
    while (true) {
      line.remove_prefix(std::min(line.find_first_not_of(kBetween), line.size()));
      if (line.empty()) break;
      const std::string_view word = line.substr(0, line.find_first_of(kBetween));
      line.remove_prefix(word.size());
      Json number = ParseJson(word);
      if (!number.is_number() && !number.is_boolean()) return Json(Json::value_t::discarded);
      row.push_back(std::move(number));
    }
    if (!row.empty()) rows.push_back(std::move(row));
  }
  if (rows.empty()) return Json(Json::value_t::discarded);
  return rows.size() == 1 ? rows.front() : rows;
}

// Converts a numpy array; it determines the shape.
Result<load::Tensor> NpyTensor(const load::ModelInfo& model, const load::TensorInfo& info,
                               const std::string& bytes) {
  BRAID_ASSIGN_OR_RETURN(load::Tensor tensor, load::ReadNpy(bytes));
  if (!info.datatype.empty() && tensor.datatype != info.datatype) {
    return InvalidArgumentError("it has elements of " + tensor.datatype + ", but input " + info.name +
                                " needs " + info.datatype);
  }
  tensor.name = info.name;
  if (load::HasBatches(model) && tensor.shape.size() + 1 == info.shape.size()) {
    tensor.shape.insert(tensor.shape.begin(), 1);
  }
  return tensor;
}

// Converts a file by its name and content. An image is sent unchanged; the server decodes it.
Result<load::Tensor> FileTensor(const load::ModelInfo& model, const load::TensorInfo& info,
                                const load::DataOptions& options, const std::string& path) {
  BRAID_ASSIGN_OR_RETURN(std::string bytes, load::ReadFile(path));
  if (path.ends_with(".json")) {
    const Json value = ParseJson(bytes);
    if (value.is_discarded()) return InvalidArgumentError("it is not valid JSON");
    return load::TensorFromJson(model, info, options, value);
  }
  if (path.ends_with(".npy")) return NpyTensor(model, info, bytes);
  const bool numbers = !info.datatype.empty() && info.datatype != "BYTES";
  if (!numbers || ReadImageSize(bytes)) return ElementTensor(model, info, bytes);
  if (Json values = ReadNumbers(bytes); !values.is_discarded()) {
    BRAID_ASSIGN_OR_RETURN(values, Spread(model, info, options, std::move(values)));
    return load::TensorFromJson(model, info, options, values);
  }
  Result<load::Tensor> tensor = load::TensorFromBytes(model, info, options, std::move(bytes));
  if (tensor.ok()) {
    if (load::HasBatches(model)) tensor->shape.insert(tensor->shape.begin(), 1);
    return tensor;
  }
  return tensor.status().WithPrefix(
      "it is not an image, a .npy file or a list of numbers, and does not fit as bytes of " + info.datatype +
      ": ");
}

// Reads the part behind NAME=: a JSON value, text, or @FILE.
Result<load::Tensor> ReadValue(const load::ModelInfo& model, const load::TensorInfo& info,
                               const load::DataOptions& options, const std::string& text) {
  if (text.starts_with('@')) {
    const std::string path = text.substr(1);
    Result<load::Tensor> tensor = FileTensor(model, info, options, path);
    return tensor.ok() ? tensor : tensor.status().WithPrefix(path + ": ");
  }
  Json value = ParseJson(text);
  const bool may_be_text = info.datatype == "BYTES" || info.datatype.empty();
  if (value.is_discarded() || (info.datatype == "BYTES" && !value.is_array() && !value.is_object())) {
    if (!may_be_text) {
      return InvalidArgumentError("'" + text + "' is not a value for input " + info.name + " of " +
                                  info.datatype);
    }
    value = value.is_string() ? value : Json(text);
  }
  BRAID_ASSIGN_OR_RETURN(value, Spread(model, info, options, std::move(value)));
  return load::TensorFromJson(model, info, options, value);
}

// Returns the steps of data: one, or those of a data file.
Result<std::vector<load::DataStep>> ReadSteps(const TryOptions& options, const load::ModelInfo& model) {
  load::DataOptions made;
  made.note = load::NotesOf("braid try");
  made.batch = options.batch;
  made.fill.fill = options.zero ? load::Fill::kZero : load::Fill::kRandom;
  made.fill.string_length = 16;
  for (const std::string& text : options.shapes) {
    BRAID_ASSIGN_OR_RETURN(auto shape, load::ParseShape(text));
    made.shapes.insert(std::move(shape));
  }
  std::map<std::string, load::Tensor> given;
  for (const std::string& text : options.data) {
    if (text.starts_with('@')) {
      if (options.data.size() > 1)
        return InvalidArgumentError("-d @FILE sets all inputs; remove the other -d");
      BRAID_ASSIGN_OR_RETURN(const std::string file, load::ReadFile(text.substr(1)));
      BRAID_ASSIGN_OR_RETURN(load::DataSet set, load::ReadDataFile(model, made, file, text.substr(1)));
      return std::move(set.streams.front());
    }
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidArgumentError("-d '" + text + "': expected NAME=VALUE, NAME=@FILE or @FILE.json");
    }
    const std::string name = text.substr(0, equals);
    const auto info = std::ranges::find(model.inputs, name, &load::TensorInfo::name);
    if (info == model.inputs.end()) {
      std::string names;
      for (const load::TensorInfo& input : model.inputs) names += (names.empty() ? "" : ", ") + input.name;
      return InvalidArgumentError("model " + model.name + " has no input " + name + "; it has " + names);
    }
    Result<load::Tensor> tensor = ReadValue(model, *info, made, text.substr(equals + 1));
    if (!tensor.ok()) return tensor.status().WithPrefix("-d " + name + ": ");
    given[name] = std::move(*tensor);
  }
  // Generates data only for inputs that are not given.
  load::ModelInfo rest = model;
  std::erase_if(rest.inputs, [&](const load::TensorInfo& info) { return given.contains(info.name); });
  for (const auto& [name, tensor] : given) made.shapes.erase(name);
  std::mt19937_64 random(options.seed);
  BRAID_ASSIGN_OR_RETURN(load::DataStep step, load::MakeStep(rest, made, random));
  std::vector<load::Tensor> inputs;
  for (const load::TensorInfo& info : model.inputs) {
    if (const auto found = given.find(info.name); found != given.end()) {
      inputs.push_back(std::move(found->second));
    } else if (const auto other = std::ranges::find(step.inputs, info.name, &load::Tensor::name);
               other != step.inputs.end()) {
      inputs.push_back(std::move(*other));
    }
  }
  step.inputs = std::move(inputs);
  return std::vector<load::DataStep>{std::move(step)};
}

// ---- output
// --------------------------------------------------------------------------------------------------

std::string Elements(const std::string& datatype, std::string_view data, size_t most) {
  std::string text;
  size_t shown = 0;
  load::VisitElements(datatype, data, most + 1, [&](size_t i, std::string element) {
    if (i != 0) text += ", ";
    if (i == most) {
      text += "...";
      return;
    }
    if (most == kShownElements && element.size() > kShownText) {
      element = ToUtf8(std::string_view(element).substr(0, kShownText)) + "...\"";
    }
    text += element;
    ++shown;
  });
  return text;
}

// A row of the output table: its first column, and the elements.
struct ShownTensor {
  std::string head;
  std::string elements;
};

ShownTensor Show(const std::string& name, const std::string& datatype, const std::vector<int64_t>& shape,
                 std::string_view data, bool all) {
  return {fmt::format("{} {}{}", EscapeForLog(name), EscapeForLog(datatype), load::ShapeText(shape)),
          Elements(datatype, data, all ? std::numeric_limits<size_t>::max() - 1 : kShownElements)};
}

void PrintTensors(std::string_view mark, const std::vector<ShownTensor>& tensors) {
  size_t width = 0;
  for (const ShownTensor& tensor : tensors) width = std::max(width, tensor.head.size());
  for (const ShownTensor& tensor : tensors) {
    std::cout << fmt::format("  {} {:<{}}  {}\n", mark, tensor.head, width, tensor.elements);
  }
}

std::string Milliseconds(int64_t ns) { return fmt::format("{:.2f} ms", static_cast<double>(ns) / 1e6); }

Json TensorJson(const load::OutputView& output) {
  const std::string data = load::JoinPieces(output.data);
  Json json = {{"name", output.name}, {"datatype", output.datatype}, {"shape", output.shape}};
  json["data"] = ParseJson(load::JsonElements(output.datatype, data));
  // Numbers that JSON lacks (NaN, infinity) are printed as text.
  if (json["data"].is_discarded()) {
    json["data"] = Json::array();
    load::VisitElements(output.datatype, data, std::numeric_limits<size_t>::max(),
                        [&](size_t, const std::string& text) { json["data"].push_back(text); });
  }
  return json;
}

void PrintCurl(const TryOptions& options, const load::Dialer& dialer, const load::InferRequest& request) {
  const std::string path =
      options.chat ? load::kChatPath : load::ModelPath(request.model, request.version) + "/infer";
  const std::string body =
      options.chat ? load::EncodeChat(request)
                   : load::EncodeHttpBody(request, {.binary_inputs = false, .binary_outputs = false}).json;
  std::string command = options.chat ? "curl -sN" : "curl -s";
  if (dialer.tls()) {
    if (!options.connect.tls.verify_peer) command += " --insecure";
    if (!options.connect.tls.ca_file.empty())
      command += " --cacert " + ShellQuoted(options.connect.tls.ca_file);
    if (!options.connect.tls.cert_file.empty())
      command += " --cert " + ShellQuoted(options.connect.tls.cert_file);
    if (!options.connect.tls.key_file.empty())
      command += " --key " + ShellQuoted(options.connect.tls.key_file);
  }
  if (dialer.address().is_unix()) command += " --unix-socket " + ShellQuoted(dialer.address().host);
  for (const std::string& header : options.connect.headers) command += " -H " + ShellQuoted(header);
  command += fmt::format(" {} -H 'Content-Type: application/json' -d {}",
                         ShellQuoted(fmt::format("{}://{}{}", dialer.tls() ? "https" : "http",
                                                 dialer.address().http_host(), path)),
                         ShellQuoted(body));
  std::cout << command << '\n';
}

// ---- the command --------------------------------------------------------------------------------------------------

Status AddParameters(const TryOptions& options, load::InferRequest& request) {
  for (const std::string& text : options.parameters) {
    BRAID_ASSIGN_OR_RETURN(auto parameter, load::ParseParameter(text));
    request.parameters[parameter.first] = std::move(parameter.second);
  }
  return OkStatus();
}

// Sets the sequence parameters of step `step`.
void MarkStep(const TryOptions& options, int step, int last, load::InferRequest& request) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(options.sequence_id.data(),
                                            options.sequence_id.data() + options.sequence_id.size(), number);
  const bool whole = error == std::errc() && end == options.sequence_id.data() + options.sequence_id.size();
  if (whole) {
    request.parameters["sequence_id"] = number;
  } else {
    request.parameters["sequence_id"] = options.sequence_id;
  }
  request.parameters["sequence_start"] = step == 0;
  request.parameters["sequence_end"] = step == last;
}

// Escapes control characters, which a terminal obeys, except line ends and tabs.
std::string ForTerminal(std::string_view text) {
  std::string shown;
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t end = std::min(text.find_first_of("\n\t", at), text.size());
    shown += EscapeForLog(text.substr(at, end - at));
    if (end < text.size()) shown += text[end];
    at = end;
  }
  return shown;
}

// Sends a chat completion, and prints its text as it comes.
int Chat(const TryOptions& options, load::Client& client, const load::Encoding& encoding,
         const load::Dialer& dialer) {
  load::InferRequest request;
  request.model = options.model;
  request.inputs = load::MakeChatStep(*options.chat).inputs;
  if (const Status status = AddParameters(options, request); !status.ok()) return Refuse(status, kWrongUse);
  if (options.curl) {
    PrintCurl(options, dialer, request);
    return 0;
  }
  if (const Status status = load::CheckChatModel(client, options.model); !status.ok())
    return Refuse(status, kFailed);
  int64_t first_ns = 0;
  int64_t texts = 0;
  int64_t tokens = 0;  // as the server counts them
  const int64_t begin_ns = SteadyNowNs();
  const Status status =
      client.Infer(request, encoding, false, false, [&](const load::InferResponse& response) {
        tokens = std::max(tokens, response.tokens);
        for (const load::OutputView& output : response.outputs) {
          if (texts++ == 0) first_ns = SteadyNowNs() - begin_ns;
          const std::string text = load::JoinPieces(output.data);
          std::cout << (options.raw ? text : ForTerminal(text)) << std::flush;
        }
        return true;
      });
  const int64_t ns = SteadyNowNs() - begin_ns;
  if (texts > 0 && !options.raw) std::cout << std::endl;
  if (!status.ok()) return Refuse(status, kFailed);
  if (options.raw) return 0;
  if (tokens == 0) tokens = texts;
  std::cout << fmt::format("  {} token{} in {}", tokens, tokens == 1 ? "" : "s", Milliseconds(ns));
  if (texts > 0) {
    std::cout << fmt::format(", {:.1f}/s, the first after {}",
                             static_cast<double>(tokens) * 1e9 / static_cast<double>(ns),
                             Milliseconds(first_ns));
  }
  std::cout << '\n';
  return 0;
}

int Try(const TryOptions& options) {
  const Result<std::shared_ptr<const load::Dialer>> dialer = options.connect.MakeDialer();
  if (!dialer.ok()) return Refuse(dialer.status(), kWrongUse);
  const Result<load::Connection::Headers> headers = options.connect.ParseHeaders();
  if (!headers.ok()) return Refuse(headers.status(), kWrongUse);
  const load::Protocol protocol = options.connect.protocol_kind();
  if (protocol == load::Protocol::kHttp && options.stream) {
    return Refuse(InvalidArgumentError("--stream needs gRPC: add -i grpc, and its port to -u"), kWrongUse);
  }
  if (protocol == load::Protocol::kGrpc && options.curl) {
    return Refuse(InvalidArgumentError("--curl needs HTTP: remove -i grpc"), kWrongUse);
  }
  load::Client client(protocol, *dialer, *headers, options.connect.timeout_s);
  if (options.chat) {
    if (protocol == load::Protocol::kGrpc)
      return Refuse(InvalidArgumentError("--chat needs HTTP: remove -i grpc"), kWrongUse);
    return Chat(options, client, {protocol, false, (*dialer)->address().http_host(), *headers, {}, true},
                **dialer);
  }
  Result<load::ModelInfo> model = client.Model(options.model, options.version);
  if (!model.ok()) return Refuse(model.status(), kFailed);
  for (const std::string& text : options.datatypes) {
    const Status set = load::SetDatatype(text, *model);
    if (!set.ok()) return Refuse(set.WithPrefix("--datatype: "), kWrongUse);
  }
  const bool stream = options.stream || (model->decoupled && protocol == load::Protocol::kGrpc);
  if (model->decoupled && protocol == load::Protocol::kHttp && !options.curl) {
    return Refuse(
        InvalidArgumentError("model " + model->name +
                             " is decoupled: it answers any number of times, which needs gRPC: add -i grpc"),
        kFailed);
  }
  Result<std::vector<load::DataStep>> steps = ReadSteps(options, *model);
  if (!steps.ok()) return Refuse(steps.status(), kWrongUse);

  load::InferRequest request;
  request.model = options.model;
  request.version = options.version;
  request.id = options.id;
  if (const Status status = AddParameters(options, request); !status.ok()) return Refuse(status, kWrongUse);
  for (const std::string& output : options.outputs) request.outputs.push_back({output, {}});
  if (stream && model->decoupled) request.parameters["triton_enable_empty_final_response"] = true;
  const load::Encoding encoding{protocol, stream, (*dialer)->address().http_host(), *headers};
  const int last = options.steps > 0 ? options.steps - 1 : 0;
  if (options.curl) {
    for (int step = 0; step <= last; ++step) {
      request.inputs = (*steps)[static_cast<size_t>(step) % steps->size()].inputs;
      if (options.steps > 0) MarkStep(options, step, last, request);
      PrintCurl(options, **dialer, request);
    }
    return 0;
  }

  const bool text = !options.json && !options.raw;
  if (text) {
    std::cout << fmt::format("{} at {}, {}{}\n", model->name, (*dialer)->address().name(),
                             options.connect.protocol, model->platform.empty() ? "" : ", " + model->platform);
  }
  for (int step = 0; step <= last; ++step) {
    request.inputs = (*steps)[static_cast<size_t>(step) % steps->size()].inputs;
    if (options.steps > 0) {
      MarkStep(options, step, last, request);
      if (text) std::cout << "step " << step + 1 << '\n';
    }
    if (text) {
      std::vector<ShownTensor> shown;
      for (const load::Tensor& input : request.inputs) {
        shown.push_back(Show(input.name, input.datatype, input.shape, input.data, options.all));
      }
      PrintTensors(">", shown);
    }
    size_t responses = 0;
    const int64_t begin_ns = SteadyNowNs();
    const Status status =
        client.Infer(request, encoding, stream, !model->decoupled, [&](const load::InferResponse& response) {
          const int64_t ns = SteadyNowNs() - begin_ns;
          ++responses;
          if (options.raw) {
            for (const load::OutputView& output : response.outputs)
              std::cout << load::JoinPieces(output.data);
          } else if (options.json) {
            Json json = {{"model_name", response.model},
                         {"model_version", response.version},
                         {"ms", static_cast<double>(ns) / 1e6}};
            if (!response.id.empty()) json["id"] = response.id;
            json["outputs"] = Json::array();
            for (const load::OutputView& output : response.outputs)
              json["outputs"].push_back(TensorJson(output));
            std::cout << DumpJson(json) << '\n';
          } else {
            if (stream) std::cout << fmt::format("  response {} after {}\n", responses, Milliseconds(ns));
            std::vector<ShownTensor> shown;
            for (const load::OutputView& output : response.outputs) {
              shown.push_back(Show(output.name, output.datatype, output.shape, load::JoinPieces(output.data),
                                   options.all));
            }
            PrintTensors("<", shown);
          }
          std::cout.flush();
          return true;
        });
    const int64_t ns = SteadyNowNs() - begin_ns;
    if (!status.ok()) return Refuse(status, kFailed);
    if (text) {
      std::cout << (stream ? fmt::format("  {} response{} in {}\n", responses, responses == 1 ? "" : "s",
                                         Milliseconds(ns))
                           : fmt::format("  in {}\n", Milliseconds(ns)));
    }
  }
  return 0;
}

}  // namespace

int RunTry(int argc, const char* const* argv) {
  TryOptions options;
  CLI::App app("Sends a request to a model of a running server, and shows the answer.", "braid try");
  app.footer(kFooter);
  app.add_option("MODEL", options.model, "name of the model")->required();
  options.connect.AddTo(app);
  app.add_option("-x,--model-version", options.version,
                 "version of the model; by default, the server chooses");
  app.add_option(
      "-d,--data", options.data,
      "NAME=VALUE: JSON, or text for BYTES. NAME=@FILE: .json, .npy, an image, numbers as text or bytes; "
      "for BYTES any file as one element. @FILE.json: a data file of `braid bench`. Default: random "
      "values; repeatable");
  app.add_option("--shape", options.shapes,
                 "NAME:1,2: the shape of an input that the metadata leaves open, without the batch");
  app.add_option("--datatype", options.datatypes,
                 "NAME:FP32: the datatype of an input that the metadata leaves open, such as a graph's");
  app.add_option("-b,--batch", options.batch, "samples in the request")->check(CLI::Range(1, 1 << 20));
  app.add_flag("--zero", options.zero, "zeros instead of random values");
  app.add_option("--seed", options.seed, "seed of the random values");
  app.add_option("-o,--output", options.outputs, "an output to request; by default, all; repeatable");
  app.add_option("-p,--request-parameter", options.parameters,
                 "NAME=VALUE of the request; with --chat a field, such as temperature=0.5; repeatable");
  app.add_option("--id", options.id, "id of the request");
  app.add_option("--sequence-id", options.sequence_id, "id of the sequence of the request")->default_str("1");
  app.add_option("--steps,--sequence-length", options.steps,
                 "number of requests, as one sequence from its start to its end")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("--stream", options.stream, "use gRPC's ModelStreamInfer; automatic for decoupled models");
  app.add_flag("--json", options.json, "print each response as one line of JSON");
  app.add_flag("--raw", options.raw, "print the bytes of the outputs and nothing else");
  app.add_flag("--all", options.all, "print all elements");
  app.add_flag("--curl", options.curl, "print the request as a curl command, and send nothing")
      ->excludes("--json", "--raw");
  app.get_option("--json")->excludes("--raw");
  app.add_option("--chat", options.chat,
                 "a message of the user: ask by OpenAI's chat completions, and print the answer as it comes")
      ->excludes("--model-version", "--data", "--shape", "--datatype", "--batch", "--zero", "--seed",
                 "--output", "--id", "--sequence-id", "--steps", "--stream", "--json", "--all");
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUse;
  }
  if (!options.sequence_id.empty() && options.steps == 0) options.steps = 1;
  if (options.sequence_id.empty()) options.sequence_id = "1";
  return Try(options);
}

}  // namespace braid
