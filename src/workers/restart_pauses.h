// RestartPauses: the pause before a process that has died is restarted.
//
// A process that has served restarts at once, and so does one that was up for some time. Each death without
// service doubles the pause. A process killed from outside says nothing about its code, so that death does
// not count. There is still a short pause if it had not served, because code that kills itself looks the
// same.
#pragma once

#include <cstdint>

namespace braid {

class RestartPauses {
 public:
  static constexpr int64_t kFirstNs = 200'000'000;
  static constexpr int64_t kLongestNs = 5'000'000'000;
  // Earlier deaths are forgotten after a process was up for this long.
  static constexpr int64_t kForgottenNs = 10'000'000'000;

  // The history of one life.
  struct Life {
    bool served = false;  // it has done some work
    bool killed = false;  // ended by SIGKILL from outside the server, and not for lack of memory
    int64_t up_ns = 0;    // time since it was ready to work; 0: it never was
  };

  // Returns the pause before the next life, in ns.
  int64_t After(const Life& life);

  // The number of consecutive deaths that count.
  int failures() const { return failures_; }

 private:
  int failures_ = 0;
};

}  // namespace braid
