#include "mediapipe_graph/call_circle.h"

#include <algorithm>
#include <string>
#include <vector>

namespace braid {
namespace {

// A link that a graph has made: it is blocked by whom the request to the graph has blocked, and there is one.
bool IsGraphLink(const CallChain& link) {
  return link.parents.empty()
             ? link.blocked_instance == nullptr
             : link.parents.size() == 1 && link.parents[0]->blocked_instance == link.blocked_instance;
}

}  // namespace

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
    if (!bounded && !IsGraphLink(*link)) continue;
    for (const auto& parent : link->parents) next.push_back(parent.get());
  }
  return OkStatus();
}

}  // namespace braid
