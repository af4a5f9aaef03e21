// UserCodeLimit: the time that one piece of user code may take, and a grace behind it: when the time is up its
// stacks are written to the log, and when the grace is up too, its process is ended.
//
//   UserCodeLimit limit(SteadyNowNs(), timeout_ns);
//   ... if (limit.Passes(now_ns)) worker.WriteStacks();
//   ... if (limit.over(now_ns)) worker.Kill();
//
// Plain data of one thread, which looks again at next_ns().
#pragma once

#include <cstdint>

namespace braid {

class UserCodeLimit {
 public:
  // For the process to write its stacks, and for the code to come back by itself.
  static constexpr int64_t kGraceNs = 500'000'000;
  // How often user code is looked at, at most.
  static constexpr int64_t kShortestLookNs = 10'000'000;

  // None.
  UserCodeLimit() = default;
  // `limit_ns` 0: none.
  UserCodeLimit(int64_t begin_ns, int64_t limit_ns)
      : deadline_ns_(limit_ns > 0 ? begin_ns + limit_ns : INT64_MAX) {}

  // One whose time was up at `now_ns`.
  static UserCodeLimit PassedAt(int64_t now_ns) {
    UserCodeLimit limit(now_ns - 1, 1);
    limit.Passes(now_ns);
    return limit;
  }

  // Whether the time is up; true once.
  bool Passes(int64_t now_ns) {
    if (passed_ || now_ns < deadline_ns_) return false;
    passed_ = true;
    over_ns_ = now_ns + kGraceNs;
    return true;
  }
  bool passed() const { return passed_; }
  bool over(int64_t now_ns) const { return passed_ && now_ns >= over_ns_; }
  // INT64_MAX: there is nothing to look at.
  int64_t next_ns() const { return passed_ ? over_ns_ : deadline_ns_; }

 private:
  int64_t deadline_ns_ = INT64_MAX;
  int64_t over_ns_ = INT64_MAX;
  bool passed_ = false;
};

}  // namespace braid
