#include "repository/load_plan.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "config/config_json.h"
#include "pipeline/ensemble_dag.h"
#include "repository/model_folders.h"
#include "repository/version_policy.h"

namespace braid {

void LoadPlan::SetUsesKey(uint64_t key) {
  uses_key = key;
  for (auto& [version, version_key] : keys) version_key = Mix(version_key, key);
}

Result<LoadPlan> MakeLoadPlan(const SourceReader& reader, const LoadRequest& request, ModelSource source,
                              Logger& log) {
  const Fingerprint print = FingerprintOf(source.folder);
  std::map<std::string, std::string> ignored;
  BRAID_ASSIGN_OR_RETURN(const auto available, ListVersions(source.folder, ignored));
  for (const auto& [folder, why] : ignored) {
    BRAID_LOG_WARNING(log, "ignore version directory '{}' of model '{}': {}", folder, request.model_name,
                      why);
  }
  BRAID_RETURN_IF_ERROR(reader.ReadConfig(request, available, source));
  for (const int64_t version : source.config.version_policy().specific().versions()) {
    if (std::find(available.begin(), available.end(), version) == available.end()) {
      BRAID_LOG_ERROR(log, "version {} is specified for model '{}', but the version directory is not present",
                      version, request.model_name);
    }
  }

  LoadPlan plan{
      .source = std::move(source), .fingerprint = print.whole, .keys = {}, .uses = {}, .uses_key = 0};
  const auto uses = UsesOfEnsemble(plan.source.config);
  plan.uses.insert(uses.begin(), uses.end());
  // A change of the version policy alone does not reload a version that stays.
  inference::ModelConfig without_policy = plan.source.config;
  without_policy.clear_version_policy();
  uint64_t key = Mix(Mix(print.common, ConfigToJson(without_policy)), plan.source.place);
  // Each request's files are new.
  if (plan.source.request_number != 0) key = Mix(key, plan.source.request_number);
  for (const int64_t version : ChooseVersions(plan.source.config.version_policy(), available)) {
    const auto part = print.versions.find(version);
    plan.keys[version] = Mix(key, part == print.versions.end() ? 0 : part->second);
  }
  return plan;
}

}  // namespace braid
