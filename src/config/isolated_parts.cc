#include "config/isolated_parts.h"

#include <algorithm>
#include <array>
#include <string>

namespace braid {
namespace {

struct Part {
  std::string_view name;
  bool IsolatedParts::*isolated;
};
constexpr std::array kParts = {
    Part{"openvino", &IsolatedParts::openvino}, Part{"custom-nodes", &IsolatedParts::custom_nodes},
    Part{"images", &IsolatedParts::images}, Part{"calculators", &IsolatedParts::calculators}};

}  // namespace

std::string NamesOf(const IsolatedParts& parts) {
  std::string names;
  for (const Part& part : kParts) {
    if (parts.*part.isolated) names.append(names.empty() ? "" : ",").append(part.name);
  }
  return names;
}

Result<IsolatedParts> ParseIsolatedParts(std::string_view text) {
  const std::string known =
      NamesOf({.openvino = true, .custom_nodes = true, .images = true, .calculators = true});
  IsolatedParts parts;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string name(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    const auto part =
        std::find_if(kParts.begin(), kParts.end(), [&](const Part& each) { return each.name == name; });
    if (part == kParts.end()) {
      return InvalidArgumentError("cannot isolate '" + name + "'; expected any of " + known);
    }
    parts.*part->isolated = true;
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
