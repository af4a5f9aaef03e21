// RestartPauses: how long a process that has died stays away before it is started again.
//
// What has worked comes back at once, and so does what was well for some time. A pause is for what dies
// without having served: each such death doubles it. That somebody else has killed the process says nothing
// of what it runs, so that does not count; there is a short pause all the same if it had not served, since
// code that kills itself looks alike.
#pragma once

#include <cstdint>

namespace braid {

class RestartPauses {
 public:
  static constexpr int64_t kFirstNs = 200'000'000;
  static constexpr int64_t kLongestNs = 5'000'000'000;
  // Of service, after which earlier deaths are forgotten.
  static constexpr int64_t kForgottenNs = 10'000'000'000;

  // How one life went.
  struct Life {
    bool served = false;  // it has done some work
    bool killed = false;  // it was ended by SIGKILL of somebody else, and not for lack of memory
    int64_t up_ns = 0;    // from when it was ready to work; 0: it never was
  };

  // The pause before the next life.
  int64_t After(const Life& life);

  // Deaths in a row that count.
  int failures() const { return failures_; }

 private:
  int failures_ = 0;
};

}  // namespace braid
