// Api: a group of methods and routes that is permitted or restricted as a whole, over every protocol.
#pragma once

#include <bitset>
#include <initializer_list>
#include <optional>
#include <string_view>

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
  kReflection,  // gRPC only
  kMetrics,     // HTTP only
};
inline constexpr int kApiCount = 11;

// The API's name in options and files: "health", "metadata", "inference", "shared-memory", "model-config",
// "model-repository", "statistics", "trace", "logging", "reflection" or "metrics".
std::string_view ApiName(Api api);
std::optional<Api> ApiFromName(std::string_view name);

class ApiSet {
 public:
  static ApiSet All() {
    ApiSet all;
    all.set_.set();
    return all;
  }
  static ApiSet Of(std::initializer_list<Api> apis) {
    ApiSet set;
    for (const Api api : apis) set.Add(api);
    return set;
  }
  void Add(Api api) { set_.set(static_cast<size_t>(api)); }
  void Remove(Api api) { set_.reset(static_cast<size_t>(api)); }
  bool Has(Api api) const { return set_.test(static_cast<size_t>(api)); }

 private:
  std::bitset<kApiCount> set_;
};

}  // namespace braid
