#include "repository/load_set.h"

#include <algorithm>
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
  // These first: who is asked for is loaded by the request that asks.
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

std::vector<LoadRequest> TakeOutUsersOf(const std::set<std::string>& absent, LoadSet& loads) {
  std::vector<LoadRequest> out;
  for (const std::string& name : absent) loads.requests.erase(name);
  std::erase_if(loads.requests, [&](const auto& one) {
    const std::set<std::string> used = UsedBy(loads.uses, one.first);
    const bool waits = std::any_of(used.begin(), used.end(),
                                   [&absent](const std::string& model) { return absent.contains(model); });
    if (waits) out.push_back(one.second);
    return waits;
  });
  return out;
}

}  // namespace braid
