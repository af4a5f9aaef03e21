#include "repository/model_loads.h"

#include <optional>
#include <utility>

#include "base/guard.h"
#include "repository/parallel.h"

namespace braid {
namespace {

SourceReader::Options ReaderOptions(const RepositoryOptions& options) {
  return {.model_config_name = options.model_config_name,
          .auto_complete = options.auto_complete,
          .temporary_directory = options.temporary_directory};
}

}  // namespace

ModelLoads::ModelLoads(const RepositoryOptions& options, const ModelFolders& folders, ModelTable& table,
                       Drains& drains, std::vector<Backend*> backends,
                       ModelRepository::ServableFactory factory, ModelRepository::EnsembleFactory ensembles,
                       const ErrorTexts& error_texts, Logger& log)
    : options_(options),
      table_(table),
      drains_(drains),
      error_texts_(error_texts),
      log_(log),
      reader_(ReaderOptions(options), folders),
      loader_(options, std::move(backends), std::move(factory), log,
              [&table, ensembles = std::move(ensembles)](ServableInfo info) {
                return ensembles(std::move(info),
                                 [&table](const std::string& model) { return table.WhyMissing(model); });
              }) {}

// ---- several models ----

LoadSet ModelLoads::Collect(const std::vector<LoadRequest>& wanted) {
  return CollectLoads(wanted, {.uses = [this](const LoadRequest& one) { return reader_.ModelsUsed(one); },
                               .kept = [this](const std::string& name) { return table_.KeptUses(name); }});
}

Result<ModelLoads::Outcome> ModelLoads::Load(const std::vector<LoadRequest>& wanted) {
  return Run(Collect(wanted));
}

Result<ModelLoads::Outcome> ModelLoads::LoadButWaiting(const std::vector<LoadRequest>& wanted,
                                                       const std::set<std::string>& folders,
                                                       std::vector<std::string>& waiting) {
  LoadSet loads = Collect(wanted);
  std::set<std::string> absent;
  for (const auto& [name, request] : loads.requests) {
    if (!folders.contains(name)) absent.insert(name);
  }
  // Who is asked for by name is not waited for.
  for (const LoadRequest& request : wanted) absent.erase(request.model_name);
  for (const LoadRequest& request : TakeOutUsersOf(absent, loads)) {
    BRAID_LOG_INFO(log_, "'{}' is loaded when there is more of what it uses", request.model_name);
    table_.WaitForModels(request, loads.uses.at(request.model_name));
    waiting.push_back(request.model_name);
  }
  return Run(loads);
}

Result<ModelLoads::Outcome> ModelLoads::Run(const LoadSet& loads) {
  std::set<std::string> names;
  Outcome outcome;
  for (const auto& [name, request] : loads.requests) {
    names.insert(name);
    outcome[name];  // so that threads write to places that are there
  }
  BRAID_RETURN_IF_ERROR(table_.Claim(names));
  for (const auto& group : LoadOrder(loads.uses)) {
    ParallelFor(group.size(), options_.load_thread_count, [&](size_t i) {
      const auto request = loads.requests.find(group[i]);
      if (request != loads.requests.end()) {
        outcome.at(group[i]) = LoadAndRelease(request->second, loads.uses);
      }
    });
  }
  RefreshEnsembles();
  drains_.Reap();
  return outcome;
}

// What is made may be a step of others, which come in the next round.
void ModelLoads::RefreshEnsembles() {
  for (;;) {
    const std::vector<LoadRequest> stale = table_.ClaimStale();
    if (stale.empty()) return;
    const Dependencies uses = table_.uses();
    for (const LoadRequest& request : stale) {
      const Status status = LoadAndRelease(request, uses);
      if (!status.ok() && table_.Serves(request.model_name)) {
        BRAID_LOG_WARNING(log_, "ensemble '{}' stays as it was made of the models before: {}",
                          request.model_name, status.message());
      }
    }
  }
}

// ---- one model ----

Status ModelLoads::LoadAndRelease(const LoadRequest& request, const Dependencies& uses) {
  const Status status = Guarded([&] { return LoadClaimed(request, uses); });
  table_.Release(request.model_name, status);
  return status;
}

Status ModelLoads::LoadClaimed(const LoadRequest& request, const Dependencies& uses) {
  const std::string& name = request.model_name;
  if (Status ours = table_.CheckOurs(name); !ours.ok()) {
    BRAID_LOG_ERROR(log_, "failed to load '{}': Given model name is already occupied", name);
    return ours;
  }
  auto plan = Read(request);
  if (!plan.ok()) {
    table_.NoteUnreadable(name);
    BRAID_LOG_ERROR(log_, "Poll failed for model directory '{}': {}", name, plan.status().message());
    // Whatever cannot be read is answered by this; the reason is in the log.
    return InternalError("failed to load '" + name + "', failed to poll from model repository");
  }
  if (table_.NotePlan(request, *plan)) return OkStatus();
  if (plan->keys.empty()) {
    const std::string text =
        "at least one version must be available under the version policy of model '" + name + "'";
    BRAID_LOG_ERROR(log_, "failed to load model '{}': {}", name, text);
    return InvalidArgumentError(LoadFailed(name) + text + "\n");
  }
  return Build(request, *plan, uses);
}

Result<LoadPlan> ModelLoads::Read(const LoadRequest& request) {
  auto source = reader_.Open(request);
  if (request.files.empty()) {
    table_.NoteFolder(request.model_name, source.status().code() != StatusCode::kNotFound);
  }
  if (!source.ok()) return source.status();
  return MakeLoadPlan(reader_, request, std::move(source).value(), log_);
}

Status ModelLoads::Build(const LoadRequest& request, const LoadPlan& plan, const Dependencies& uses) {
  const std::string& name = request.model_name;
  BRAID_ASSIGN_OR_RETURN(const std::vector<int64_t> versions, table_.BeginBuilds(name, plan.keys));
  Builds builds = BuildVersions(plan.source, versions, uses);
  ModelTable::Built built;
  std::map<int64_t, std::string> reasons;
  std::string faults;
  for (auto& [version, build] : builds) {
    if (build.ok()) {
      built.emplace(version, *build);
      continue;
    }
    const std::string text = build.status().ToString();
    BRAID_LOG_ERROR(log_, "failed to load '{}' version {}: {}", name, version, text);
    const std::string told = error_texts_.ForClients(text);
    faults += "version " + std::to_string(version) + " is at UNAVAILABLE state: " + told + ";";
    reasons.emplace(version, told);
  }
  ModelTable::Leaving leaving;
  if (reasons.empty()) {
    for (auto& [version, servable] : built) {
      if (options_.sequence_vault != nullptr) options_.sequence_vault->Enter(servable);
    }
    if (table_.Serve(request, plan, built, leaving)) {
      table_.Drain(std::move(leaving));
      BRAID_LOG_INFO(log_, "successfully loaded '{}'", name);
      return OkStatus();
    }
  }
  table_.AbandonBuilds(name, reasons);
  for (auto& [version, servable] : built) drains_.Discard(*servable);
  BRAID_LOG_INFO(log_, "failed to load '{}'", name);
  if (faults.empty()) return UnavailableError("Server exiting");
  return InvalidArgumentError(LoadFailed(name) + faults + "\n");
}

ModelLoads::Builds ModelLoads::BuildVersions(const ModelSource& source, const std::vector<int64_t>& versions,
                                             const Dependencies& uses) {
  std::vector<std::optional<Result<std::shared_ptr<Servable>>>> built(versions.size());
  ParallelFor(versions.size(), options_.load_thread_count, [&](size_t i) {
    const Status guard = Guarded([&] { built[i].emplace(BuildVersion(source, versions[i], uses)); });
    if (!guard.ok()) built[i].emplace(guard);
  });
  Builds builds;
  for (size_t i = 0; i < versions.size(); ++i) builds.emplace(versions[i], std::move(*built[i]));
  return builds;
}

Result<std::shared_ptr<Servable>> ModelLoads::BuildVersion(const ModelSource& source, int64_t version,
                                                           const Dependencies& uses) {
  const std::string& name = source.config.name();
  if (const std::string cycle = FindCycle(uses, name); !cycle.empty()) {
    return InvalidArgumentError("circular dependency between ensembles: " + cycle);
  }
  const auto progress = [this, &name, version](const std::string& text) {
    table_.NoteProgress(name, version, text);
  };
  for (int attempt = 0;; ++attempt) {
    BRAID_LOG_INFO(log_, "loading: {}:{}", name, version);
    auto built = loader_.Load(source, version, progress);
    if (built.ok() || attempt >= options_.load_retry_count) return built;
    const StatusCode code = built.status().code();
    if (code == StatusCode::kInvalidArgument || code == StatusCode::kUnsupported) return built;
    BRAID_LOG_WARNING(log_, "failed to load '{}' version {}, trying again: {}", name, version,
                      built.status().ToString());
  }
}

}  // namespace braid
