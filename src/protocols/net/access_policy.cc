#include "protocols/net/access_policy.h"

#include <vector>

namespace braid {
namespace {

std::optional<Api> ApiFromName(std::string_view name) {
  for (int i = 0; i < kApiCount; ++i) {
    if (ApiName(static_cast<Api>(i)) == name) return static_cast<Api>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view ApiName(Api api) {
  switch (api) {
    case Api::kHealth:
      return "health";
    case Api::kMetadata:
      return "metadata";
    case Api::kInference:
      return "inference";
    case Api::kSharedMemory:
      return "shared-memory";
    case Api::kModelConfig:
      return "model-config";
    case Api::kModelRepository:
      return "model-repository";
    case Api::kStatistics:
      return "statistics";
    case Api::kTrace:
      return "trace";
    case Api::kLogging:
      return "logging";
    case Api::kReflection:
      return "reflection";
    case Api::kMetrics:
      return "metrics";
  }
  return "";
}

Status AccessPolicy::AddRestriction(std::string_view flag_value, std::string_view what) {
  const std::string kind = "restricted " + std::string(what);
  const size_t colon = flag_value.find(':');
  const size_t equals = colon == std::string_view::npos ? colon : flag_value.find('=', colon + 1);
  if (equals == std::string_view::npos || equals == colon + 1 || equals + 1 == flag_value.size()) {
    return InvalidArgumentError("a " + kind + " must have the form '{" + std::string(what) +
                                "},...:{key}={value}'");
  }
  Restriction restriction{std::string(flag_value.substr(colon + 1, equals - colon - 1)),
                          std::string(flag_value.substr(equals + 1))};
  // The whole flag is checked before any of it is taken.
  auto changed = restrictions_;
  std::string_view names = flag_value.substr(0, colon);
  while (true) {
    const size_t comma = names.find(',');
    const std::string_view name = names.substr(0, comma);
    const std::optional<Api> api = ApiFromName(name);
    if (!api) return InvalidArgumentError("unknown " + kind + " '" + std::string(name) + "'");
    auto& entry = changed[static_cast<size_t>(*api)];
    if (entry) {
      return InvalidArgumentError(kind + " '" + std::string(name) +
                                  "' can not be specified in multiple config groups");
    }
    entry = restriction;
    if (comma == std::string_view::npos) break;
    names.remove_prefix(comma + 1);
  }
  restrictions_ = std::move(changed);
  return OkStatus();
}

const AccessPolicy::Restriction* AccessPolicy::restriction(Api api) const {
  const auto& entry = restrictions_[static_cast<size_t>(api)];
  return entry ? &*entry : nullptr;
}

bool AccessPolicy::SameSecret(std::string_view a, std::string_view b) {
  // The length of the secret is not what is hidden; every character is looked at whatever came before it.
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  }
  return difference == 0;
}

}  // namespace braid
