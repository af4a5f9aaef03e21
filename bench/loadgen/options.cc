#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

namespace braid::bench {
namespace {

Status SplitAddress(const std::string& address, Options* options) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return InvalidArgumentError("--address looks like HOST:PORT");
  options->host = address.substr(0, colon);
  options->port = address.substr(colon + 1);
  return OkStatus();
}

Status SplitParameters(const std::vector<std::string>& texts, Options* options) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) return InvalidArgumentError("--param looks like NAME=VALUE");
    options->parameters[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return OkStatus();
}

Status MakePayload(const std::vector<std::string>& specifications, size_t bytes_length, Validation validation,
                   int validate_every, Options* options) {
  for (const std::string& specification : specifications) {
    BRAID_ASSIGN_OR_RETURN(InputTensor input,
                           MakeInput(specification, static_cast<int>(options->inputs.size()), bytes_length));
    options->inputs.push_back(std::move(input));
  }
  BRAID_ASSIGN_OR_RETURN(options->expectation,
                         Expectation::Make(validation, options->inputs, validate_every));
  return OkStatus();
}

Status ShareMemory(Options* options) {
  if (options->protocol != Protocol::kGrpc || options->concurrency != 1)
    return InvalidArgumentError("--shared-memory needs --protocol grpc and --concurrency 1");
  BRAID_ASSIGN_OR_RETURN(options->shared, SharedPayload::Make(options->inputs));
  return OkStatus();
}

}  // namespace

ParameterKind KindOfParameter(const std::string& value) {
  if (value == "true" || value == "false") return ParameterKind::kBool;
  const size_t digits = value.starts_with('-') ? 1 : 0;
  const bool number = value.size() > digits && value.size() < 19 &&
                      std::all_of(value.begin() + static_cast<std::ptrdiff_t>(digits), value.end(),
                                  [](char c) { return c >= '0' && c <= '9'; });
  return number ? ParameterKind::kInteger : ParameterKind::kText;
}

bool ParseOptions(int argc, char** argv, Options* options, int* exit_code) {
  const std::map<std::string, Protocol> protocols = {{"grpc", Protocol::kGrpc},
                                                     {"grpc-stream", Protocol::kGrpcStream},
                                                     {"http", Protocol::kHttp},
                                                     {"http-json", Protocol::kHttpJson}};
  const std::map<std::string, Validation> validations = {
      {"none", Validation::kNone}, {"identity", Validation::kIdentity}, {"add_sub", Validation::kAddSub}};
  std::string address = "127.0.0.1:8001";
  std::string validation = "none";
  std::vector<std::string> inputs;
  std::vector<std::string> parameters;
  size_t bytes_length = 16;
  int validate_every = 0;
  bool shared = false;

  CLI::App app("Load generator for KServe v2 servers; prints one JSON object.", "braid_loadgen");
  app.add_option("--protocol", options->protocol_name,
                 "grpc, grpc-stream, http (binary tensors) or http-json")
      ->transform(CLI::IsMember({"grpc", "grpc-stream", "http", "http-json"}));
  app.add_option("--address", address, "HOST:PORT of the server");
  app.add_option("--model", options->models, "model to ask; repeatable: in turn")->required();
  app.add_option("--concurrency", options->concurrency,
                 "requests kept in flight; with --rate, how many there may be, others wait for one to end")
      ->check(CLI::Range(1, 4096));
  app.add_option("--connections", options->connections,
                 "grpc: connections of each thread, which its requests in flight share; of HTTP each has one")
      ->check(CLI::Range(1, 4096));
  app.add_option(
         "--rate", options->rate,
         "open load: requests a second on average, which come at random without waiting for others; a "
         "latency begins when its request was to be sent; grpc and http")
      ->check(CLI::Range(0.001, 1e7));
  app.add_option("--threads", options->threads, "threads of the generator")->check(CLI::Range(1, 64));
  app.add_option("--duration", options->duration_s, "seconds that count")->check(CLI::Range(0.01, 86400.0));
  app.add_option("--warmup", options->warmup_s, "seconds before them")->check(CLI::Range(0.0, 86400.0));
  app.add_option("--timeout", options->timeout_s, "seconds that a request may take")
      ->check(CLI::Range(0.1, 86400.0));
  app.add_option("--wait-ready", options->wait_ready_s, "seconds to wait for server and model")
      ->check(CLI::Range(0.0, 86400.0));
  app.add_option("--input", inputs, "NAME:DATATYPE:SHAPE, for example INPUT0:FP32:1x4; repeatable");
  app.add_option("--bytes-length", bytes_length, "length of an element of BYTES");
  app.add_option("--param", parameters, "request parameter NAME=VALUE; repeatable");
  app.add_option("--sequence-steps", options->sequence_steps,
                 "each request in flight is a step of a sequence of so many; grpc and http")
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--responses", options->responses, "grpc-stream: responses to one request")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--validate", validation, "none, identity or add_sub")
      ->transform(CLI::IsMember({"none", "identity", "add_sub"}));
  app.add_option("--validate-every", validate_every, "compare the bytes of every n-th response (0: by size)")
      ->check(CLI::Range(0, 1 << 30));
  app.add_flag("--shared-memory", shared,
               "inputs, and outputs as large, in system shared memory; grpc with one request in flight");
  app.add_option("--server-pid", options->server_pid,
                 "measure processor time and memory of this process and its children");
  app.add_option("--label", options->label, "copied to the output");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error);
    return false;
  }
  options->protocol = protocols.at(options->protocol_name);
  Status status = SplitAddress(address, options);
  if (status.ok()) status = SplitParameters(parameters, options);
  if (status.ok())
    status = MakePayload(inputs, bytes_length, validations.at(validation), validate_every, options);
  if (status.ok() && shared) status = ShareMemory(options);
  if (status.ok() && options->sequence_steps > 0 && (shared || options->protocol == Protocol::kGrpcStream)) {
    status = InvalidArgumentError("--sequence-steps is not for streams and shared memory");
  }
  if (status.ok() && options->rate > 0 && (shared || options->protocol == Protocol::kGrpcStream)) {
    status = InvalidArgumentError("--rate is not for streams and shared memory");
  }
  if (status.ok() && options->models.size() > 1 &&
      (options->protocol == Protocol::kGrpcStream || options->sequence_steps > 0)) {
    status = InvalidArgumentError("several models are not for streams and sequences");
  }
  if (status.ok() && options->connections > 1 &&
      (options->protocol != Protocol::kGrpc || options->rate > 0)) {
    status = InvalidArgumentError("--connections is for grpc without a rate");
  }
  if (!status.ok()) {
    std::fprintf(stderr, "braid_loadgen: %s\n", status.message().c_str());
    *exit_code = 1;
    return false;
  }
  options->threads = std::min(options->threads, options->concurrency);
  return true;
}

}  // namespace braid::bench
