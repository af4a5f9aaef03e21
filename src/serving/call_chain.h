// CallChain: the callers that a request runs for, the innermost first.
//
// An instance that waits for its own call (BLS) cannot run anything else. A request deadlocks if it waits for
// an instance that waits, directly or not, for the same request. The chain makes such a cycle detectable, and
// the error names it.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace braid {

struct CallChain {
  // The caller, as error texts name it.
  std::string model;
  std::string instance;
  // The Instance object that the call blocks; null when none is blocked, such as for a call from the user's
  // own thread.
  const void* blocked_instance = nullptr;
  // The chains of the requests in the blocked execution, each once: these requests wait for the call too. All
  // calls made for them share these. Empty when the caller is not blocked.
  std::vector<std::shared_ptr<const CallChain>> parents;
  // True if every request leads to a further call, as in graphs and pipelines. User code may end a recursion.
  bool passes_on = false;
};

}  // namespace braid
