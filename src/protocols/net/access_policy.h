// The one gate that every route of every protocol passes: groups of APIs that can be called only
// with a secret in a header (--http-restricted-api, --grpc-restricted-protocol).
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

enum class Api : unsigned char {
  kHealth,
  kMetadata,
  kInference,
  kSharedMemory,
  kModelConfig,
  kModelRepository,
  kStatistics,
  kTrace,
  kLogging,
  kReflection,  // of gRPC alone
  kMetrics,     // of HTTP alone
};
inline constexpr int kApiCount = 11;

// "health", "metadata", "inference", "shared-memory", "model-config", "model-repository", "statistics",
// "trace", "logging", "reflection", "metrics".
std::string_view ApiName(Api api);

class AccessPolicy {
 public:
  // Adds one flag value: "{api}[,{api}...]:{header}={value}". `what` is "api" or "protocol", for the error
  // texts of the contract. Both protocols know all groups, so that one list does for both.
  Status AddRestriction(std::string_view flag_value, std::string_view what);

  struct Restriction {
    std::string header;
    std::string value;
  };
  // Null when the API is open to all. The caller compares with SameSecret.
  const Restriction* restriction(Api api) const;

  // Compares in a time that does not depend on where two texts differ.
  static bool SameSecret(std::string_view a, std::string_view b);

 private:
  std::array<std::optional<Restriction>, kApiCount> restrictions_;
};

}  // namespace braid
