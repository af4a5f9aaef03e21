#include "mediapipe_graph/call_circle.h"

#include <algorithm>
#include <string>
#include <vector>

namespace braid {

Status CheckCallCircle(const CallChain* chain, std::string_view graph, bool bounded) {
  std::vector<const CallChain*> seen;
  for (std::vector<const CallChain*> next{chain}; !next.empty();) {
    const CallChain* link = next.back();
    next.pop_back();
    if (link == nullptr || std::find(seen.begin(), seen.end(), link) != seen.end()) continue;
    seen.push_back(link);
    if (link->model == graph) {
      std::string path;
      for (const CallChain* one : seen) path.insert(0, one->model + " -> ");
      return InternalError(std::string("graph '")
                               .append(graph)
                               .append("' would wait for itself: ")
                               .append(path)
                               .append(graph));
    }
    if (!bounded && !link->passes_on) continue;
    for (const auto& parent : link->parents) next.push_back(parent.get());
  }
  return OkStatus();
}

}  // namespace braid
