#include "isolation/isolation_level.h"

#include <spdlog/fmt/fmt.h>

#include <array>

namespace braid {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"none", "basic", "strict", "separate"};

}  // namespace

std::string_view IsolationLevelName(IsolationLevel level) { return kNames.at(static_cast<size_t>(level)); }

Result<IsolationLevel> ParseIsolationLevel(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames.at(i) == name) return static_cast<IsolationLevel>(i);
  }
  return InvalidArgumentError(
      fmt::format("unknown isolation level '{}'; expected none, basic, strict or separate", name));
}

}  // namespace braid
