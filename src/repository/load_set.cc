#include "repository/load_set.h"

#include <deque>
#include <utility>

namespace braid {

LoadSet CollectLoads(const std::vector<LoadRequest>& wanted, const LoadQuestions& questions) {
  LoadSet loads;
  std::deque<std::string> used;
  const auto add = [&](const std::string& name, std::set<std::string> uses) {
    used.insert(used.end(), uses.begin(), uses.end());
    loads.uses.emplace(name, std::move(uses));
  };
  // First the requested models, so that each is loaded by its own request.
  for (const LoadRequest& request : wanted) {
    add(request.model_name, questions.uses(request));
    loads.requests.emplace(request.model_name, request);
  }
  while (!used.empty()) {
    const std::string name = std::move(used.front());
    used.pop_front();
    if (loads.uses.contains(name)) continue;
    if (auto kept = questions.kept(name)) {
      add(name, std::move(*kept));
      continue;
    }
    LoadRequest request{.model_name = name, .config_json = {}, .files = {}};
    add(name, questions.uses(request));
    loads.requests.emplace(name, std::move(request));
  }
  return loads;
}

}  // namespace braid
