// The options of `braid bench`. Names and meanings are those of perf_analyzer where it has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/arrivals.h"
#include "load/connect_options.h"
#include "load/data.h"
#include "load/workload.h"

namespace braid::load {

// A range "start:end:step".
struct Range {
  double start = 1;
  double end = 1;
  double step = 1;

  // Returns all values from start to end.
  std::vector<double> Values() const;
};

// Errors: not a range, one that never reaches its end, or one with more than 10,000 values.
Result<Range> ParseRange(const std::string& text);

struct BenchOptions {
  ConnectOptions connect;
  std::string compare_url;  // the second server; "": none
  int rounds = 5;           // of a comparison
  std::string model;
  std::string version;
  int64_t batch = 1;

  std::vector<double> concurrency = {1};
  std::vector<double> rates;  // not empty: an open load
  Distribution distribution = Distribution::kConstant;
  int max_in_flight = 256;  // of an open load
  int max_threads = 0;      // 0: chosen for the machine
  int connections = 1;      // gRPC connections per thread

  double interval_s = 5;
  bool count_windows = false;
  uint64_t window_requests = 50;
  double stability_percent = 10;
  int max_trials = 10;
  uint64_t request_count = 0;  // 0: windows of time
  uint64_t warmup_requests = 0;
  int percentile = 0;
  double latency_threshold_ms = 0;

  std::vector<std::string> input_data = {"random"};
  DataOptions data;
  std::vector<std::string> datatypes;  // NAME:FP32, for tensors whose metadata has no datatype
  uint64_t seed = 0;
  bool validate = false;
  SequenceOptions sequences;
  int sequence_count = 4;  // concurrent ones, of an open load
  bool streaming = false;
  uint64_t responses = 0;  // to one request of a stream; 0: as the model says
  bool shared_memory = false;
  size_t output_bytes = 102400;
  Parameters parameters;
  HttpFormat http;

  bool json = false;
  std::string csv_file;
  std::string report_file;
  bool verbose = false;
  std::string command_line;

  bool open_load() const { return !rates.empty(); }
  // Whether chat completions are measured; the answers then are streams of tokens.
  bool chat() const { return connect.protocol == "openai"; }
};

// Parses the command line. If it returns a value, help or an error was printed and the program ends with that
// exit code.
std::optional<int> ParseBenchOptions(int argc, const char* const* argv, BenchOptions& options);

}  // namespace braid::load
