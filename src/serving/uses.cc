#include "serving/uses.h"

#include <deque>
#include <map>
#include <utility>

namespace braid {
namespace {

// Returns the shortest chain of at least one use from `from` to `to`, without `from`. Empty if there is none.
std::deque<std::string> FindChain(const UsesOf& uses, const std::string& from, const std::string& to) {
  // Breadth-first search; each name with its predecessor.
  std::map<std::string, std::string> reached_by;
  std::deque<std::string> todo = {from};
  while (!todo.empty()) {
    const std::string at = std::move(todo.front());
    todo.pop_front();
    for (const std::string& next : uses(at)) {
      if (next == to) {
        std::deque<std::string> chain = {to};
        for (std::string step = at; step != from; step = reached_by.at(step)) chain.push_front(step);
        return chain;
      }
      if (reached_by.emplace(next, at).second) todo.push_back(next);
    }
  }
  return {};
}

}  // namespace

std::string FindCycle(const UsesOf& uses, const std::string& name) {
  const std::deque<std::string> chain = FindChain(uses, name, name);
  if (chain.empty()) return "";
  std::string text = name;
  for (const std::string& step : chain) text += " -> " + step;
  return text;
}

bool LeadsTo(const Catalog& catalog, const std::string& from, const std::string& to) {
  const auto served = [&catalog](const std::string& name) {
    std::vector<std::string> names;
    const auto servable = catalog.Find(name, -1);
    if (!servable.ok() || (*servable)->info().kind == ServableKind::kGraph) return names;
    for (const ServableUse& use : (*servable)->uses()) names.push_back(use.name);
    return names;
  };
  return from == to || !FindChain(served, from, to).empty();
}

}  // namespace braid
