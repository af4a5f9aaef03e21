// What a thread of the generator notes down, and the time window that decides what counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace braid::bench {

// Set by the main thread, read by all; steady nanoseconds. Requests run before and after the window, but only
// those that began and ended within it count; of an open load those that began within it, or the slow ones
// among them would be missing.
struct Window {
  bool open_load = false;
  std::atomic<int64_t> begin_ns{std::numeric_limits<int64_t>::max()};
  std::atomic<int64_t> end_ns{std::numeric_limits<int64_t>::max()};
  // Requests in flight are finished, no new one starts.
  std::atomic<bool> stop{false};
};

// Owned by one thread until it ends; the main thread then merges them.
class Recording {
 public:
  // A request that ended well.
  void Success(const Window& window, int64_t begin_ns, int64_t end_ns, uint64_t bytes_sent,
               uint64_t bytes_received, uint64_t responses);
  // A request that failed, inside the window or not. The first reason is kept.
  void Failure(const std::string& reason);
  // A request that got no answer in its time; a failure, too.
  void Unanswered();
  // Requests of an open load could not be sent when they came.
  void RateNotHeld() { rate_held_ = false; }
  void Merge(Recording&& other);
  // Puts the latencies into order; Percentile needs it.
  void Sort();

  // Microseconds; 0 without requests. `fraction` is within [0, 1].
  double PercentileUs(double fraction) const;
  double MeanUs() const;

  uint64_t requests() const { return latencies_.size(); }
  // Requests by the share of their time that lies within the window: what was done in it, also where a request
  // takes so long that few or none begin and end within.
  double parts() const { return parts_; }
  uint64_t responses() const { return responses_; }
  uint64_t errors() const { return errors_; }
  uint64_t unanswered() const { return unanswered_; }
  bool rate_held() const { return rate_held_; }
  uint64_t bytes_sent() const { return bytes_sent_; }
  uint64_t bytes_received() const { return bytes_received_; }
  const std::string& first_error() const { return first_error_; }

 private:
  std::vector<uint32_t> latencies_;  // in tenths of a microsecond
  double parts_ = 0;
  uint64_t responses_ = 0;
  uint64_t errors_ = 0;
  uint64_t unanswered_ = 0;
  bool rate_held_ = true;
  uint64_t bytes_sent_ = 0;
  uint64_t bytes_received_ = 0;
  std::string first_error_;
};

}  // namespace braid::bench
