// `braid bench` without its command line: puts a series of loads on one server, or on two in turn, and
// reports the results.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/bench_options.h"
#include "load/measurement.h"

namespace braid::load {

// One load and its figures: those of the last three measurements together, or of all if there are fewer.
struct Level {
  double load = 1;  // concurrency, or requests per second
  Figures figures;
  int trials = 0;
  bool stable = true;     // if stability was requested
  bool rate_held = true;  // the requests of an open load were sent on schedule
};

// One load against two servers. Each ratio is of one round: the second server's figure divided by the first
// one's.
struct Ratios {
  double median = 0;
  double least = 0;
  double greatest = 0;
};
struct Comparison {
  double load = 1;
  Level first;
  Level second;
  Ratios throughput;
  Ratios p50;
  Ratios p99;
};

struct Environment {
  std::string date;
  std::string machine;  // processor, cores, system
  std::string server;   // its name and version
  std::string second_server;
  std::string model;
  std::string platform;
};

struct BenchResult {
  Environment environment;
  std::vector<Level> levels;            // of one server
  std::vector<Comparison> comparisons;  // of two
  bool interrupted = false;

  bool errors() const;
};

// Runs all requested loads. Progress goes to standard error. `interrupted` ends the run early, and the result
// has the measurements so far. Errors: a server does not answer; the options do not fit the model
// (INVALID_ARGUMENT).
Result<BenchResult> RunBenchmark(const BenchOptions& options, const std::atomic<bool>& interrupted);

// Returns the least, median and greatest of the ratios.
Ratios MakeRatios(std::vector<double> ratios);

// Reports as tables for people, one JSON object, CSV, and an HTML page.
std::string TextReport(const BenchOptions& options, const BenchResult& result);
std::string JsonReport(const BenchOptions& options, const BenchResult& result);
std::string CsvReport(const BenchOptions& options, const BenchResult& result);
std::string HtmlReport(const BenchOptions& options, const BenchResult& result);

}  // namespace braid::load
