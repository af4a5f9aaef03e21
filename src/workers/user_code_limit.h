// UserCodeLimit: a time limit for one piece of user code, and a grace period. At the limit, the stacks of the
// code are logged; after the grace period, its process is ended.
//
//   UserCodeLimit limit(SteadyNowNs(), timeout_ns);
//   ... if (limit.Passes(now_ns)) worker.WriteStacks();
//   ... if (limit.over(now_ns)) worker.Kill();
//
// Plain data of one thread, which checks again at next_ns().
#pragma once

#include <cstdint>

namespace braid {

class UserCodeLimit {
 public:
  // Time for the process to write its stacks, or for the code to return by itself.
  static constexpr int64_t kGraceNs = 500'000'000;
  // The shortest interval between two checks of user code.
  static constexpr int64_t kShortestLookNs = 10'000'000;

  // No limit.
  UserCodeLimit() = default;
  // `limit_ns` 0: no limit.
  UserCodeLimit(int64_t begin_ns, int64_t limit_ns)
      : deadline_ns_(limit_ns > 0 ? begin_ns + limit_ns : INT64_MAX) {}

  // Returns a limit that passed at `now_ns`.
  static UserCodeLimit PassedAt(int64_t now_ns) {
    UserCodeLimit limit(now_ns - 1, 1);
    limit.Passes(now_ns);
    return limit;
  }

  // Whether the limit has passed; returns true only once.
  bool Passes(int64_t now_ns) {
    if (passed_ || now_ns < deadline_ns_) return false;
    passed_ = true;
    over_ns_ = now_ns + kGraceNs;
    return true;
  }
  bool passed() const { return passed_; }
  bool over(int64_t now_ns) const { return passed_ && now_ns >= over_ns_; }
  // The time of the next check; INT64_MAX: none.
  int64_t next_ns() const { return passed_ ? over_ns_ : deadline_ns_; }

 private:
  int64_t deadline_ns_ = INT64_MAX;
  int64_t over_ns_ = INT64_MAX;
  bool passed_ = false;
};

}  // namespace braid
