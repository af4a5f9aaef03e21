#include "config/isolated_parts.h"

#include <algorithm>
#include <array>
#include <string>

namespace braid {
namespace {

// Native code that still runs inside the server alone.
constexpr std::array<std::string_view, 3> kNotYet = {"custom-nodes", "calculators", "images"};

}  // namespace

std::string NamesOf(const IsolatedParts& parts) { return parts.openvino ? "openvino" : ""; }

Result<IsolatedParts> ParseIsolatedParts(std::string_view text) {
  IsolatedParts parts;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view name = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    if (name == "openvino") {
      parts.openvino = true;
    } else if (std::find(kNotYet.begin(), kNotYet.end(), name) != kNotYet.end()) {
      return UnsupportedError("'" + std::string(name) + "' cannot be isolated yet; what can be: openvino");
    } else {
      return InvalidArgumentError("'" + std::string(name) + "' is nothing that can be isolated: openvino");
    }
  }
  return parts;
}

Result<bool> IsIsolated(const inference::ModelConfig& config, bool otherwise) {
  const auto found = config.parameters().find(std::string(kIsolateParameter));
  if (found == config.parameters().end()) return otherwise;
  const std::string& value = found->second.string_value();
  if (value == "true") return true;
  if (value == "false") return false;
  return InvalidArgumentError("model '" + config.name() + "': parameter '" + found->first + "' is '" + value +
                              "', expected \"true\" or \"false\"");
}

}  // namespace braid
