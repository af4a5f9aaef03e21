// What a run of the load generator does, as the command line says it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "expectation.h"
#include "payload.h"
#include "shared_payload.h"

namespace braid::bench {

enum class Protocol { kGrpc, kGrpcStream, kHttp, kHttpJson };

struct Options {
  Protocol protocol = Protocol::kGrpc;
  std::string protocol_name = "grpc";
  std::string host = "127.0.0.1";
  std::string port = "8001";
  std::vector<std::string> models;  // at least one; asked in turn
  int concurrency = 1;
  int connections = 1;  // of gRPC and of each thread, which the requests in flight share
  double rate = 0;  // requests that come in a second, whatever becomes of others; 0: `concurrency` at a time
  int threads = 1;
  double duration_s = 5;
  double warmup_s = 1;
  double timeout_s = 60;
  double wait_ready_s = 0;
  int server_pid = 0;  // 0: the server's use of the machine is not measured
  std::vector<InputTensor> inputs;
  std::map<std::string, std::string>
      parameters;          // whole numbers and true/false go out as such, the rest as text
  int sequence_steps = 0;  // requests of a sequence; 0: no sequences
  int responses = 1;       // that a stream gives to one request
  Expectation expectation;
  std::shared_ptr<SharedPayload> shared;  // shared with copies of the options; null: tensors in the messages
  std::string label;

  const std::string& model() const { return models.front(); }
};

// How a request parameter is written on the wire.
enum class ParameterKind { kInteger, kBool, kText };
ParameterKind KindOfParameter(const std::string& value);

// Reads the command line. Help and mistakes are printed; then `exit_code` is set and the result is false.
bool ParseOptions(int argc, char** argv, Options* options, int* exit_code);

}  // namespace braid::bench
