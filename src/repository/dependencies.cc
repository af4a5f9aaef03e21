#include "repository/dependencies.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace braid {

std::set<std::string> ModelsUsedBy(const inference::ModelConfig& config) {
  std::set<std::string> models;
  for (const auto& step : config.ensemble_scheduling().step()) models.insert(step.model_name());
  return models;
}

std::vector<std::vector<std::string>> LoadOrder(const Dependencies& uses) {
  std::vector<std::vector<std::string>> groups;
  std::set<std::string> left;
  for (const auto& [model, used] : uses) left.insert(model);
  while (!left.empty()) {
    std::vector<std::string> group;
    for (const std::string& model : left) {
      const auto& used = uses.at(model);
      if (std::none_of(used.begin(), used.end(), [&](const auto& other) { return left.contains(other); })) {
        group.push_back(model);
      }
    }
    if (group.empty()) group.assign(left.begin(), left.end());
    for (const std::string& model : group) left.erase(model);
    groups.push_back(std::move(group));
  }
  return groups;
}

std::string FindCycle(const Dependencies& uses, const std::string& model) {
  // The shortest way back: breadth first, each model with the one by which it was reached.
  std::map<std::string, std::string> reached_by;
  std::deque<std::string> todo = {model};
  while (!todo.empty()) {
    const std::string at = std::move(todo.front());
    todo.pop_front();
    const auto used = uses.find(at);
    if (used == uses.end()) continue;
    for (const std::string& next : used->second) {
      if (next == model) {
        std::string text = model;
        for (std::string step = at; step != model; step = reached_by.at(step)) text.insert(0, step + " -> ");
        return model + " -> " + text;
      }
      if (reached_by.emplace(next, at).second) todo.push_back(next);
    }
  }
  return "";
}

std::set<std::string> UsedBy(const Dependencies& uses, const std::string& model) {
  std::set<std::string> found;
  std::deque<std::string> todo = {model};
  while (!todo.empty()) {
    const auto used = uses.find(todo.front());
    todo.pop_front();
    if (used == uses.end()) continue;
    for (const std::string& next : used->second) {
      if (next != model && found.insert(next).second) todo.push_back(next);
    }
  }
  return found;
}

}  // namespace braid
