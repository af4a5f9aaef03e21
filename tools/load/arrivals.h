// Arrivals: the schedule of an open load, which does not depend on earlier requests. Arrivals are random with
// a given mean rate (a Poisson process, like that of independent clients), or evenly spaced.
#pragma once

#include <cstdint>
#include <random>

namespace braid::load {

enum class Distribution { kConstant, kPoisson };

class Arrivals {
 public:
  // `begin_ns` is a steady time in nanoseconds. The same seed gives the same arrivals.
  Arrivals(Distribution distribution, double per_second, uint64_t seed, int64_t begin_ns)
      : distribution_(distribution),
        per_second_(per_second),
        random_(seed),
        gap_s_(per_second),
        next_ns_(begin_ns) {
    Advance();
  }

  // When the next request arrives, in steady nanoseconds.
  int64_t next_ns() const { return next_ns_; }
  void Advance() {
    next_ns_ += static_cast<int64_t>(
        (distribution_ == Distribution::kPoisson ? gap_s_(random_) : 1 / per_second_) * 1e9);
  }

 private:
  Distribution distribution_;
  double per_second_;
  std::mt19937_64 random_;
  std::exponential_distribution<double> gap_s_;
  int64_t next_ns_;
};

// How long before the end of a window a request may have arrived and still be unsent. It covers the time from
// the window's end to the last look at the clock. A longer delay means a queue in front of the server.
inline constexpr int64_t kUnsentAllowanceNs = 100'000'000;

// Whether requests were sent on schedule. `next_ns` is the arrival of the first unsent request, `end_ns` the
// end of the window, both in steady nanoseconds.
inline bool RateHeld(int64_t next_ns, int64_t end_ns) { return next_ns >= end_ns - kUnsentAllowanceNs; }

}  // namespace braid::load
