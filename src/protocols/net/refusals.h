// Refusals: how often each limit has bitten, for metrics, and a line in the log when one begins to.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/episode.h"
#include "base/log.h"

namespace braid {

// What refuses clients.
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
  kHttp2,  // what the protocol forbids, or floods
};
inline constexpr size_t kLimitCount = 13;

// The name of the option that sets it; "http2" for kHttp2, which has none.
std::string_view LimitName(Limit limit);

class Refusals {
 public:
  // `log` may be null, and is not used once the server's ports are closed.
  explicit Refusals(Logger* log) : log_(log) {}

  // Any thread. `what` is for the log.
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
