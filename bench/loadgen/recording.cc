#include "recording.h"

#include <algorithm>

namespace braid::bench {
namespace {

constexpr int64_t kNsPerUnit = 100;
constexpr double kUnitsPerUs = 10;

}  // namespace

void Recording::Success(const Window& window, int64_t begin_ns, int64_t end_ns, uint64_t bytes_sent,
                        uint64_t bytes_received, uint64_t responses) {
  if (begin_ns < window.begin_ns.load(std::memory_order_relaxed)) return;
  const int64_t last_ns = window.open_load ? begin_ns : end_ns;
  if (last_ns > window.end_ns.load(std::memory_order_relaxed)) return;
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

void Recording::Merge(Recording&& other) {
  if (errors_ == 0) first_error_ = std::move(other.first_error_);
  latencies_.insert(latencies_.end(), other.latencies_.begin(), other.latencies_.end());
  responses_ += other.responses_;
  errors_ += other.errors_;
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
