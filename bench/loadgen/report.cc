#include "report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace braid::bench {

std::string MakeReport(const Options& options, const Recording& recording, const Usage& usage) {
  const double requests = std::max(1.0, static_cast<double>(recording.requests()));
  // Processor time covers a slightly longer time than the requests that are counted.
  const double us_per_request = usage.actual_s > 0 ? 1e6 * usage.window_s / usage.actual_s / requests : 0;
  nlohmann::ordered_json report;
  report["label"] = options.label;
  report["protocol"] = options.protocol_name;
  report["model"] = options.model();
  report["concurrency"] = options.concurrency;
  if (options.rate > 0) {
    report["rate"] = options.rate;
    report["rate_held"] = recording.rate_held();
  }
  report["seconds"] = usage.window_s;
  report["requests"] = recording.requests();
  report["throughput"] = static_cast<double>(recording.requests()) / usage.window_s;
  report["requests_in_parts"] = recording.parts();
  report["responses"] = recording.responses();
  report["responses_per_s"] = static_cast<double>(recording.responses()) / usage.window_s;
  auto& latency = report["latency_us"];
  latency["mean"] = recording.MeanUs();
  latency["min"] = recording.PercentileUs(0);
  latency["p50"] = recording.PercentileUs(0.5);
  latency["p90"] = recording.PercentileUs(0.9);
  latency["p99"] = recording.PercentileUs(0.99);
  latency["p99_9"] = recording.PercentileUs(0.999);
  latency["max"] = recording.PercentileUs(1);
  report["errors"] = recording.errors();
  report["unanswered"] = recording.unanswered();
  report["first_error"] = recording.first_error();
  report["bytes_sent"] = recording.bytes_sent();
  report["bytes_received"] = recording.bytes_received();
  report["client_cpu_us_per_request"] = usage.client_cpu_s * us_per_request;
  if (options.server_pid > 0) {
    report["server_cpu_us_per_request"] = usage.server_cpu_s * us_per_request;
    report["server_cpu_cores"] = usage.actual_s > 0 ? usage.server_cpu_s / usage.actual_s : 0;
    report["server_processes"] = usage.server_processes;
    report["peak_rss_kb"] = usage.server_peak_resident_kb;
    report["peak_pss_kb"] = usage.server_peak_proportional_kb;
  }
  // A server's error text may contain any bytes; invalid UTF-8 is replaced instead of throwing.
  return report.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace braid::bench
