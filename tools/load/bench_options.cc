#include "load/bench_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>

namespace braid::load {
namespace {

constexpr int kWrongUse = 2;
constexpr size_t kMostValues = 10000;

// Options of perf_analyzer that `braid bench` lacks, with their replacements.
struct NotHere {
  std::string_view name;
  std::string_view instead;
};
constexpr NotHere kNotHere[] = {
    {"--async", "requests are always sent without waiting for each other; leave it out"},
    {"-a", "requests are always sent without waiting for each other; leave it out"},
    {"--sync", "requests are always sent without waiting for each other; leave it out"},
    {"--service-kind",
     "servers of KServe v2 are measured, such as Braid, Triton and OpenVINO Model Server; leave it out"},
    {"--endpoint", "servers of KServe v2 are measured, whose paths are known; leave it out"},
    {"--model-signature-name", "it belongs to TensorFlow Serving, which is not measured; leave it out"},
    {"--binary-search", "sweep with --concurrency-range START:END:STEP, which ends at --latency-threshold"},
    {"--request-intervals", "use --request-rate-range with --request-distribution"},
    {"--schedule", "use --request-rate-range with --request-distribution"},
    {"--periodic-concurrency-range", "use --concurrency-range"},
    {"--request-period", "use --concurrency-range"},
    {"--serial-sequences", "sequences of a data file are taken in turn; leave it out"},
    {"--grpc-compression-algorithm", "messages are sent as they are; leave it out"},
    {"--trace-level", "turn tracing on at the server; docs/metrics-and-tracing.md of Braid says how"},
    {"--trace-rate", "turn tracing on at the server; docs/metrics-and-tracing.md of Braid says how"},
    {"--trace-count", "turn tracing on at the server; docs/metrics-and-tracing.md of Braid says how"},
    {"--log-frequency", "turn tracing on at the server; docs/metrics-and-tracing.md of Braid says how"},
    {"--collect-metrics", "every measurement has the server's counts for the model; leave it out"},
    {"--metrics-url", "every measurement has the server's counts for the model; leave it out"},
    {"--metrics-interval", "every measurement has the server's counts for the model; leave it out"},
    {"--profile-export-file", "use --format json, -f FILE.csv or --report FILE.html"},
    {"--bls-composing-models", "the models that a model calls have figures of their own; leave it out"},
    {"--model-repository", "start a server, and name it by -u"},
    {"--triton-server-directory", "start a server, and name it by -u"},
    {"--ssl-grpc-root-certifications", "use --ssl-grpc-root-certifications-file FILE"},
    {"--ssl-https-client-certificate-type", "certificates are PEM; leave it out"},
    {"--ssl-https-private-key-type", "keys are PEM; leave it out"},
    {"--verbose-csv", "-f has all columns; leave it out"},
    {"-t", "use --concurrency-range N"},
    {"-c", "use --concurrency-range START:END with --latency-threshold"},
    {"-d", "use --concurrency-range START:END:STEP"},
    {"-n", "use --concurrency-range START:END:STEP"},
};

constexpr char kFooter[] =
    "examples:\n"
    "  braid bench -m add_sub\n"
    "  braid bench -m add_sub -i grpc --concurrency-range 1:16:5 --report report.html\n"
    "  braid bench -m add_sub --request-rate-range 100:1000:300 --request-distribution poisson\n"
    "  braid bench -m add_sub --input-data data.json -u one:8000 --compare two:8000\n"
    "\n"
    "exit codes: 0 all was answered as it should be, 1 there were errors, 2 wrong use\n";

bool Refused(int argc, const char* const* argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view name = std::string_view(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    const auto found = std::ranges::find(kNotHere, name, &NotHere::name);
    if (found == std::end(kNotHere)) continue;
    std::cerr << "braid bench: there is no " << name << ": " << found->instead << '\n';
    return true;
  }
  return false;
}

}  // namespace

std::vector<double> Range::Values() const {
  std::vector<double> values;
  for (size_t i = 0; i < kMostValues; ++i) {
    const double value = start + static_cast<double>(i) * step;
    if (value > end * (1 + 1e-9)) break;
    values.push_back(value);
  }
  return values;
}

Result<Range> ParseRange(const std::string& text) {
  const auto refuse = [&](const char* why) {
    return InvalidArgumentError("'" + text + "' is no range START:END:STEP: " + why);
  };
  std::vector<double> numbers;
  for (size_t at = 0; at <= text.size();) {
    const size_t colon = std::min(text.find(':', at), text.size());
    double number = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + colon, number);
    if (error != std::errc() || end != text.data() + colon || !(number > 0) || number > 1e7) {
      return refuse("its parts are numbers above 0");
    }
    numbers.push_back(number);
    at = colon + 1;
  }
  if (numbers.size() > 3) return refuse("it has up to three parts");
  Range range;
  range.start = numbers[0];
  range.end = numbers.size() > 1 ? numbers[1] : range.start;
  range.step = numbers.size() > 2 ? numbers[2] : 1;
  if (range.end < range.start) return refuse("its end is below its start");
  if ((range.end - range.start) / range.step >= static_cast<double>(kMostValues))
    return refuse("it has too many steps");
  return range;
}

