#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace braid::internal {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "braid: impossible state at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace braid::internal
