#include "backends/python/model_bounds.h"

#include <charconv>
#include <limits>
#include <string>

#include <spdlog/fmt/fmt.h>

#include "model_config.pb.h"

namespace braid {
namespace {

// Leaves `value` unchanged if the configuration has no such parameter.
template <class T>
FieldFault TakeNumber(const inference::ModelConfig& config, const char* name, T most, T& value) {
  const auto found = config.parameters().find(name);
  if (found == config.parameters().end()) return {};
  const std::string& text = found->second.string_value();
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > most) {
    return {InvalidArgumentError(fmt::format(
                "parameter {} of model '{}' is '{}'; expected a whole number from 0 (no limit) to {}", name,
                config.name(), text, most)),
            fmt::format("parameters[{}].value.string_value", name)};
  }
  value = number;
  return {};
}

FieldFault TakeSharing(const inference::ModelConfig& config, ShareInstances& share) {
  const auto found = config.parameters().find("SHARE_INSTANCES");
  if (found == config.parameters().end()) return {};
  const std::string& text = found->second.string_value();
  if (text == "off") {
    share = ShareInstances::kOff;
  } else if (text == "auto") {
    share = ShareInstances::kAuto;
  } else if (text == "on") {
    share = ShareInstances::kOn;
  } else {
    return {InvalidArgumentError(
                fmt::format("parameter SHARE_INSTANCES of model '{}' is '{}'; expected off, auto or on",
                            config.name(), text)),
            "parameters[SHARE_INSTANCES].value.string_value"};
  }
  return {};
}

}  // namespace

FieldFault ReadBounds(const inference::ModelConfig& config, ModelBounds& bounds) {
  constexpr int64_t kMostMs = ModelBounds::kMostMs;
  BRAID_RETURN_IF_FAULT(TakeNumber(config, "EXECUTE_TIMEOUT_MS", kMostMs, bounds.execute_timeout_ms));
  BRAID_RETURN_IF_FAULT(TakeNumber(config, "INITIALIZE_TIMEOUT_MS", kMostMs, bounds.initialize_timeout_ms));
  BRAID_RETURN_IF_FAULT(TakeNumber(config, "FINALIZE_TIMEOUT_MS", kMostMs, bounds.finalize_timeout_ms));
  BRAID_RETURN_IF_FAULT(TakeNumber(config, "WORKER_MEMORY_MAX_BYTES", std::numeric_limits<uint64_t>::max(),
                                   bounds.memory_max_bytes));
  return TakeSharing(config, bounds.share_instances);
}

}  // namespace braid
