#include "recording.h"

#include <algorithm>

namespace braid::bench {
namespace {

constexpr int64_t kNsPerUnit = 100;
constexpr double kUnitsPerUs = 10;

}  // namespace

void Recording::Success(const Window& window, int64_t begin_ns, int64_t end_ns, uint64_t bytes_sent,
                        uint64_t bytes_received, uint64_t responses) {
  const int64_t window_begin_ns = window.begin_ns.load(std::memory_order_relaxed);
  const int64_t window_end_ns = window.end_ns.load(std::memory_order_relaxed);
  const int64_t within_ns = std::min(end_ns, window_end_ns) - std::max(begin_ns, window_begin_ns);
  if (within_ns > 0) parts_ += static_cast<double>(within_ns) / static_cast<double>(end_ns - begin_ns);
  if (begin_ns < window_begin_ns) return;
  const int64_t last_ns = window.open_load ? begin_ns : end_ns;
  if (last_ns > window_end_ns) return;
  const int64_t units =
      std::min<int64_t>((end_ns - begin_ns) / kNsPerUnit, std::numeric_limits<uint32_t>::max());
  latencies_.push_back(static_cast<uint32_t>(units));
  responses_ += responses;
  bytes_sent_ += bytes_sent;
  bytes_received_ += bytes_received;
}

void Recording::Failure(const std::string& reason) {
  if (errors_++ == 0) first_error_ = reason;
}

void Recording::Unanswered() {
  ++unanswered_;
  Failure("a request was not answered in time");
}

void Recording::Merge(Recording&& other) {
  if (errors_ == 0) first_error_ = std::move(other.first_error_);
  latencies_.insert(latencies_.end(), other.latencies_.begin(), other.latencies_.end());
  parts_ += other.parts_;
  responses_ += other.responses_;
  errors_ += other.errors_;
  unanswered_ += other.unanswered_;
  rate_held_ = rate_held_ && other.rate_held_;
  bytes_sent_ += other.bytes_sent_;
  bytes_received_ += other.bytes_received_;
}

void Recording::Sort() { std::sort(latencies_.begin(), latencies_.end()); }

double Recording::PercentileUs(double fraction) const {
  if (latencies_.empty()) return 0;
  const auto rank = static_cast<size_t>(fraction * static_cast<double>(latencies_.size()));
  return latencies_[std::min(rank, latencies_.size() - 1)] / kUnitsPerUs;
}

double Recording::MeanUs() const {
  if (latencies_.empty()) return 0;
  double sum = 0;
  for (const uint32_t latency : latencies_) sum += latency;
  return sum / kUnitsPerUs / static_cast<double>(latencies_.size());
}

}  // namespace braid::bench
