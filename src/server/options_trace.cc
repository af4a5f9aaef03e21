#include "server/options_trace.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <limits>

namespace braid {
namespace {

template <class T>
Status SetNumber(std::string_view key, std::string_view text, T low, T& to) {
  T number{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < low) {
    return InvalidArgumentError(fmt::format("{}: '{}' is not a whole number from {} to {}", key, text, low,
                                            std::numeric_limits<T>::max()));
  }
  to = number;
  return OkStatus();
}

Status SetLevel(TraceSettings& settings, std::string_view level) {
  if (level == "OFF") {
    settings.timestamps = settings.tensors = false;
  } else if (level == "TIMESTAMPS") {
    settings.timestamps = true;
  } else if (level == "TENSORS") {
    settings.tensors = true;
  } else {
    return InvalidArgumentError(fmt::format("level: '{}' is not one of OFF, TIMESTAMPS, TENSORS", level));
  }
  return OkStatus();
}

Status SetOfAll(TraceSettings& settings, std::string_view key, std::string_view value) {
  if (key == "mode") {
    if (value != "triton" && value != "opentelemetry") {
      return InvalidArgumentError(fmt::format("mode: '{}' is not one of triton, opentelemetry", value));
    }
    settings.mode = value;
    return OkStatus();
  }
  if (key == "level") return SetLevel(settings, value);
  if (key == "rate") return SetNumber<uint32_t>(key, value, 0, settings.rate);
  if (key == "count") return SetNumber<int64_t>(key, value, -1, settings.count);
  return InvalidArgumentError(fmt::format("'{}' is not one of mode, level, rate, count", key));
}

Status SetOfTriton(TraceSettings& settings, std::string_view key, std::string_view value) {
  if (key == "file") {
    settings.file = value;
    return OkStatus();
  }
  if (key == "log-frequency") return SetNumber<uint32_t>(key, value, 0, settings.log_frequency);
  return InvalidArgumentError(fmt::format("triton: '{}' is not one of file, log-frequency", key));
}

Status SetOfOpenTelemetry(TraceOptions& trace, std::string_view key, std::string_view value) {
  if (key == "url") {
    BRAID_RETURN_IF_ERROR(ParseCollectorUrl(value).status());
    trace.url = value;
    return OkStatus();
  }
  if (key == "resource") {
    const size_t equals = value.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return InvalidArgumentError(fmt::format("resource: '{}' must have the form NAME=VALUE", value));
    }
    trace.resource.emplace_back(value.substr(0, equals), value.substr(equals + 1));
    return OkStatus();
  }
  if (key == "bsp_max_queue_size") return SetNumber<int64_t>(key, value, 1, trace.max_queue_size);
  if (key == "bsp_max_export_batch_size") {
    return SetNumber<int64_t>(key, value, 1, trace.max_export_batch_size);
  }
  if (key == "bsp_schedule_delay") {
    BRAID_RETURN_IF_ERROR(SetNumber<int64_t>(key, value, 0, trace.schedule_delay_ms));
    if (trace.schedule_delay_ms > 3'600'000) {
      return InvalidArgumentError("bsp_schedule_delay: exceeds one hour (3600000)");
    }
    return OkStatus();
  }
  return InvalidArgumentError(
      fmt::format("opentelemetry: '{}' is not one of url, resource, bsp_max_queue_size, "
                  "bsp_max_export_batch_size, bsp_schedule_delay",
                  key));
}

}  // namespace

Status SetTraceConfig(ServerOptions& options, std::string_view text) {
  const std::string_view whole = text;
  std::string_view mode;
  size_t equals = text.find('=');
  if (const size_t comma = text.find(','); comma < equals) {
    mode = text.substr(0, comma);
    text.remove_prefix(comma + 1);
    equals = text.find('=');
  }
  if (equals == std::string_view::npos || equals == 0) {
    return InvalidArgumentError(fmt::format("'{}' must have the form KEY=VALUE or MODE,KEY=VALUE", whole));
  }
  const std::string_view key = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  if (mode.empty()) return SetOfAll(options.trace.settings, key, value);
  if (mode == "triton") return SetOfTriton(options.trace.settings, key, value);
  if (mode == "opentelemetry") return SetOfOpenTelemetry(options.trace, key, value);
  return InvalidArgumentError(fmt::format("'{}' is not one of the modes triton, opentelemetry", mode));
}

std::string ShowTraceConfig(const ServerOptions& options) {
  const TraceOptions& trace = options.trace;
  if (trace.settings.mode == "triton") return "mode=triton";
  std::string text = fmt::format("mode=opentelemetry opentelemetry,url={}", trace.url);
  for (const auto& [name, value] : trace.resource) {
    text += fmt::format(" opentelemetry,resource={}={}", name, value);
  }
  return text;
}

std::string ShowTraceFile(const ServerOptions& options) { return options.trace.settings.file; }
std::string ShowTraceLevel(const ServerOptions& options) {
  return fmt::format("{}", fmt::join(options.trace.settings.levels(), ","));
}
std::string ShowTraceRate(const ServerOptions& options) {
  return std::to_string(options.trace.settings.rate);
}
std::string ShowTraceCount(const ServerOptions& options) {
  return std::to_string(options.trace.settings.count);
}
std::string ShowTraceLogFrequency(const ServerOptions& options) {
  return std::to_string(options.trace.settings.log_frequency);
}

}  // namespace braid
