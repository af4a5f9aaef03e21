// Text, JSON and CSV reports of `braid bench`.
#include <spdlog/fmt/fmt.h>

#include "base/json.h"
#include "base/utf8.h"
#include "load/bench.h"

namespace braid::load {
namespace {

double PerRequestUs(uint64_t ns, uint64_t requests) {
  return requests == 0 ? 0 : static_cast<double>(ns) / 1000 / static_cast<double>(requests);
}

std::string LoadName(const BenchOptions& options) { return options.open_load() ? "rate" : "concurrency"; }

// A response of a chat completion's stream is a token.
std::string ResponseName(const BenchOptions& options) { return options.chat() ? "token" : "response"; }

// Returns the measurements of both servers as one list.
std::vector<std::pair<std::string, const Level*>> AllLevels(const BenchResult& result) {
  std::vector<std::pair<std::string, const Level*>> levels;
  for (const Level& level : result.levels) levels.emplace_back("", &level);
  for (const Comparison& comparison : result.comparisons) {
    levels.emplace_back("first", &comparison.first);
    levels.emplace_back("second", &comparison.second);
  }
  return levels;
}

Json LatencyJson(const Latency& latency) {
  Json json = {{"mean", latency.mean_us},
               {"deviation", latency.deviation_us},
               {"min", latency.min_us},
               {"max", latency.max_us}};
  for (const auto& [percentile, us] : latency.percentiles_us) json["p" + std::to_string(percentile)] = us;
  return json;
}

Json LevelJson(const BenchOptions& options, const Level& level) {
  const Figures& figures = level.figures;
  Json json = {{LoadName(options), level.load},
               {"seconds", figures.seconds},
               {"measurements", level.trials},
               {"stable", level.stable},
               {"requests", figures.requests},
               {"requests_per_s", figures.requests_per_s},
               {"inferences_per_s", figures.inferences_per_s},
               {"latency_us", LatencyJson(figures.latency)},
               {"failed", figures.failed},
               {"timed_out", figures.timed_out},
               {"errors", figures.errors},
               {"megabytes_sent_per_s", figures.megabytes_sent_per_s},
               {"megabytes_received_per_s", figures.megabytes_received_per_s}};
  if (options.open_load()) json["rate_held"] = level.rate_held;
  if (figures.first_response) {
    json[ResponseName(options) + "s_per_s"] = figures.responses_per_s;
    json["first_" + ResponseName(options) + "_us"] = LatencyJson(*figures.first_response);
  }
  if (figures.between_responses)
    json["between_" + ResponseName(options) + "s_us"] = LatencyJson(*figures.between_responses);
  if (figures.server) {
    const ServerStatistics& server = *figures.server;
    json["server"] = {{"requests", server.requests},
                      {"failures", server.failures},
                      {"inferences", server.inferences},
                      {"executions", server.executions},
                      {"request_us", PerRequestUs(server.request_ns, server.requests)},
                      {"queue_us", PerRequestUs(server.queue_ns, server.requests)},
                      {"compute_input_us", PerRequestUs(server.input_ns, server.requests)},
                      {"compute_infer_us", PerRequestUs(server.infer_ns, server.requests)},
                      {"compute_output_us", PerRequestUs(server.output_ns, server.requests)}};
  }
  return json;
}

Json RatiosJson(const Ratios& ratios) {
  return {{"median", ratios.median}, {"least", ratios.least}, {"greatest", ratios.greatest}};
}

// Formats a CSV cell.
std::string Cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string LatencyRow(const std::string& name, const Latency& latency) {
  return fmt::format("{:>12}  {:>37.0f} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f}\n", name, latency.mean_us,
                     latency.at(50), latency.at(90), latency.at(95), latency.at(99));
}

}  // namespace

std::string TextReport(const BenchOptions& options, const BenchResult& result) {
  const Environment& environment = result.environment;
  std::string text = fmt::format("\n{}{} at {}, {}{}\n\n", environment.model,
                                 environment.platform.empty() ? "" : " (" + environment.platform + ")",
                                 options.connect.url.empty() ? "localhost" : options.connect.url,
                                 options.connect.protocol, options.streaming ? ", streams" : "");
  text += fmt::format("{:>12} {:>12} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", LoadName(options),
                      "infer/s", "requests", "mean us", "p50", "p90", "p95", "p99",
                      options.percentile > 0 ? fmt::format("p{}", options.percentile) : "max");
  for (const auto& [name, level] : AllLevels(result)) {
    const Latency& latency = level->figures.latency;
    text += fmt::format("{:>12} {:>12.1f} {:>10} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f}{}{}\n",
                        fmt::format("{}{:g}", name.empty() ? "" : name + " ", level->load),
                        level->figures.inferences_per_s, level->figures.requests, latency.mean_us,
                        latency.at(50), latency.at(90), latency.at(95), latency.at(99),
                        options.percentile > 0 ? latency.at(options.percentile) : latency.max_us,
                        level->stable ? "" : "  not stable", level->rate_held ? "" : "  rate not held");
    if (options.chat()) text += fmt::format("{:>12} {:>12.1f}\n", "tokens/s", level->figures.responses_per_s);
    if (level->figures.first_response)
      text += LatencyRow(options.chat() ? "first token" : "first resp.", *level->figures.first_response);
    if (level->figures.between_responses) text += LatencyRow("between", *level->figures.between_responses);
  }
  bool server = false;
  for (const auto& [name, level] : AllLevels(result)) server = server || level->figures.server;
  if (server) {
    text += fmt::format("\nserver, us a request:\n{:>12} {:>12} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
                        LoadName(options), "requests", "executions", "total", "queue", "input", "infer",
                        "output");
    for (const auto& [name, level] : AllLevels(result)) {
      if (!level->figures.server) continue;
      const ServerStatistics& own = *level->figures.server;
      text +=
          fmt::format("{:>12} {:>12} {:>10} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f}\n",
                      fmt::format("{}{:g}", name.empty() ? "" : name + " ", level->load), own.requests,
                      own.executions, PerRequestUs(own.request_ns, own.requests),
                      PerRequestUs(own.queue_ns, own.requests), PerRequestUs(own.input_ns, own.requests),
                      PerRequestUs(own.infer_ns, own.requests), PerRequestUs(own.output_ns, own.requests));
    }
  }
  if (!result.comparisons.empty()) {
    text += fmt::format(
        "\nsecond relative to first, median of {} rounds (least to greatest):\n{:>12} {:>24} {:>24} {:>24}\n",
        result.comparisons.front().first.trials, LoadName(options), "throughput", "p50", "p99");
    const auto show = [](const Ratios& ratios) {
      return fmt::format("x{:.3f} ({:.3f} to {:.3f})", ratios.median, ratios.least, ratios.greatest);
    };
    for (const Comparison& comparison : result.comparisons) {
      text += fmt::format("{:>12g} {:>24} {:>24} {:>24}\n", comparison.load, show(comparison.throughput),
                          show(comparison.p50), show(comparison.p99));
    }
  }
  std::map<std::string, uint64_t> errors;
  for (const auto& [name, level] : AllLevels(result)) {
    for (const auto& [message, count] : level->figures.errors) errors[message] += count;
  }
  if (!errors.empty()) text += "\nerrors:\n";
  for (const auto& [message, count] : errors) text += fmt::format("{:>12} x {}\n", count, ToUtf8(message));
  if (result.interrupted) text += "\ninterrupted: results so far\n";
  return text;
}

std::string JsonReport(const BenchOptions& options, const BenchResult& result) {
  Json json = {{"model", result.environment.model},     {"url", options.connect.url},
               {"protocol", options.connect.protocol},  {"batch_size", options.batch},
               {"server", result.environment.server},   {"date", result.environment.date},
               {"machine", result.environment.machine}, {"interrupted", result.interrupted}};
  if (result.comparisons.empty()) {
    json["measurements"] = Json::array();
    for (const Level& level : result.levels) json["measurements"].push_back(LevelJson(options, level));
  } else {
    json["second_url"] = options.compare_url;
    json["second_server"] = result.environment.second_server;
    json["comparisons"] = Json::array();
    for (const Comparison& comparison : result.comparisons) {
      json["comparisons"].push_back({{LoadName(options), comparison.load},
                                     {"throughput", RatiosJson(comparison.throughput)},
                                     {"p50", RatiosJson(comparison.p50)},
                                     {"p99", RatiosJson(comparison.p99)},
                                     {"first", LevelJson(options, comparison.first)},
                                     {"second", LevelJson(options, comparison.second)}});
    }
  }
  return DumpJson(json) + "\n";
}

std::string CsvReport(const BenchOptions& options, const BenchResult& result) {
  std::string text = result.comparisons.empty() ? "" : "Server,";
  text += options.open_load() ? "Request Rate" : "Concurrency";
  text +=
      ",Inferences/Second,Requests,Errors,Server Queue,Server Compute Input,Server Compute Infer,Server "
      "Compute Output,"
      "Avg latency,p50 latency,p90 latency,p95 latency,p99 latency,Avg first response,p99 first response,"
      "Avg inter-response,p99 inter-response";
  text += options.chat() ? ",p50 first response,p90 first response,Tokens/Second\n" : "\n";
  for (const auto& [name, level] : AllLevels(result)) {
    const Figures& figures = level->figures;
    if (!name.empty()) text += Cell(name == "first" ? options.connect.url : options.compare_url) + ",";
    text += fmt::format("{:g},{:.2f},{},{},", level->load, figures.inferences_per_s, figures.requests,
                        figures.failed);
    if (figures.server) {
      const ServerStatistics& own = *figures.server;
      text += fmt::format("{:.1f},{:.1f},{:.1f},{:.1f},", PerRequestUs(own.queue_ns, own.requests),
                          PerRequestUs(own.input_ns, own.requests), PerRequestUs(own.infer_ns, own.requests),
                          PerRequestUs(own.output_ns, own.requests));
    } else {
      text += ",,,,";
    }
    text +=
        fmt::format("{:.1f},{:.1f},{:.1f},{:.1f},{:.1f},", figures.latency.mean_us, figures.latency.at(50),
                    figures.latency.at(90), figures.latency.at(95), figures.latency.at(99));
    for (const auto* times : {&figures.first_response, &figures.between_responses}) {
      const bool last = times == &figures.between_responses;
      text += *times ? fmt::format("{:.1f},{:.1f}", (*times)->mean_us, (*times)->at(99)) : ",";
      if (!last) text += ",";
    }
    if (options.chat()) {
      const Latency first = figures.first_response.value_or(Latency());
      text += fmt::format(",{:.1f},{:.1f},{:.1f}", first.at(50), first.at(90), figures.responses_per_s);
    }
    text += "\n";
  }
  return text;
}

}  // namespace braid::load
