#include "workers/metric_operations.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <optional>
#include <vector>

#include "base/json.h"

namespace braid {
namespace {

Result<uint64_t> Id(const Json& operation, const char* field) {
  auto found = operation.find(field);
  if (found == operation.end() || !found->is_number_unsigned()) {
    return InvalidArgumentError(std::string("a metric operation without a valid '") + field + "'");
  }
  return found->get<uint64_t>();
}

Result<std::string> Text(const Json& operation, const char* field) {
  auto found = operation.find(field);
  if (found == operation.end() || !found->is_string()) {
    return InvalidArgumentError(std::string("a metric operation without a valid '") + field + "'");
  }
  return found->get<std::string>();
}

Result<double> Number(const Json& operation, const char* field) {
  auto found = operation.find(field);
  if (found != operation.end() && found->is_number()) return found->get<double>();
  if (found != operation.end() && found->is_string()) {
    const std::string& text = found->get_ref<const std::string&>();
    double number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return number;
  }
  return InvalidArgumentError(std::string("a metric operation without a valid '") + field + "'");
}

Result<std::string> CreateFamily(CustomMetrics::Session& session, const Json& operation) {
  BRAID_ASSIGN_OR_RETURN(const std::string name, Text(operation, "name"));
  BRAID_ASSIGN_OR_RETURN(const std::string description, Text(operation, "description"));
  BRAID_ASSIGN_OR_RETURN(const uint64_t kind, Id(operation, "kind"));
  if (kind > static_cast<uint64_t>(MetricKind::kHistogram))
    return InvalidArgumentError("unknown metric kind");
  BRAID_ASSIGN_OR_RETURN(const uint64_t id,
                         session.CreateFamily(name, description, static_cast<MetricKind>(kind)));
  return std::to_string(id);
}

Result<std::string> CreateMetric(CustomMetrics::Session& session, const Json& operation) {
  BRAID_ASSIGN_OR_RETURN(const uint64_t family, Id(operation, "family"));
  MetricLabels labels;
  if (auto found = operation.find("labels"); found != operation.end()) {
    if (!found->is_object()) return InvalidArgumentError("Labels must be a dictionary.");
    for (const auto& [name, value] : found->items()) {
      if (!value.is_string()) return InvalidArgumentError("attempt to access JSON non-string as string");
      labels.emplace(name, value.get<std::string>());
    }
  }
  std::optional<std::vector<double>> bounds;
  if (auto found = operation.find("buckets"); found != operation.end()) {
    if (!found->is_array()) return InvalidArgumentError("Buckets must be a list.");
    bounds.emplace();
    for (const Json& bound : *found) {
      if (!bound.is_number()) return InvalidArgumentError("Buckets must be finite numbers.");
      bounds->push_back(bound.get<double>());
    }
  }
  BRAID_ASSIGN_OR_RETURN(const uint64_t id, session.CreateMetric(family, labels, bounds));
  return std::to_string(id);
}

}  // namespace

Result<std::string> PerformMetricOperation(CustomMetrics::Session& session, std::string_view text) {
  const Json operation = ParseJson(text);
  if (!operation.is_object()) return InvalidArgumentError("a metric operation that is not a JSON object");
  BRAID_ASSIGN_OR_RETURN(const std::string what, Text(operation, "do"));
  if (what == "family") return CreateFamily(session, operation);
  if (what == "metric") return CreateMetric(session, operation);
  if (what == "drop_family") {
    BRAID_ASSIGN_OR_RETURN(const uint64_t family, Id(operation, "family"));
    session.DropFamily(family);
    return std::string();
  }
  BRAID_ASSIGN_OR_RETURN(const uint64_t metric, Id(operation, "metric"));
  if (what == "drop_metric") {
    session.DropMetric(metric);
    return std::string();
  }
  if (what == "value") {
    BRAID_ASSIGN_OR_RETURN(const double value, session.Value(metric));
    return fmt::format("{}", value);
  }
  BRAID_ASSIGN_OR_RETURN(const double value, Number(operation, "value"));
  if (what == "increment") {
    BRAID_RETURN_IF_ERROR(session.Increment(metric, value));
  } else if (what == "set") {
    BRAID_RETURN_IF_ERROR(session.Set(metric, value));
  } else if (what == "observe") {
    BRAID_RETURN_IF_ERROR(session.Observe(metric, value));
  } else {
    return InvalidArgumentError("unknown metric operation '" + what + "'");
  }
  return std::string();
}

}  // namespace braid
