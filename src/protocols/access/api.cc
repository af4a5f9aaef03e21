#include "protocols/access/api.h"

#include <array>

namespace braid {
namespace {

constexpr std::array<std::string_view, kApiCount> kNames = {
    "health",     "metadata", "inference", "shared-memory", "model-config", "model-repository",
    "statistics", "trace",    "logging",   "reflection",    "metrics"};

}  // namespace

std::string_view ApiName(Api api) { return kNames[static_cast<size_t>(api)]; }

std::optional<Api> ApiFromName(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Api>(i);
  }
  return std::nullopt;
}

}  // namespace braid
