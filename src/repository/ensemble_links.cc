#include "repository/ensemble_links.h"

#include <algorithm>
#include <utility>

#include "repository/model_folders.h"

namespace braid {

uint64_t EnsembleLinks::KeyOf(const std::set<std::string>& uses, const BuildOf& build_of) {
  uint64_t key = 0;
  for (const std::string& name : uses) {
    key = Mix(key, name);
    if (const auto build = build_of(name)) key = Mix(key, *build);
  }
  return key;
}

void EnsembleLinks::Made(const std::string& name, std::set<std::string> uses, uint64_t key) {
  if (uses.empty()) {
    links_.erase(name);
    return;
  }
  Link& link = links_[name];
  link.uses = std::move(uses);
  link.made_of = key;
}

Dependencies EnsembleLinks::uses() const {
  Dependencies uses;
  for (const auto& [name, link] : links_) uses[name] = link.uses;
  return uses;
}

std::set<std::string> EnsembleLinks::UsesOf(const std::string& name) const {
  const auto link = links_.find(name);
  return link == links_.end() ? std::set<std::string>() : link->second.uses;
}

bool EnsembleLinks::IsMadeOf(const std::string& name, uint64_t key) const {
  const auto link = links_.find(name);
  return (link == links_.end() ? 0 : link->second.made_of) == key;
}

bool EnsembleLinks::IsStale(const std::string& name, const BuildOf& build_of) const {
  const auto found = links_.find(name);
  if (found == links_.end()) return false;
  const Link& link = found->second;
  const uint64_t key = KeyOf(link.uses, build_of);
  return key != link.made_of && key != link.tried &&
         std::all_of(link.uses.begin(), link.uses.end(),
                     [&](const std::string& model) { return build_of(model).has_value(); });
}

void EnsembleLinks::NoteTried(const std::string& name, const BuildOf& build_of) {
  const auto link = links_.find(name);
  if (link != links_.end()) link->second.tried = KeyOf(link->second.uses, build_of);
}

}  // namespace braid