std::optional<int> ParseBenchOptions(int argc, const char* const* argv, BenchOptions& options) {
  if (Refused(argc, argv)) return kWrongUse;
  std::string concurrency;
  std::string rates;
  std::string distribution = "constant";
  std::string mode = "time_windows";
  std::string shared = "none";
  std::string input_format = "binary";
  std::string output_format = "binary";
  std::string format = "text";
  std::string ids;
  double interval_ms = 5000;
  std::vector<std::string> shapes;
  std::vector<std::string> parameters;
  bool sequence_asked = false;

  CLI::App app("Measures a model of a running server: how many requests it answers, and how fast.",
               "braid bench");
  app.footer(kFooter);
  app.add_option("-m,--model", options.model, "name of the model")->required();
  app.add_option("-x,--model-version", options.version,
                 "version of the model; without it the server chooses");
  app.add_option("-b,--batch-size", options.batch, "samples in each request")->check(CLI::Range(1, 1 << 20));
  options.connect.AddTo(app);
  app.add_option("--compare", options.compare_url,
                 "HOST:PORT of a second server: both are measured in turn, and compared")
      ->group("Server");
  app.add_option("--rounds", options.rounds, "of a comparison: measurements of each server")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->group("Server");

  const std::string load = "Load";
  app.add_option("--concurrency-range", concurrency,
                 "START:END:STEP requests in flight, the next one when one is answered (1)")
      ->group(load);
  app.add_option("--request-rate-range", rates,
                 "START:END:STEP requests a second, sent without waiting for earlier ones")
      ->group(load)
      ->excludes("--concurrency-range");
  app.add_option("--request-distribution", distribution, "when they come: constant or poisson (at random)")
      ->check(CLI::IsMember({"constant", "poisson"}))
      ->group(load);
  app.add_option(
         "--max-in-flight", options.max_in_flight,
         "with a rate: requests in flight at most; others wait, and their latency counts from when they came")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->group(load);
  app.add_option("--max-threads", options.max_threads,
                 "threads that send; without it half as many as there are cores")
      ->check(CLI::Range(1, 256))
      ->group(load);
  app.add_option("--connections", options.connections,
                 "with -i grpc: connections of each thread, which requests share")
      ->check(CLI::Range(1, 4096))
      ->group(load);

  const std::string measurement = "Measurement";
  app.add_option("-p,--measurement-interval", interval_ms, "milliseconds of a measurement")
      ->check(CLI::Range(10.0, 86400000.0))
      ->capture_default_str()
      ->group(measurement);
  app.add_option("--measurement-mode", mode,
                 "time_windows, or count_windows: a measurement ends with --measurement-request-count")
      ->check(CLI::IsMember({"time_windows", "count_windows"}))
      ->group(measurement);
  app.add_option("--measurement-request-count", options.window_requests,
                 "requests of a measurement of count_windows")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str()
      ->group(measurement);
  app.add_option("-s,--stability-percentage", options.stability_percent,
                 "it is measured until three measurements in a row differ from their mean by no more")
      ->check(CLI::Range(0.1, 1000.0))
      ->capture_default_str()
      ->group(measurement);
  app.add_option("-r,--max-trials", options.max_trials, "measurements at most for each load; 1: a single one")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str()
      ->group(measurement);
  app.add_option("--percentile", options.percentile,
                 "stability and the threshold look at this percentile, not at the mean")
      ->check(CLI::Range(1, 99))
      ->group(measurement);
  app.add_option("-l,--latency-threshold", options.latency_threshold_ms,
                 "milliseconds: a sweep ends at a load that takes longer")
      ->check(CLI::PositiveNumber)
      ->group(measurement);
  app.add_option("--request-count", options.request_count,
                 "send so many requests for each load in place of measuring by time")
      ->check(CLI::Range(1, 1 << 30))
      ->group(measurement);
  app.add_option("--warmup-request-count", options.warmup_requests,
                 "requests before the measurements of each load")
      ->check(CLI::Range(1, 1 << 30))
      ->group(measurement);

  const std::string data = "Data";
  app.add_option(
         "--input-data", options.input_data,
         "random, zero, a data file FILE.json, or a folder with a file for each input; files are repeatable")
      ->group(data);
  app.add_option(
         "--shape", shapes,
         "NAME:1,2: the shape of an input that the metadata leaves open, without the batch; repeatable")
      ->group(data);
  app.add_option("--datatype", options.datatypes,
                 "NAME:FP32: the datatype of an input that the metadata leaves open, as that of a graph; "
                 "repeatable")
      ->group(data);
  app.add_option("--string-length", options.data.fill.string_length, "length of texts at random")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str()
      ->group(data);
  app.add_option("--string-data", options.data.fill.string_data, "this text in place of one at random")
      ->group(data);
  app.add_option("--random-seed", options.seed, "another seed gives other values and arrivals")->group(data);
  app.add_flag("--validate", options.validate,
               "fail where the data has no outputs to compare (\"validation_data\")")
      ->group(data);
  app.add_option("--request-parameter", parameters,
                 "NAME:VALUE:TYPE or NAME=VALUE of each request; repeatable")
      ->group(data);
  app.add_option("--input-tensor-format", input_format, "with -i http: binary or json")
      ->check(CLI::IsMember({"binary", "json"}))
      ->group(data);
  app.add_option("--output-tensor-format", output_format, "with -i http: binary or json")
      ->check(CLI::IsMember({"binary", "json"}))
      ->group(data);
  app.add_option("--shared-memory", shared,
                 "none or system: tensors in shared memory, of a server on this machine")
      ->check(CLI::IsMember({"none", "system"}))
      ->group(data);
  app.add_option("--output-shared-memory-size", options.output_bytes,
                 "room for an output whose size the metadata leaves open")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str()
      ->group(data);

  const std::string sequences = "Sequences and streams";
  const auto sequence = [&](const std::string&) { sequence_asked = true; };
  app.add_option(
         "--sequence-length", options.sequences.length,
         "requests of a sequence; streams of a data file have lengths of their own, unless it is given")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->each(sequence)
      ->group(sequences);
  app.add_option("--sequence-length-variation", options.sequences.variation,
                 "percent by which lengths differ, at random")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str()
      ->each(sequence)
      ->group(sequences);
  app.add_option("--num-of-sequences", options.sequence_count,
                 "with a rate: sequences at a time; else as many as the concurrency")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->each(sequence)
      ->group(sequences);
  app.add_option("--start-sequence-id", options.sequences.first_id, "the first sequence id")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 62))
      ->capture_default_str()
      ->each(sequence)
      ->group(sequences);
  app.add_option("--sequence-id-range", ids, "START:END: ids from START, END left out, over and over")
      ->each(sequence)
      ->group(sequences)
      ->excludes("--start-sequence-id");
  app.add_flag("--streaming", options.streaming,
               "with -i grpc: each request in flight has a stream (ModelStreamInfer)")
      ->group(sequences);
  app.add_option("--responses", options.responses,
                 "responses of a stream to one request; without it one, or of decoupled models those up to "
                 "the final one")
      ->check(CLI::Range(1, 1 << 20))
      ->group(sequences);

  const std::string output = "Output";
  app.add_option("-f,--csv", options.csv_file, "write a table of all measurements (CSV)")->group(output);
  app.add_option("--report", options.report_file, "write a page with plots (HTML)")->group(output);
  app.add_option("--format", format, "text or json")->check(CLI::IsMember({"text", "json"}))->group(output);
  app.add_flag("-v,--verbose", options.verbose, "a line for each measurement, not only for each load")
      ->group(output);
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUse;
  }

  const auto refuse = [](const std::string& text) {
    std::cerr << "braid bench: " << text << '\n';
    return kWrongUse;
  };
  options.interval_s = interval_ms / 1000;
  options.distribution = distribution == "poisson" ? Distribution::kPoisson : Distribution::kConstant;
  options.count_windows = mode == "count_windows";
  options.shared_memory = shared == "system";
  options.http = {input_format == "binary", output_format == "binary"};
  options.json = format == "json";
  for (int i = 0; i < argc; ++i)
    options.command_line += (i == 0 ? "" : " ") + std::string(i == 0 ? "braid" : argv[i]);
  if (!concurrency.empty()) {
    const Result<Range> range = ParseRange(concurrency);
    if (!range.ok()) return refuse("--concurrency-range: " + range.status().message());
    options.concurrency = range->Values();
    for (const double value : options.concurrency) {
      if (value != std::floor(value) || value > 65536)
        return refuse("--concurrency-range: whole numbers up to 65536");
    }
  }
  if (!rates.empty()) {
    const Result<Range> range = ParseRange(rates);
    if (!range.ok()) return refuse("--request-rate-range: " + range.status().message());
    options.rates = range->Values();
  } else {
    if (app.count("--request-distribution") > 0)
      return refuse("--request-distribution needs --request-rate-range");
    if (app.count("--max-in-flight") > 0)
      return refuse("--max-in-flight needs --request-rate-range; use --concurrency-range");
    if (app.count("--num-of-sequences") > 0)
      return refuse("--num-of-sequences needs --request-rate-range; use --concurrency-range");
  }
  for (const std::string& text : shapes) {
    auto shape = ParseShape(text);
    if (!shape.ok()) return refuse("--shape: " + shape.status().message());
    options.data.shapes.insert(std::move(*shape));
  }
  for (const std::string& text : parameters) {
    auto parameter = ParseParameter(text);
    if (!parameter.ok()) return refuse("--request-parameter: " + parameter.status().message());
    options.parameters.insert(std::move(*parameter));
  }
  options.data.batch = options.batch;
  options.data.note = NotesOf("braid bench");
  const bool grpc = options.connect.protocol == "grpc";
  if (options.streaming && !grpc)
    return refuse("--streaming goes over gRPC: add -i grpc, and its port to -u");
  if (options.responses > 0 && !options.streaming) return refuse("--responses needs --streaming");
  if (options.connections > 1 && !grpc)
    return refuse("--connections is for -i grpc; over HTTP each request in flight has one");
  if (grpc && (app.count("--input-tensor-format") > 0 || app.count("--output-tensor-format") > 0)) {
    return refuse("--input-tensor-format and --output-tensor-format are for -i http; gRPC has bytes");
  }
  if (options.sequences.length > 0 && app.count("--sequence-length") > 0)
    options.sequences.length_given = true;
  options.sequences.enabled = sequence_asked;
  if (!ids.empty()) {
    const Result<Range> range = ParseRange(ids);
    if (!range.ok() || range->end <= range->start) return refuse("--sequence-id-range looks like START:END");
    options.sequences.first_id = static_cast<uint64_t>(range->start);
    options.sequences.ids = static_cast<uint64_t>(range->end - range->start);
  }
  if (options.shared_memory && options.sequences.enabled) {
    return refuse("--shared-memory is not for sequences");
  }
  if (options.count_windows && app.count("--request-count") > 0) {
    return refuse(
        "--request-count sends its requests once; --measurement-mode count_windows has "
        "--measurement-request-count");
  }
  return std::nullopt;
}

}  // namespace braid::load
