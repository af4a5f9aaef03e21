#include "protocols/net/refusals.h"

namespace braid {

std::string_view LimitName(Limit limit) {
  constexpr std::array<std::string_view, kLimitCount> kNames = {"max-connections",
                                                                "max-connections-per-address",
                                                                "memory-max-bytes",
                                                                "model-max-queued-bytes",
                                                                "request-body-timeout-ms",
                                                                "max-header-fields",
                                                                "http-max-input-size",
                                                                "http-max-header-size",
                                                                "grpc-max-input-size",
                                                                "grpc-max-metadata-size",
                                                                "grpc-max-concurrent-streams",
                                                                "grpc-max-resets-per-second",
                                                                "http2"};
  return kNames[static_cast<size_t>(limit)];
}

void Refusals::Count(Limit limit, std::string_view what) {
  Counted& counted = limits_[static_cast<size_t>(limit)];
  counted.count.fetch_add(1, std::memory_order_relaxed);
  if (!counted.episode.Goes() || log_ == nullptr) return;
  BRAID_LOG_WARNING(*log_, "refusing clients that exceed the limit {}{}: {}",
                    limit == Limit::kHttp2 ? "of " : "--", LimitName(limit), EscapeForLog(what));
}

}  // namespace braid
