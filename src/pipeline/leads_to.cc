#include "pipeline/leads_to.h"

#include <set>
#include <utility>
#include <vector>

#include "model_config.pb.h"
#include "pipeline/pipeline.h"

namespace braid {
namespace {

std::vector<std::string> AskedBy(const Servable& servable) {
  if (const auto* pipeline = dynamic_cast<const Pipeline*>(&servable)) return pipeline->Models();
  std::vector<std::string> models;
  const ServableInfo& info = servable.info();
  if (info.kind != ServableKind::kEnsemble || info.config == nullptr) return models;
  for (const auto& step : info.config->ensemble_scheduling().step()) models.push_back(step.model_name());
  return models;
}

}  // namespace

bool LeadsTo(const Catalog& catalog, const std::string& from, const std::string& to) {
  std::vector<std::string> next{from};
  std::set<std::string> seen;
  while (!next.empty()) {
    const std::string at = std::move(next.back());
    next.pop_back();
    if (at == to) return true;
    if (!seen.insert(at).second) continue;
    const auto servable = catalog.Find(at, -1);
    if (!servable.ok()) continue;
    for (std::string& behind : AskedBy(**servable)) next.push_back(std::move(behind));
  }
  return false;
}

}  // namespace braid
