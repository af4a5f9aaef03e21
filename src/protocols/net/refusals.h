// Refusals: counts for metrics how often each limit was exceeded, and logs a line when that begins.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/episode.h"
#include "base/log.h"

namespace braid {

// The limits on clients.
enum class Limit : unsigned char {
  kConnections,
  kConnectionsPerAddress,
  kMemory,
  kModelBytes,
  kBodyTime,
  kHeaderFields,
  kHttpBody,
  kHttpHeader,
  kGrpcMessage,
  kGrpcMetadata,
  kGrpcStreams,
  kGrpcResets,
  kHttp2,  // protocol violations and floods
};
inline constexpr size_t kLimitCount = 13;

// Returns the name of the option that sets the limit; "http2" for kHttp2, which no option sets.
std::string_view LimitName(Limit limit);

class Refusals {
 public:
  // `log` may be null. It is not used once the server's ports are closed.
  explicit Refusals(Logger* log) : log_(log) {}

  // Counts a refusal. `what` describes it in the log. Any thread.
  void Count(Limit limit, std::string_view what);
  uint64_t count(Limit limit) const {
    return limits_[static_cast<size_t>(limit)].count.load(std::memory_order_relaxed);
  }

 private:
  struct Counted {
    std::atomic<uint64_t> count{0};
    Episode episode;
  };

  Logger* const log_;
  std::array<Counted, kLimitCount> limits_;
};

}  // namespace braid
