#include "graph/registry.h"

#include "base/nearest_name.h"

namespace braid::graph {

std::map<std::string, CalculatorKind, std::less<>>::const_iterator CalculatorRegistry::At(
    std::string_view name) const {
  for (const std::string_view prefix : {"::mediapipe::", "mediapipe::", "mediapipe."}) {
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  }
  return kinds_.find(name);
}

std::vector<std::string> CalculatorRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds_) names.push_back(name);
  return names;
}

const CalculatorKind* CalculatorRegistry::Find(std::string_view name) const {
  const auto found = At(name);
  return found == kinds_.end() ? nullptr : &found->second;
}

std::string CalculatorRegistry::FullName(std::string_view name) const {
  const auto found = At(name);
  return found == kinds_.end() ? std::string(name) : found->first;
}

std::string CalculatorRegistry::Nearest(std::string_view name) const {
  NearestName nearest(name);
  for (const auto& [known, kind] : kinds_) nearest.Offer(known);
  return nearest.name();
}

}  // namespace braid::graph
