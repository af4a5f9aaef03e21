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
    {"--async", "requests are always asynchronous; leave it out"},
    {"-a", "requests are always asynchronous; leave it out"},
    {"--sync", "requests are always asynchronous; leave it out"},
    {"--service-kind",
     "use -i openai for chat completions; leave it out for KServe v2, as Braid, Triton and OpenVINO Model "
     "Server speak it"},
    {"--endpoint", "the paths are known; leave it out"},
    {"--model-signature-name", "TensorFlow Serving is not supported; leave it out"},
    {"--binary-search", "sweep with --concurrency-range START:END:STEP, which ends at --latency-threshold"},
    {"--request-intervals", "use --request-rate-range with --request-distribution"},
    {"--schedule", "use --request-rate-range with --request-distribution"},
    {"--periodic-concurrency-range", "use --concurrency-range"},
    {"--request-period", "use --concurrency-range"},
    {"--serial-sequences", "sequences of a data file are taken in turn; leave it out"},
    {"--grpc-compression-algorithm", "messages are sent uncompressed; leave it out"},
    {"--trace-level", "enable tracing at the server, see docs/metrics-and-tracing.md of Braid"},
    {"--trace-rate", "enable tracing at the server, see docs/metrics-and-tracing.md of Braid"},
    {"--trace-count", "enable tracing at the server, see docs/metrics-and-tracing.md of Braid"},
    {"--log-frequency", "enable tracing at the server, see docs/metrics-and-tracing.md of Braid"},
    {"--collect-metrics", "every measurement includes the server's counts for the model; leave it out"},
    {"--metrics-url", "every measurement includes the server's counts for the model; leave it out"},
    {"--metrics-interval", "every measurement includes the server's counts for the model; leave it out"},
    {"--profile-export-file", "use --format json, -f FILE.csv or --report FILE.html"},
    {"--bls-composing-models", "called models have separate figures; leave it out"},
    {"--model-repository", "start a server, and set its address with -u"},
    {"--triton-server-directory", "start a server, and set its address with -u"},
    {"--ssl-grpc-root-certifications", "use --ssl-grpc-root-certifications-file FILE"},
    {"--ssl-https-client-certificate-type", "certificates are PEM; leave it out"},
    {"--ssl-https-private-key-type", "keys are PEM; leave it out"},
    {"--verbose-csv", "-f always writes all columns; leave it out"},
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
    "  braid bench -m llm -i openai --concurrency-range 8 --request-parameter max_tokens=128\n"
    "\n"
    "exit codes: 0 all responses were as expected, 1 errors, 2 wrong usage\n";

// Options that do not apply to chat completions, with the reasons.
constexpr NotHere kNotForChat[] = {
    {"--model-version", "OpenAI's API has no versions"},
    {"--batch-size", "a request has one conversation"},
    {"--connections", "each request in flight has a connection"},
    {"--shape", "a request has no tensors"},
    {"--datatype", "a request has no tensors"},
    {"--validate", "texts are not compared"},
    {"--input-tensor-format", "a request has no tensors"},
    {"--output-tensor-format", "a request has no tensors"},
    {"--shared-memory", "a request has no tensors"},
    {"--output-shared-memory-size", "a request has no tensors"},
    {"--sequence-length", "requests form no sequences"},
    {"--sequence-length-variation", "requests form no sequences"},
    {"--num-of-sequences", "requests form no sequences"},
    {"--start-sequence-id", "requests form no sequences"},
    {"--sequence-id-range", "requests form no sequences"},
    {"--streaming", "answers are always streamed; leave it out"},
    {"--responses", "a stream has a mark at its end"},
};

