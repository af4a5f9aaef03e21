#include "repository/config_pipelines.h"

#include <algorithm>

#include "base/clock.h"

namespace braid {
namespace {

constexpr int64_t kMillisecondNs = 1000000;

bool SameServables(const std::vector<std::weak_ptr<Servable>>& a,
                   const std::vector<std::weak_ptr<Servable>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return !one.owner_before(other) && !other.owner_before(one);
  });
}

bool Uses(const OvmsPipelineConfig& config, const std::string& library) {
  return std::any_of(config.nodes.begin(), config.nodes.end(), [&library](const OvmsNodeConfig& node) {
    return node.type == OvmsNodeConfig::Type::kCustom && node.library_name == library;
  });
}

}  // namespace

ConfigOutcome ConfigPipelines::Sync(const std::vector<OvmsPipelineConfig>& wanted,
                                    const std::vector<OvmsCustomNodeLibrary>& libraries, bool retry) {
  std::lock_guard lock(mutex_);
  ConfigOutcome outcome;
  SyncLibrariesLocked(libraries, retry, outcome);
  for (auto& [name, entry] : pipelines_) entry.wanted = false;
  for (const OvmsPipelineConfig& config : wanted) {
    if (const Status claimed = states_.Claim(config.name, ServableKind::kPipeline); !claimed.ok()) {
      outcome.Add({false, claimed});
      BRAID_LOG_ERROR(log_, "pipeline '{}' is not served: {}", config.name, claimed.message());
      continue;
    }
    Entry& entry = pipelines_[config.name];
    entry.wanted = true;
    if (entry.config != config) {
      entry.config = config;
      entry.stale = true;
    }
    if (retry && !entry.fault.ok()) entry.stale = true;
  }
  for (auto it = pipelines_.begin(); it != pipelines_.end();) {
    auto& [name, entry] = *it;
    if (entry.wanted) {
      ++it;
      continue;
    }
    states_.Drain(states_.Retire(name, 1, ServableKind::kPipeline));
    outcome.changed = true;
    it = pipelines_.erase(it);
  }
  std::vector<std::string> stale;
  for (const auto& [name, entry] : pipelines_) {
    if (entry.stale) stale.push_back(name);
  }
  if (RefreshLocked()) outcome.changed = true;
  for (const std::string& name : stale) outcome.Add({false, pipelines_.at(name).fault});
  return outcome;
}

// A library that is open stays as it is, whatever becomes of its file.
void ConfigPipelines::SyncLibrariesLocked(const std::vector<OvmsCustomNodeLibrary>& libraries, bool retry,
                                          ConfigOutcome& outcome) {
  std::map<std::string, OvmsCustomNodeLibrary> configs;
  for (const OvmsCustomNodeLibrary& library : libraries) configs.emplace(library.name, library);
  const auto mark = [this, &outcome](const std::string& library) {
    outcome.changed = true;
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
    auto opened = library.fault.ok() ? makers_.open_library(name, library.base_path)
                                     : Result<std::shared_ptr<const CustomNodeLibrary>>(library.fault);
    if (opened.ok()) {
      BRAID_LOG_INFO(log_, "opened the custom node library '{}' ({})", name, library.base_path);
    } else {
      BRAID_LOG_ERROR(log_, "failed to open the custom node library '{}': {}", name,
                      opened.status().message());
      outcome.Add({false, opened.status()});
    }
    libraries_.insert_or_assign(name, std::move(opened));
    mark(name);
  }
  library_configs_ = std::move(configs);
}

void ConfigPipelines::Refresh() {
  std::lock_guard lock(mutex_);
  RefreshLocked();
}

// A pipeline may be behind a node of another one, so what one try changes may be for the next.
bool ConfigPipelines::RefreshLocked() {
  bool changed = false;
  for (size_t round = 0; round <= pipelines_.size(); ++round) {
    bool again = false;
    for (auto& [name, entry] : pipelines_) {
      if (states_.closed()) return changed;
      if (NeedsTry(entry, Behind(entry.config)) && TryLocked(name, entry)) again = true;
    }
    if (!again) break;
    changed = true;
  }
  return changed;
}

bool ConfigPipelines::NeedsTry(const Entry& entry, const std::vector<std::weak_ptr<Servable>>& behind) const {
  if (entry.stale) return true;
  const bool current =
      entry.pipeline != nullptr && entry.made_of == entry.config && entry.pipeline->UpToDate();
  return !current && !SameServables(entry.behind, behind);
}

// True when what is served has changed.
bool ConfigPipelines::TryLocked(const std::string& name, Entry& entry) {
  entry.stale = false;
  entry.behind = Behind(entry.config);
  if (entry.pipeline == nullptr && entry.fault.ok()) states_.SetLoading(name, 1, ServableKind::kPipeline);
  const int64_t begin_ns = SteadyNowNs();
  auto made = makers_.make_pipeline(entry.config, libraries_);
  const int64_t took_ms = (SteadyNowNs() - begin_ns) / kMillisecondNs;
  entry.fault = made.status();
  if (made.ok()) {
    entry.made_of = entry.config;
    BRAID_LOG_INFO(log_, "loaded pipeline '{}' in {} ms", name, took_ms);
    return ServeLocked(entry, std::move(made).value());
  }
  const std::string& why = entry.fault.message();
  if (entry.pipeline != nullptr && entry.made_of != entry.config) {
    // What ran before the definition was changed runs on, if it still can.
    if (entry.pipeline->UpToDate()) {
      BRAID_LOG_ERROR(log_, "the new definition of pipeline '{}' is not applied: {}", name, why);
      return false;
    }
    if (auto again = makers_.make_pipeline(entry.made_of, libraries_); again.ok()) {
      BRAID_LOG_ERROR(log_, "the new definition of pipeline '{}' is not applied: {}", name, why);
      return ServeLocked(entry, std::move(again).value());
    }
  }
  BRAID_LOG_ERROR(log_, "pipeline '{}' is not available: {}", name, why);
  const bool served = std::exchange(entry.pipeline, nullptr) != nullptr;
  states_.Drain(states_.SetFailed(
      name, 1, ServableKind::kPipeline,
      entry.fault.code() == StatusCode::kFailedPrecondition ? entry.fault : FailedPreconditionError(why)));
  return served;
}

bool ConfigPipelines::ServeLocked(Entry& entry, std::shared_ptr<Pipeline> pipeline) {
  ConfigStates::Leaving before;
  if (!states_.Serve(pipeline, before)) {
    drains_.Discard(*pipeline);
    return false;
  }
  entry.pipeline = std::move(pipeline);
  states_.Drain(std::move(before));
  return true;
}

std::vector<std::weak_ptr<Servable>> ConfigPipelines::Behind(const OvmsPipelineConfig& config) const {
  std::vector<std::weak_ptr<Servable>> behind;
  for (const OvmsNodeConfig& node : config.nodes) {
    if (node.type != OvmsNodeConfig::Type::kModel) continue;
    auto found = catalog_.Find(node.model_name, node.version.value_or(-1));
    behind.push_back(found.ok() ? std::weak_ptr<Servable>(*found) : std::weak_ptr<Servable>());
  }
  return behind;
}

}  // namespace braid
