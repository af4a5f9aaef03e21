// ProcessFamily: a process and all its descendants, including daemons.
//
// A daemon leaves its parent, process group and session (fork twice, setsid). A hard resource limit stays:
// fork and exec pass it on, and an unprivileged process cannot raise it. A family is marked by the value of
// RLIMIT_LOCKS, which Linux keeps but has not enforced for twenty years.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/status.h"

namespace braid {

class ProcessFamily {
 public:
  // Makes a process the head of a new family; processes that it started before do not belong to it. Errors:
  // the system refuses to set the limit.
  static Result<ProcessFamily> Found(pid_t head);
  // Chooses a new family for a process that will be started with its limit(), so that none of the process's own
  // children can be missed. Errors: as Found().
  static Result<ProcessFamily> Prepare();
  // The resource and the limit that make a process a member.
  std::pair<int, rlimit> limit() const;
  // Returns the family of the calling process, if it has one.
  static std::optional<ProcessFamily> Own();

  // Kills all living members except the calling process, and returns their number. It may miss a process that
  // is being started: the family is empty once two calls in a row return 0.
  size_t Kill() const;
  // Kills until the family is empty or the time is over. Returns true if it is empty.
  bool End(int64_t timeout_ns) const;

 private:
  explicit ProcessFamily(uint64_t mark) : mark_(mark) {}
  // Chooses a mark for a process with this hard limit.
  static Result<ProcessFamily> Choose(rlim_t highest);
  bool Has(pid_t pid) const;

  uint64_t mark_;
};

}  // namespace braid
