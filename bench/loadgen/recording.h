// Recording: the results of one thread of the generator, and the time window whose requests count.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace braid::bench {

// The main thread sets it, all threads read it; times are steady nanoseconds. Requests also run before and
// after the window. Those that began and ended within it count. In an open load, all that began within it
// count, because the slow ones would otherwise be missing.
struct Window {
  bool open_load = false;
  std::atomic<int64_t> begin_ns{std::numeric_limits<int64_t>::max()};
  std::atomic<int64_t> end_ns{std::numeric_limits<int64_t>::max()};
  // Requests in flight are finished, and no new ones start.
  std::atomic<bool> stop{false};
};

// Owned by one thread until it ends; then the main thread merges them.
class Recording {
 public:
  // Records a successful request.
  void Success(const Window& window, int64_t begin_ns, int64_t end_ns, uint64_t bytes_sent,
               uint64_t bytes_received, uint64_t responses);
  // Records a failed request, inside the window or not. The first reason is kept.
  void Failure(const std::string& reason);
  // Records a request without a response within its timeout; also a failure.
  void Unanswered();
  // Records that requests of an open load could not be sent at their times.
  void RateNotHeld() { rate_held_ = false; }
  void Merge(Recording&& other);
  // Sorts the latencies; required by PercentileUs().
  void Sort();

  // In microseconds; 0 without requests. `fraction` is within [0, 1].
  double PercentileUs(double fraction) const;
  double MeanUs() const;

  uint64_t requests() const { return latencies_.size(); }
  // Returns the number of requests, each counted by its share of time within the window. It measures
  // throughput even if requests take so long that few or none begin and end within the window.
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
