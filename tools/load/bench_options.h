// What `braid bench` is asked for. Names and meanings are perf_analyzer's where it has them.
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

// start:end:step
struct Range {
  double start = 1;
  double end = 1;
  double step = 1;

  // All values, from start to end.
  std::vector<double> Values() const;
};

// Errors: no range, or one that never reaches its end or has more than 10,000 values.
Result<Range> ParseRange(const std::string& text);

struct BenchOptions {
  ConnectOptions connect;
  std::string compare_url;  // of a second server; "": none
  int rounds = 5;           // of a comparison
  std::string model;
  std::string version;
  int64_t batch = 1;

  std::vector<double> concurrency = {1};
  std::vector<double> rates;  // an open load where it is not empty
  Distribution distribution = Distribution::kConstant;
  int max_in_flight = 256;  // of an open load
  int max_threads = 0;      // 0: by the machine
  int connections = 1;      // of gRPC and each thread

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
  std::vector<std::string> datatypes;  // NAME:FP32, of what the metadata leaves open
  uint64_t seed = 0;
  bool validate = false;
  SequenceOptions sequences;
  int sequence_count = 4;  // at a time, of an open load
  bool streaming = false;
  uint64_t responses = 0;  // of a stream to one request; 0: by the model
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
};

// Reads the command line. A value: the exit code with which the program ends at once, after help or an error was printed.
std::optional<int> ParseBenchOptions(int argc, const char* const* argv, BenchOptions& options);

}  // namespace braid::load