bool Refused(int argc, const char* const* argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view name = std::string_view(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    const auto found = std::ranges::find(kNotHere, name, &NotHere::name);
    if (found == std::end(kNotHere)) continue;
    std::cerr << "braid bench: " << name << " is not supported: " << found->instead << '\n';
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
    return InvalidArgumentError("invalid range '" + text + "', expected START:END:STEP: " + why);
  };
  std::vector<double> numbers;
  for (size_t at = 0; at <= text.size();) {
    const size_t colon = std::min(text.find(':', at), text.size());
    double number = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + colon, number);
    if (error != std::errc() || end != text.data() + colon || !(number > 0) || number > 1e7) {
      return refuse("the numbers must be above 0");
    }
    numbers.push_back(number);
    at = colon + 1;
  }
  if (numbers.size() > 3) return refuse("at most three numbers are allowed");
  Range range;
  range.start = numbers[0];
  range.end = numbers.size() > 1 ? numbers[1] : range.start;
  range.step = numbers.size() > 2 ? numbers[2] : 1;
  if (range.end < range.start) return refuse("END is below START");
  if ((range.end - range.start) / range.step >= static_cast<double>(kMostValues))
    return refuse("too many steps");
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

  CLI::App app("Measures the throughput and latency of a model on a running server.", "braid bench");
  app.footer(kFooter);
  app.add_option("-m,--model", options.model, "name of the model")->required();
  app.add_option("-x,--model-version", options.version,
                 "version of the model; by default the server chooses");
  app.add_option("-b,--batch-size", options.batch, "samples in each request")->check(CLI::Range(1, 1 << 20));
  options.connect.AddTo(app, true);
  app.add_option("--compare", options.compare_url,
                 "HOST:PORT of a second server, to measure both in turn and compare them")
      ->group("Server");
  app.add_option("--rounds", options.rounds, "measurements of each server in a comparison")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->group("Server");

  const std::string load = "Load";
  app.add_option("--concurrency-range", concurrency,
                 "START:END:STEP requests in flight; a response starts the next request (1)")
      ->group(load);
  app.add_option("--request-rate-range", rates,
                 "START:END:STEP requests per second, sent without waiting for earlier ones")
      ->group(load)
      ->excludes("--concurrency-range");
  app.add_option("--request-distribution", distribution, "their arrivals: constant or poisson (random)")
      ->check(CLI::IsMember({"constant", "poisson"}))
      ->group(load);
  app.add_option("--max-in-flight", options.max_in_flight,
                 "with a rate: limit of requests in flight; others wait, and their latency includes the wait")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->group(load);
  app.add_option("--max-threads", options.max_threads, "sending threads; by default half the number of cores")
      ->check(CLI::Range(1, 256))
      ->group(load);
  app.add_option("--connections", options.connections,
                 "with -i grpc: connections of each thread, shared by requests")
      ->check(CLI::Range(1, 4096))
      ->group(load);

  const std::string measurement = "Measurement";
  app.add_option("-p,--measurement-interval", interval_ms, "milliseconds of a measurement")
      ->check(CLI::Range(10.0, 86400000.0))
      ->capture_default_str()
      ->group(measurement);
  app.add_option("--measurement-mode", mode,
                 "time_windows, or count_windows: a measurement ends after --measurement-request-count")
      ->check(CLI::IsMember({"time_windows", "count_windows"}))
      ->group(measurement);
  app.add_option("--measurement-request-count", options.window_requests,
                 "requests of a measurement in mode count_windows")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str()
      ->group(measurement);
  app.add_option("-s,--stability-percentage", options.stability_percent,
                 "measure until three measurements in a row differ from their mean by at most this")
      ->check(CLI::Range(0.1, 1000.0))
      ->capture_default_str()
      ->group(measurement);
  app.add_option("-r,--max-trials", options.max_trials,
                 "limit of measurements for each load; 1: a single one")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str()
      ->group(measurement);
  app.add_option("--percentile", options.percentile,
                 "use this percentile for stability and threshold, instead of the mean")
      ->check(CLI::Range(1, 99))
      ->group(measurement);
  app.add_option("-l,--latency-threshold", options.latency_threshold_ms,
                 "milliseconds: a sweep ends at a load with a higher latency")
      ->check(CLI::PositiveNumber)
      ->group(measurement);
  app.add_option("--request-count", options.request_count,
                 "send this number of requests for each load, instead of measuring by time")
      ->check(CLI::Range(1, 1 << 30))
      ->group(measurement);
  app.add_option("--warmup-request-count", options.warmup_requests,
                 "requests before the measurements of each load")
      ->check(CLI::Range(1, 1 << 30))
      ->group(measurement);

  const std::string data = "Data";
  app.add_option(
         "--input-data", options.input_data,
         "random, zero, a data file FILE.json, or a folder with a file for each input; files are repeatable. "
         "With -i openai: random, or a file of the requests' fields")
      ->group(data);
  app.add_option("--shape", shapes,
                 "NAME:1,2: the shape of an input with open dimensions, without the batch; repeatable")
      ->group(data);
  app.add_option(
         "--datatype", options.datatypes,
         "NAME:FP32: the datatype of an input without one in the metadata, such as a graph's; repeatable")
      ->group(data);
  app.add_option("--string-length", options.data.fill.string_length, "length of random strings")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str()
      ->group(data);
  app.add_option("--string-data", options.data.fill.string_data, "this string instead of random ones")
      ->group(data);
  app.add_option("--random-seed", options.seed, "seed of random values and arrivals")->group(data);
  app.add_flag("--validate", options.validate,
               "fail if the data has no outputs to compare (\"validation_data\")")
      ->group(data);
  app.add_option("--request-parameter", parameters,
                 "NAME:VALUE:TYPE or NAME=VALUE for each request; with -i openai a field; repeatable")
      ->group(data);
  app.add_option("--input-tensor-format", input_format, "with -i http: binary or json")
      ->check(CLI::IsMember({"binary", "json"}))
      ->group(data);
  app.add_option("--output-tensor-format", output_format, "with -i http: binary or json")
      ->check(CLI::IsMember({"binary", "json"}))
      ->group(data);
  app.add_option("--shared-memory", shared, "none, or system: tensors in shared memory, for a local server")
      ->check(CLI::IsMember({"none", "system"}))
      ->group(data);
  app.add_option("--output-shared-memory-size", options.output_bytes, "bytes for an output of unknown size")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str()
      ->group(data);

  const std::string sequences = "Sequences and streams";
  const auto sequence = [&](const std::string&) { sequence_asked = true; };
  app.add_option("--sequence-length", options.sequences.length,
                 "requests of a sequence; overrides the lengths of the streams in a data file")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->each(sequence)
      ->group(sequences);
  app.add_option("--sequence-length-variation", options.sequences.variation,
                 "percent of random variation in length")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str()
      ->each(sequence)
      ->group(sequences);
  app.add_option("--num-of-sequences", options.sequence_count,
                 "with a rate: number of concurrent sequences; otherwise the concurrency")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->each(sequence)
      ->group(sequences);
  app.add_option("--start-sequence-id", options.sequences.first_id, "the first sequence id")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 62))
      ->capture_default_str()
      ->each(sequence)
      ->group(sequences);
  app.add_option("--sequence-id-range", ids, "START:END: ids from START to END - 1, in turn")
      ->each(sequence)
      ->group(sequences)
      ->excludes("--start-sequence-id");
  app.add_flag("--streaming", options.streaming,
               "with -i grpc: a stream (ModelStreamInfer) for each request in flight")
      ->group(sequences);
  app.add_option("--responses", options.responses,
                 "responses of a stream to one request; by default one, or for decoupled models all up to "
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
        return refuse("--concurrency-range: expected whole numbers up to 65536");
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
  if (options.chat()) {
    for (const NotHere& each : kNotForChat) {
      if (app.count(std::string(each.name)) > 0)
        return refuse(std::string(each.name) + " does not apply to -i openai: " + std::string(each.instead));
    }
    if (std::ranges::find(options.input_data, "zero") != options.input_data.end())
      return refuse("--input-data zero does not apply to -i openai: a message needs a text");
  }
  options.data.batch = options.batch;
  options.data.note = NotesOf("braid bench");
  const bool grpc = options.connect.protocol == "grpc";
  if (options.streaming && !grpc)
    return refuse("--streaming needs gRPC: add -i grpc, and set its port with -u");
  if (options.responses > 0 && !options.streaming) return refuse("--responses needs --streaming");
  if (options.connections > 1 && !grpc)
    return refuse("--connections needs -i grpc; over HTTP each request in flight has a connection");
  if (grpc && (app.count("--input-tensor-format") > 0 || app.count("--output-tensor-format") > 0)) {
    return refuse("--input-tensor-format and --output-tensor-format need -i http; gRPC sends bytes");
  }
  if (options.sequences.length > 0 && app.count("--sequence-length") > 0)
    options.sequences.length_given = true;
  options.sequences.enabled = sequence_asked;
  if (!ids.empty()) {
    const Result<Range> range = ParseRange(ids);
    if (!range.ok() || range->end <= range->start)
      return refuse("--sequence-id-range must have the form START:END");
    options.sequences.first_id = static_cast<uint64_t>(range->start);
    options.sequences.ids = static_cast<uint64_t>(range->end - range->start);
  }
  if (options.shared_memory && options.sequences.enabled) {
    return refuse("--shared-memory does not support sequences");
  }
  if (options.count_windows && app.count("--request-count") > 0) {
    return refuse("--request-count cannot be combined with count_windows; use --measurement-request-count");
  }
  return std::nullopt;
}

}  // namespace braid::load
