#include "repository/ensemble_links.h"

#include <algorithm>
#include <utility>

#include "repository/model_folders.h"

namespace braid {
namespace {

bool AllServe(const std::set<std::string>& models, const EnsembleLinks::BuildOf& build_of) {
  return std::all_of(models.begin(), models.end(),
                     [&build_of](const std::string& model) { return build_of(model).has_value(); });
}

}  // namespace

uint64_t EnsembleLinks::KeyOf(const std::set<std::string>& uses, const BuildOf& build_of) {
  uint64_t key = 0;
  for (const std::string& name : uses) {
    key = Mix(key, name);
    if (const auto build = build_of(name)) key = Mix(key, *build);
  }
  return key;
}

void EnsembleLinks::Made(const std::string& name, std::set<std::string> uses, uint64_t key) {
  waiting_.erase(name);
  if (uses.empty()) {
    links_.erase(name);
    return;
  }
  Link& link = links_[name];
  link.uses = std::move(uses);
  link.made_of = key;
}

void EnsembleLinks::Wait(LoadRequest request, std::set<std::string> uses, std::optional<uint64_t> tried) {
  Waiting& waiting = waiting_[request.model_name];
  waiting.request = std::move(request);
  waiting.uses = std::move(uses);
  waiting.tried = tried;
}

void EnsembleLinks::Forget(const std::string& name) {
  links_.erase(name);
  waiting_.erase(name);
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
  return key != link.made_of && key != link.tried && AllServe(link.uses, build_of);
}

void EnsembleLinks::NoteTried(const std::string& name, const BuildOf& build_of) {
  const auto link = links_.find(name);
  if (link != links_.end()) link->second.tried = KeyOf(link->second.uses, build_of);
}

const std::set<std::string>* EnsembleLinks::AwaitedBy(const std::string& name) const {
  const auto waiting = waiting_.find(name);
  return waiting == waiting_.end() ? nullptr : &waiting->second.uses;
}

std::optional<LoadRequest> EnsembleLinks::TakeDue(const std::string& name, const BuildOf& build_of) {
  const auto found = waiting_.find(name);
  if (found == waiting_.end() || !AllServe(found->second.uses, build_of)) return std::nullopt;
  const uint64_t key = KeyOf(found->second.uses, build_of);
  if (found->second.tried == key) return std::nullopt;
  found->second.tried = key;
  return found->second.request;
}

bool EnsembleLinks::IsUntried(const std::string& name) const {
  const auto waiting = waiting_.find(name);
  return waiting != waiting_.end() && !waiting->second.tried;
}

}  // namespace braid
