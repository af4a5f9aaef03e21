// Options: the settings of a run of the load generator, as given on the command line.
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
  std::vector<std::string> models;  // at least one; used in turn
  int concurrency = 1;
  int connections = 1;  // gRPC connections of each thread, shared by the requests in flight
  double rate = 0;      // requests per second, regardless of other requests; 0: `concurrency` at a time
  int threads = 1;
  double duration_s = 5;
  double warmup_s = 1;
  double timeout_s = 60;
  double wait_ready_s = 0;
  int server_pid = 0;  // 0: the server's resource usage is not measured
  std::vector<InputTensor> inputs;
  std::map<std::string, std::string>
      parameters;          // whole numbers and true/false are sent as such, others as text
  int sequence_steps = 0;  // requests per sequence; 0: no sequences
  int responses = 1;       // responses of a stream to one request
  Expectation expectation;
  std::shared_ptr<SharedPayload> shared;  // shared with copies of the options; null: tensors are in the
                                          // messages
  std::string label;

  const std::string& model() const { return models.front(); }
};

// The type of a request parameter on the wire.
enum class ParameterKind { kInteger, kBool, kText };
ParameterKind KindOfParameter(const std::string& value);

// Parses the command line. Prints help and errors, sets `exit_code`, and then returns false.
bool ParseOptions(int argc, char** argv, Options* options, int* exit_code);

}  // namespace braid::bench
