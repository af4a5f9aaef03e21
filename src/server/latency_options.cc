#include "server/latency_options.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <cmath>

#include "model_config.pb.h"

namespace braid {
namespace {

constexpr std::string_view kFirstResponse = "nv_inference_first_response_histogram_ms";
constexpr size_t kMostQuantiles = 100;

bool ParseShare(std::string_view text, double& share) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  return error == std::errc() && end == text.data() + text.size() && share >= 0 && share <= 1;
}

}  // namespace

Result<LatencyOptions> LatencyOptionsFor(const ServableInfo& info, const ServerOptions& options,
                                         Logger& log) {
  LatencyOptions latency;
  if (options.summary_latencies) latency.quantiles = options.summary_quantiles;
  if (options.histogram_latencies) latency.first_response_bounds_ms = {100, 500, 2000, 5000};
  latency.one_response = !info.decoupled;
  if (info.config == nullptr) return latency;
  for (const auto& control : info.config->model_metrics().metric_control()) {
    const std::string& family = control.metric_identifier().family();
    if (family != kFirstResponse) {
      BRAID_LOG_WARNING(log, "model_metrics of model '{}': metric family '{}' has no options, only '{}' has",
                        info.name, family, kFirstResponse);
      continue;
    }
    if (control.histogram_options().buckets().empty()) {
      return InvalidArgumentError(fmt::format(
          "model_metrics of model '{}': histogram_options of metric family '{}' must list 'buckets'",
          info.name, family));
    }
    const auto& buckets = control.histogram_options().buckets();
    for (int i = 0; i < buckets.size(); ++i) {
      if (!std::isfinite(buckets[i]) || (i > 0 && buckets[i] <= buckets[i - 1])) {
        return InvalidArgumentError(fmt::format(
            "model_metrics of model '{}': histogram buckets must be finite and strictly ascending",
            info.name));
      }
    }
    if (options.histogram_latencies) {
      latency.first_response_bounds_ms.assign(buckets.begin(), buckets.end());
    }
  }
  return latency;
}

Result<std::vector<std::pair<double, double>>> ParseQuantiles(std::string_view text) {
  std::vector<std::pair<double, double>> quantiles;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t colon = part.find(':');
    double quantile = 0;
    double error = 0;
    if (colon == std::string_view::npos || !ParseShare(part.substr(0, colon), quantile) ||
        !ParseShare(part.substr(colon + 1), error) || quantiles.size() >= kMostQuantiles) {
      return InvalidArgumentError(
          fmt::format("'{}' must have the form QUANTILE:ERROR, both from 0 to 1", part));
    }
    quantiles.emplace_back(quantile, error);
  }
  if (quantiles.empty()) return InvalidArgumentError("expected at least one quantile");
  return quantiles;
}

}  // namespace braid
