#include "repository/dependency_graph.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "repository/model_folders.h"

namespace braid {
namespace {

std::set<std::string> NamesOf(const DependencyGraph::Uses& uses) {
  std::set<std::string> names;
  for (const ServableUse& use : uses) names.insert(use.name);
  return names;
}

}  // namespace

std::vector<std::vector<std::string>> LoadOrder(const Dependencies& uses) {
  std::vector<std::vector<std::string>> groups;
  std::set<std::string> left;
  for (const auto& [name, used] : uses) left.insert(name);
  while (!left.empty()) {
    std::vector<std::string> group;
    for (const std::string& name : left) {
      const auto& used = uses.at(name);
      if (std::none_of(used.begin(), used.end(), [&](const auto& other) { return left.contains(other); })) {
        group.push_back(name);
      }
    }
    if (group.empty()) group.assign(left.begin(), left.end());
    for (const std::string& name : group) left.erase(name);
    groups.push_back(std::move(group));
  }
  return groups;
}

std::set<std::string> UsedBy(const Dependencies& uses, const std::string& name) {
  std::set<std::string> found;
  std::deque<std::string> todo = {name};
  while (!todo.empty()) {
    const auto used = uses.find(todo.front());
    todo.pop_front();
    if (used == uses.end()) continue;
    for (const std::string& next : used->second) {
      if (next != name && found.insert(next).second) todo.push_back(next);
    }
  }
  return found;
}

uint64_t DependencyGraph::KeyOf(const Uses& uses, const BuildOf& build_of) {
  uint64_t key = 0;
  for (const ServableUse& use : uses) {
    key = Mix(Mix(key, use.name), static_cast<uint64_t>(use.version));
    if (const auto build = build_of(use)) key = Mix(key, *build);
  }
  return key;
}

bool DependencyGraph::AllServe(const Uses& uses, const BuildOf& build_of) {
  return std::all_of(uses.begin(), uses.end(),
                     [&build_of](const ServableUse& use) { return build_of(use).has_value(); });
}

void DependencyGraph::Want(const std::string& name, Uses uses, std::optional<uint64_t> tried) {
  Node& node = nodes_[name];
  node.uses = std::move(uses);
  node.tried = tried;
}

void DependencyGraph::Made(const std::string& name, Uses uses, uint64_t key) {
  if (uses.empty()) {
    nodes_.erase(name);
  } else {
    nodes_[name] = {std::move(uses), key, key};
  }
}

const DependencyGraph::Uses* DependencyGraph::UsesOf(const std::string& name) const {
  const auto node = nodes_.find(name);
  return node == nodes_.end() ? nullptr : &node->second.uses;
}

bool DependencyGraph::IsMadeOf(const std::string& name, uint64_t key) const {
  const auto node = nodes_.find(name);
  return node == nodes_.end() ? key == 0 : node->second.made_of == key;
}

Dependencies DependencyGraph::All() const {
  Dependencies all;
  for (const auto& [name, node] : nodes_) all[name] = NamesOf(node.uses);
  return all;
}

Dependencies DependencyGraph::AllMade() const {
  Dependencies all;
  for (const auto& [name, node] : nodes_) {
    if (node.made_of) all[name] = NamesOf(node.uses);
  }
  return all;
}

bool DependencyGraph::IsDue(const std::string& name, bool serves, const BuildOf& build_of) const {
  const auto node = nodes_.find(name);
  if (node == nodes_.end()) return false;
  const uint64_t key = KeyOf(node->second.uses, build_of);
  return key != node->second.tried && !(serves && key == node->second.made_of);
}

uint64_t DependencyGraph::NoteTried(const std::string& name, const BuildOf& build_of) {
  const auto node = nodes_.find(name);
  if (node == nodes_.end()) return 0;
  node->second.tried = KeyOf(node->second.uses, build_of);
  return *node->second.tried;
}

}  // namespace braid
