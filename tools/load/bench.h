// `braid bench` itself: loads one after the other against one server, or two in turn, and what they have shown.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/bench_options.h"
#include "load/measurement.h"

namespace braid::load {

// One load, and its figures: those of the last three measurements together, or of all where there are fewer.
struct Level {
  double load = 1;  // concurrency, or requests a second
  Figures figures;
  int trials = 0;
  bool stable = true;     // as far as it was asked for
  bool rate_held = true;  // requests of an open load were sent when they came
};

// One load against two servers: each ratio is of one round, the second server's figure by the first one's.
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
  std::string server;   // what it calls itself
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

// Runs all that is asked for. Lines on its way go to standard error. `interrupted` ends it early, with what was measured. Errors: a
// server that cannot be asked, or options that do not fit the model (INVALID_ARGUMENT).
Result<BenchResult> RunBenchmark(const BenchOptions& options, const std::atomic<bool>& interrupted);

// The smallest, middle and largest of ratios.
Ratios MakeRatios(std::vector<double> ratios);

// Tables for people, one JSON object, CSV, and a page.
std::string TextReport(const BenchOptions& options, const BenchResult& result);
std::string JsonReport(const BenchOptions& options, const BenchResult& result);
std::string CsvReport(const BenchOptions& options, const BenchResult& result);
std::string HtmlReport(const BenchOptions& options, const BenchResult& result);

}  // namespace braid::load
