// BRAID_CHECK stops the process when an invariant is broken. Input, peers and the environment never make it
// fail: errors that they can cause are a Status.
#pragma once

namespace braid::internal {
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);
}

#define BRAID_CHECK(condition) \
  (static_cast<bool>(condition) ? (void)0 : ::braid::internal::CheckFailed(#condition, __FILE__, __LINE__))
