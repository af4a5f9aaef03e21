#include "repository/config_pipelines.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "pipeline/built_in_nodes.h"

namespace braid {
namespace {

bool Uses(const OvmsPipelineConfig& config, const std::string& library) {
  return std::any_of(config.nodes.begin(), config.nodes.end(), [&library](const OvmsNodeConfig& node) {
    return node.type == OvmsNodeConfig::Type::kCustom && node.library_name == library;
  });
}

DependencyGraph::Uses UsesOfSteps(const OvmsPipelineConfig& config) {
  const auto uses = UsesOfPipeline(config);
  return {uses.begin(), uses.end()};
}

}  // namespace

void ConfigPipelines::Plan(const std::vector<OvmsPipelineConfig>& wanted,
                           const std::vector<OvmsCustomNodeLibrary>& libraries, bool retry, Steps& steps) {
  MutexLock lock(mutex_);
  planned_ = {};
  outcomes_.clear();
  SyncLibraries(libraries, retry);
  std::set<std::string> names;
  for (const OvmsPipelineConfig& config : wanted) {
    if (const Status free = table_.CheckOwn(config.name, ServableKind::kPipeline); !free.ok()) {
      outcomes_[config.name] = Refuse(config.name, free);
      continue;
    }
    names.insert(config.name);
    const auto entry = pipelines_.find(config.name);
    const bool same = entry != pipelines_.end() && entry->second.config == config && !entry->second.stale &&
                      (!retry || entry->second.fault.ok());
    if (same) continue;
    Step& step = steps[config.name];
    for (const ServableUse& use : UsesOfPipeline(config)) step.uses.insert(use.name);
    step.run = [this, &config] {
      ConfigOutcome outcome = Apply(config);
      MutexLock relock(mutex_);
      outcomes_[config.name] = std::move(outcome);
    };
  }
  std::erase_if(pipelines_, [&](const auto& pipeline) {
    if (names.contains(pipeline.first)) return false;
    mutex_.AssertHeld();
    ServableTable::RetiredServables leaving;
    table_.Retire(pipeline.first, 1, ServableKind::kPipeline, leaving);
    table_.Drain(std::move(leaving));
    planned_.changed = true;
    return true;
  });
}

ConfigOutcome ConfigPipelines::TakeOutcome() {
  MutexLock lock(mutex_);
  ConfigOutcome all = std::exchange(planned_, {});
  for (const auto& [name, outcome] : std::exchange(outcomes_, {})) all.Add(outcome);
  return all;
}

// An open library stays as it is, even if its file changes.
void ConfigPipelines::SyncLibraries(const std::vector<OvmsCustomNodeLibrary>& libraries, bool retry) {
  std::map<std::string, OvmsCustomNodeLibrary> configs;
  for (const OvmsCustomNodeLibrary& library : libraries) configs.emplace(library.name, library);
  const auto mark = [this](const std::string& library) {
    mutex_.AssertHeld();
    planned_.changed = true;
    for (auto& [name, entry] : pipelines_) entry.stale = entry.stale || Uses(entry.config, library);
  };
  std::erase_if(libraries_, [&](const auto& library) {
    if (configs.contains(library.first)) return false;
    mark(library.first);
    return true;
  });
  for (const auto& [name, library] : configs) {
    const auto before = library_configs_.find(name);
    const auto open = libraries_.find(name);
    const bool same =
        before != library_configs_.end() && before->second == library && open != libraries_.end();
    if (same && (open->second.ok() || !retry)) continue;
    OvmsCustomNodeLibrary found = library;
    if (auto own = BuiltInNodeFor(library.base_path)) {
      BRAID_LOG_INFO(log_,
                     "'{}' of the custom node library '{}' does not exist; the server's own '{}' is used",
                     library.base_path, name, *own);
      found.base_path = *std::move(own);
    }
    auto opened = found.fault.ok() ? makers_.open_library(found)
                                   : Result<std::shared_ptr<const CustomNodeLibrary>>(found.fault);
    if (opened.ok()) {
      BRAID_LOG_INFO(log_, "opened the custom node library '{}' ({})", name, found.base_path);
    } else {
      BRAID_LOG_ERROR(log_, "failed to open the custom node library '{}': {}", name,
                      opened.status().message());
      planned_.Add({false, opened.status()});
    }
    libraries_.insert_or_assign(name, std::move(opened));
    mark(name);
  }
  library_configs_ = std::move(configs);
}

ConfigOutcome ConfigPipelines::Refuse(const std::string& name, const Status& why) const {
  BRAID_LOG_ERROR(log_, "pipeline '{}' is not served: {}", name, why.message());
  return {false, why};
}

ConfigOutcome ConfigPipelines::Apply(const OvmsPipelineConfig& config) {
  MutexLock lock(mutex_);
  const Status owned = table_.Own(config.name, ServableKind::kPipeline);
  if (!owned.ok()) return Refuse(config.name, owned);
  Entry& entry = pipelines_[config.name];
  entry.config = config;
  table_.SetUses(config.name, UsesOfSteps(config));
  const bool changed = Try(config.name, entry);
  return {changed, entry.fault};
}

bool ConfigPipelines::Has(const std::string& name) const {
  MutexLock lock(mutex_);
  return pipelines_.contains(name);
}

void ConfigPipelines::MakeIfDue(const std::string& name) {
  MutexLock lock(mutex_);
  const auto entry = pipelines_.find(name);
  if (entry != pipelines_.end() && table_.IsDue(name)) Try(name, entry->second);
}

bool ConfigPipelines::Try(const std::string& name, Entry& entry) {
  if (table_.closed()) return false;
  const LogAbout about(name);
  entry.stale = false;
  const uint64_t key = table_.NoteTry(name);
  if (entry.pipeline == nullptr && entry.fault.ok()) table_.SetLoading(name, 1, ServableKind::kPipeline);
  const int64_t begin_ns = SteadyNowNs();
  auto made = makers_.make_pipeline(entry.config, libraries_);
  const int64_t took_ms = (SteadyNowNs() - begin_ns) / kMillisecondNs;
  entry.fault = made.status();
  if (made.ok()) {
    BRAID_LOG_INFO(log_, "loaded pipeline '{}' in {} ms", name, took_ms);
    table_.NoteMade(name, key);
    return Serve(entry, entry.config, key, std::move(made).value());
  }
  const std::string& why = entry.fault.message();
  if (entry.pipeline != nullptr && entry.made_of != entry.config) {
    // The pipeline of the previous definition stays, if it can still run.
    const uint64_t now = table_.KeyOf(UsesOfSteps(entry.made_of));
    if (now == entry.made_key) {
      BRAID_LOG_ERROR(log_, "the new definition of pipeline '{}' is not applied: {}", name, why);
      return false;
    }
    if (auto again = makers_.make_pipeline(entry.made_of, libraries_); again.ok()) {
      BRAID_LOG_ERROR(log_, "the new definition of pipeline '{}' is not applied: {}", name, why);
      return Serve(entry, OvmsPipelineConfig(entry.made_of), now, std::move(again).value());
    }
  }
  BRAID_LOG_ERROR(log_, "pipeline '{}' is not available: {}", name, why);
  const bool served = std::exchange(entry.pipeline, nullptr) != nullptr;
  ServableTable::RetiredServables leaving;
  table_.SetFailed(
      name, 1, ServableKind::kPipeline,
      entry.fault.code() == StatusCode::kFailedPrecondition ? entry.fault : FailedPreconditionError(why),
      leaving);
  table_.Drain(std::move(leaving));
  return served;
}

bool ConfigPipelines::Serve(Entry& entry, const OvmsPipelineConfig& config, uint64_t key,
                            std::shared_ptr<Servable> pipeline) {
  const RetryingAllocation retrying;  // the new pipeline and the one it replaces must both be ended
  ServableTable::RetiredServables before;
  if (!table_.Serve(pipeline, before)) {
    drains_.Discard(*pipeline);
    return false;
  }
  entry.made_of = config;
  entry.made_key = key;
  entry.pipeline = std::move(pipeline);
  table_.Drain(std::move(before));
  return true;
}

}  // namespace braid
