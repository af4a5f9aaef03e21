#include "repository/config_models.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "config/folder.h"
#include "repository/config_plan.h"
#include "repository/model_folders.h"
#include "repository/model_identity.h"
#include "serving/faults.h"

namespace braid {
namespace {

// A change of the version policy alone does not reload a version.
OvmsModelConfig WithoutPolicy(OvmsModelConfig config) {
  config.version_policy = {};
  return config;
}

// Never 0.
uint64_t FilesOf(const std::string& version_path) {
  std::error_code fault;
  if (std::filesystem::is_regular_file(version_path, fault)) {
    const auto folder = Folder::Open(std::filesystem::path(version_path).parent_path().string());
    return (folder.ok() ? FingerprintOf(*folder, FilesOfVersionFile(version_path)) : 0) | 1;
  }
  const auto folder = Folder::Open(version_path);
  return (folder.ok() ? FingerprintOf(*folder).whole : 0) | 1;
}

bool Contains(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

bool ConfigModels::HasFolder(const OvmsModelConfig& config, int64_t version) const {
  std::string path = config.base_path;
  if (const auto remote = remote_.find(path); remote != remote_.end()) {
    const auto copy = remote->second->last();
    if (copy == nullptr) return false;
    path = copy->path();
  }
  std::error_code fault;
  return std::filesystem::exists(VersionPathOf(path, version), fault);
}

void ConfigModels::CopyRemote(const std::vector<OvmsModelConfig>& wanted, bool retry) {
  decltype(remote_) used;
  for (const OvmsModelConfig& config : wanted) {
    if (options_.storage == nullptr || !IsUrl(config.base_path)) continue;
    const auto known = remote_.find(config.base_path);
    if (known != remote_.end()) {
      used.insert(*known);
    } else if (auto url = ParseStorageUrl(config.base_path); url.ok()) {
      used[config.base_path] = options_.storage->Open(*url);
    }
  }
  std::vector<RemoteFolder*> folders;
  for (const auto& [url, folder] : used) folders.push_back(folder.get());
  remote_ = std::move(used);
  ParallelFor(folders.size(), options_.load_thread_count, [&](size_t i) { (void)folders[i]->Update(retry); });
}

Result<ConfigModels::Place> ConfigModels::PlaceOf(const OvmsModelConfig& config) const {
  if (!IsUrl(config.base_path)) return Place{config.base_path, nullptr};
  const auto remote = remote_.find(config.base_path);
  if (remote == remote_.end()) {
    return FaultError(Fault::kPathInvalid, "'" + config.base_path + "' is remote; expected a folder");
  }
  auto copy = remote->second->Get();
  if (!copy.ok()) return FaultError(Fault::kPathInvalid, copy.status().message());
  std::string path = (*copy)->path();
  return Place{std::move(path), std::move(*copy)};
}

void ConfigModels::Plan(const std::vector<OvmsModelConfig>& wanted, bool retry, Steps& steps) {
  CopyRemote(wanted, retry);
  plan_fault_ = OkStatus();
  works_.clear();
  for (auto& [name, model] : models_) model.wanted = false;
  for (const OvmsModelConfig& config : wanted) models_[config.name].wanted = true;
  for (const OvmsModelConfig& config : wanted) {
    const LogAbout about(config.name);
    Model& model = models_.at(config.name);
    Work work{&config, &model, {}, false};
    const Status fault = PlanModel(config, model, retry, work.builds);
    const bool known = fault == model.fault;
    if (!fault.ok() && (!known || retry)) {
      if (plan_fault_.ok()) plan_fault_ = fault;
      const bool serves = std::any_of(model.versions.begin(), model.versions.end(),
                                      [](const auto& version) { return version.second.serving.has_value(); });
      BRAID_LOG_ERROR(log_, "{} model '{}': {}",
                      serves ? "the new configuration is not applied to" : "failed to load", config.name,
                      fault.message());
    }
    model.fault = fault;
    works_.push_back(std::move(work));
    if (works_.back().builds.empty()) {
      Run(works_.back());
    } else {
      steps[config.name] = {{}, [this, &todo = works_.back()] { Run(todo); }};
    }
  }
}

void ConfigModels::Run(Work& work) {
  ParallelFor(work.builds.size(), options_.load_thread_count, [&](size_t i) {
    Build& build = work.builds[i];
    const Status guard = Guarded([&] { RunBuild(*work.config, build); });
    if (!guard.ok()) build.status = guard;
  });
  // After the builds, so that pipelines can move to a new version before an old one is retired.
  work.retired = RetireOthers(work.config->name, *work.model);
}

ConfigOutcome ConfigModels::TakeOutcome() {
  ConfigOutcome outcome{false, plan_fault_};
  for (const Work& work : works_) {
    for (const Build& build : work.builds) outcome.Add({build.status.ok(), build.status});
    outcome.changed = outcome.changed || work.retired;
  }
  works_.clear();
  return outcome;
}

Status ConfigModels::PlanModel(const OvmsModelConfig& config, Model& model, bool retry,
                               std::vector<Build>& builds) {
  const std::string& name = config.name;
  BRAID_RETURN_IF_ERROR(table_.Own(name, ServableKind::kModel));
  const Result<Place> place = PlaceOf(config);
  const auto available =
      place.ok() ? ListVersionFolders(place->path) : Result<std::vector<int64_t>>(place.status());
  if (available.ok()) {
    const auto chosen = ChooseVersionFolders(config.version_policy, *available);
    for (const int64_t number : config.version_policy.specific) {
      if (Contains(*available, number) || (*available == model.available && chosen == model.chosen)) continue;
      BRAID_LOG_WARNING(log_, "model '{}': version {} of its policy has no folder", name, number);
    }
    model.available = *available;
    model.chosen = chosen;
  }
  if (!config.fault.ok()) {
    RefuseVersions(config, model);
    return config.fault;
  }
  for (const auto& [number, version] : model.versions) {
    if (version.serving && version.serving->stateful != config.stateful) {
      return FailedPreconditionError(
          "a loaded model cannot be made stateful or stateless by a reload; remove its entry first");
    }
  }
  if (!available.ok()) return available.status();
  if (available->empty()) return FaultError(Fault::kNoModelVersionAvailable, config.base_path);

  const OvmsModelConfig made_of = WithoutPolicy(config);
  for (const int64_t number : model.chosen) {
    Version& version = model.versions[number];
    const bool same = version.serving == made_of;
    // Before the load, so that changes during the load are detected.
    const uint64_t files =
        same && !options_.watch ? version.files : FilesOf(VersionPathOf(place->path, number));
    if (same && files == version.files) {
      version.failure.reset();
      continue;
    }
    const auto& failure = version.failure;
    if (failure && failure->config == made_of && failure->files == files && !retry) continue;
    if (!version.serving) table_.SetLoading(name, number, ServableKind::kModel);
    builds.push_back({number, files, &version, {}});
  }
  return OkStatus();
}

// Marks the versions of an invalid entry as unavailable. Serving versions stay.
void ConfigModels::RefuseVersions(const OvmsModelConfig& config, Model& model) {
  for (const int64_t number : model.chosen) {
    Version& version = model.versions[number];
    if (version.serving || (version.failure && version.failure->fault == config.fault)) continue;
    version.failure = Failure{WithoutPolicy(config), 0, config.fault};
    ServableTable::RetiredServables leaving;
    table_.SetFailed(config.name, number, ServableKind::kModel, config.fault, leaving);
    table_.Drain(std::move(leaving));
  }
}

void ConfigModels::RunBuild(const OvmsModelConfig& config, Build& build) {
  const std::string& name = config.name;
  const LogAbout about(name);
  build.status = UnavailableError("Server exiting");
  if (table_.closed()) return;
  BRAID_LOG_INFO(log_, "loading '{}' version {}", name, build.number);
  const int64_t begin_ns = SteadyNowNs();
  auto made = Make(config, build.number);
  const int64_t took_ns = SteadyNowNs() - begin_ns;
  const RetryingAllocation retrying;  // the new servable and the one it replaces must both be ended
  if (!made.ok()) {
    build.status = made.status();
    BRAID_LOG_ERROR(log_, "failed to load '{}' version {} after {} ms{}: {}", name, build.number,
                    took_ns / kMillisecondNs,
                    build.version->serving ? "; the previously loaded model stays" : "",
                    build.status.message());
    build.version->failure = Failure{WithoutPolicy(config), build.files, build.status};
    ServableTable::RetiredServables leaving;
    if (!build.version->serving) {
      table_.SetFailed(name, build.number, ServableKind::kModel, build.status, leaving);
    } else if (options_.watch) {
      table_.NoteReload(name, table_.ForClients(build.status));
    }
    table_.Drain(std::move(leaving));
    return;
  }
  (*made)->statistics().RecordLoad(took_ns);
  if (options_.sequence_vault != nullptr) options_.sequence_vault->Enter(*made);
  ServableTable::RetiredServables before;
  if (!table_.Serve(*made, before)) {
    drains_.Discard(**made);
    return;
  }
  build.status = OkStatus();
  const bool again = options_.watch && build.version->serving.has_value();
  build.version->serving = WithoutPolicy(config);
  build.version->files = build.files;
  build.version->failure.reset();
  BRAID_LOG_INFO(log_, "{} '{}' version {} in {} ms", again ? "reloaded" : "loaded", name, build.number,
                 took_ns / kMillisecondNs);
  replaced_();
  table_.Drain(std::move(before));
}

Result<std::shared_ptr<Servable>> ConfigModels::Make(const OvmsModelConfig& config, int64_t version) const {
  BRAID_ASSIGN_OR_RETURN(const Place place, PlaceOf(config));
  const std::string path = VersionPathOf(place.path, version);
  OvmsModelConfig here = config;
  here.base_path = place.path;
  BRAID_ASSIGN_OR_RETURN(auto loaded, makers_.load_model(here, version, path));
  loaded.info.name = config.name;
  loaded.info.version = version;
  if (options_.sequence_vault != nullptr && loaded.info.stateful) {
    const std::string who = "'" + config.name + "' version " + std::to_string(version);
    loaded.info.sequence_identity = IdentityOfModel(path, DescribeStates(*loaded.info.stateful), who, log_);
  }
  BRAID_ASSIGN_OR_RETURN(auto made, makers_.make_servable(std::move(loaded.info), std::move(loaded.model)));
  made->KeepFiles(place.copy);
  return made;
}

// Retires the versions that the policy did not choose. If a chosen version does not serve, retires only those
// whose folders are gone.
bool ConfigModels::RetireOthers(const std::string& name, Model& model) {
  const bool complete =
      model.fault.ok() && std::all_of(model.chosen.begin(), model.chosen.end(), [&model](int64_t number) {
        const auto version = model.versions.find(number);
        return version != model.versions.end() && version->second.serving;
      });
  bool changed = false;
  for (auto it = model.versions.begin(); it != model.versions.end();) {
    const auto& [number, version] = *it;
    const bool stays = Contains(model.chosen, number) ||
                       (version.serving && !complete && HasFolder(*version.serving, number));
    if (stays) {
      ++it;
      continue;
    }
    Retire(name, number);
    changed = true;
    it = model.versions.erase(it);
  }
  return changed;
}

void ConfigModels::RetireUnwanted() {
  for (auto it = models_.begin(); it != models_.end();) {
    auto& [name, model] = *it;
    if (model.wanted) {
      ++it;
      continue;
    }
    for (const auto& [number, version] : model.versions) Retire(name, number);
    it = models_.erase(it);
  }
}

void ConfigModels::Retire(const std::string& name, int64_t version) {
  ServableTable::RetiredServables leaving;
  table_.Retire(name, version, ServableKind::kModel, leaving);
  replaced_();
  table_.Drain(std::move(leaving));
}

}  // namespace braid
