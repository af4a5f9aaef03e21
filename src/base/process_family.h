// ProcessFamily: a process and all that it has started, and that these have started, wherever they have gone.
//
// Parents, process groups and sessions are left behind by a daemon (fork twice, setsid). What nobody sheds is
// a hard limit of the system, which is handed on by fork and exec. Linux keeps one that it has not looked at
// for twenty years (RLIMIT_LOCKS): its value is the mark by which a family is known.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/status.h"

namespace braid {

class ProcessFamily {
 public:
  // Makes a process the head of a new family. What it has started before is none of it. Errors: the system
  // does not let the limit be set.
  static Result<ProcessFamily> Found(pid_t head);
  // The one that this process belongs to.
  static std::optional<ProcessFamily> Own();

  // Kills all members that live, but not the calling process. Returns how many there were. One that was just
  // being started may be missed: nobody is left when two calls in a row have found none.
  size_t Kill() const;
  // Kills until nobody is left, or the time is over. Returns whether nobody is left.
  bool End(int64_t timeout_ns) const;

 private:
  explicit ProcessFamily(uint64_t mark) : mark_(mark) {}
  bool Has(pid_t pid) const;

  uint64_t mark_;
};

}  // namespace braid
