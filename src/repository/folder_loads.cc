#include "repository/folder_loads.h"

#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "base/utf8.h"
#include "serving/uses.h"

namespace braid {
namespace {

SourceReader::Options ReaderOptions(const FolderOptions& options) {
  return {.model_config_name = options.model_config_name,
          .auto_complete = options.auto_complete,
          .temporary_directory = options.temporary_directory};
}

}  // namespace

FolderLoads::FolderLoads(const ManagerOptions& options, const ModelFolders& folders, ServableTable& table,
                         Drains& drains, FolderMakers makers, const ErrorTexts& error_texts, Logger& log)
    : options_(options),
      folders_(folders),
      copies_on_request_(folders.remote() && options.folders->control_mode == ControlMode::kExplicit),
      table_(table),
      drains_(drains),
      error_texts_(error_texts),
      log_(log),
      reader_(ReaderOptions(*options.folders), folders),
      loader_(options, std::move(makers), log,
              [&table](const std::string& model) { return table.WhyMissing(model); }) {}

// ---- several models ----

LoadSet FolderLoads::Collect(const std::vector<LoadRequest>& wanted) const {
  std::set<std::string> updated;
  const auto update = [this](const LoadRequest& one) {
    if (one.files.empty()) folders_.Update(one.model_name);
  };
  if (copies_on_request_) {
    ParallelFor(wanted.size(), options_.load_thread_count, [&](size_t i) { update(wanted[i]); });
    for (const LoadRequest& request : wanted) updated.insert(request.model_name);
  }
  return CollectLoads(wanted, {.uses =
                                   [&](const LoadRequest& one) {
                                     if (copies_on_request_ && !updated.contains(one.model_name)) update(one);
                                     return reader_.ModelsUsed(one);
                                   },
                               .kept = [this](const std::string& name) { return table_.KeptUses(name); }});
}

std::set<std::string> FolderLoads::LoadedWith(const LoadRequest& request) const {
  std::set<std::string> names;
  for (const auto& [name, one] : Collect({request}).requests) names.insert(name);
  return names;
}

Status FolderLoads::Plan(const std::vector<LoadRequest>& wanted, Steps& steps, Outcome& outcome) {
  auto loads = std::make_shared<LoadSet>(Collect(wanted));  // shared by the steps
  for (const LoadRequest& request : wanted) {
    if (!request.rights) continue;
    for (const std::string& used : UsedBy(loads->uses, request.model_name))
      BRAID_RETURN_IF_ERROR(request.rights(used));
  }
  std::set<std::string> names;
  for (auto& [name, request] : loads->requests) {
    request.rights = {};  // the table keeps requests, which outlive the rights of their senders
    names.insert(name);
  }
  BRAID_RETURN_IF_ERROR(table_.Claim(names));
  for (const auto& [name, request] : loads->requests) {
    if (!table_.CheckFree(name).ok()) {
      // The name may have a step of the config.json already.
      outcome[name] = LoadAndRelease(request, loads->uses);
      continue;
    }
    // Create the entry before threads write to it.
    steps[name] = {loads->uses.at(name), [this, loads, &request = request, &status = outcome[name]] {
                     status = LoadAndRelease(request, loads->uses);
                     // MakeIfDue() skipped the model while it was claimed.
                     MakeIfDue(request.model_name);
                   }};
  }
  return OkStatus();
}

void FolderLoads::MakeIfDue(const std::string& ensemble) {
  while (const auto request = table_.ClaimIfDue(ensemble)) {
    const Status status = LoadAndRelease(*request, {});
    if (!status.ok() && table_.Serves(ensemble)) {
      BRAID_LOG_WARNING(log_, "ensemble '{}' keeps the previous models: {}", ensemble, status.message());
    }
  }
}

// ---- one model ----

Status FolderLoads::LoadAndRelease(const LoadRequest& request, const Dependencies& uses) {
  const LogAbout about(request.model_name);
  const Status status = Guarded([&] { return LoadClaimed(request, uses); });
  if (options_.watch) table_.NoteReload(request.model_name, status.message());
  table_.Release(request.model_name, status);
  return status;
}

Status FolderLoads::LoadClaimed(const LoadRequest& request, const Dependencies& uses) {
  const std::string& name = request.model_name;
  table_.NoteRequest(request);
  if (Status free = table_.CheckFree(name); !free.ok()) {
    BRAID_LOG_ERROR(log_, "failed to load '{}': Given model name is already occupied", name);
    return free;
  }
  auto plan = Read(request);
  if (!plan.ok()) {
    BRAID_LOG_LINES(log_, kError, "Poll failed for model directory '{}': {}", name, plan.status().message());
    // A model that is not there needs no reason.
    const bool missing = request.files.empty() && plan.status().code() == StatusCode::kNotFound;
    const std::string why = missing ? "" : error_texts_.ForClients(plan.status().message());
    table_.NoteUnreadable(name, why);
    return InternalError("failed to load '" + Shortened(name) + "', failed to poll from model repository" +
                         (why.empty() ? "" : ": " + why));
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

Result<LoadPlan> FolderLoads::Read(const LoadRequest& request) {
  auto source = reader_.Open(request);
  if (request.files.empty()) {
    table_.NoteFolder(request.model_name, source.status().code() != StatusCode::kNotFound);
  }
  if (!source.ok()) return source.status();
  return MakeLoadPlan(reader_, request, std::move(source).value(), log_);
}

Status FolderLoads::Build(const LoadRequest& request, const LoadPlan& plan, const Dependencies& uses) {
  const std::string& name = request.model_name;
  const int64_t begin_ns = SteadyNowNs();
  const bool serves = table_.Serves(name);
  BRAID_ASSIGN_OR_RETURN(const std::vector<int64_t> versions, table_.BeginBuilds(name, plan.keys));
  Builds builds = BuildVersions(plan.source, versions, uses);
  const RetryingAllocation retrying;  // the new servables and those they replace must all be ended
  ServableTable::Built built;
  std::map<int64_t, std::string> reasons;
  std::string faults;
  for (auto& [version, build] : builds) {
    if (build.ok()) {
      built.emplace(version, *build);
      continue;
    }
    const std::string text = build.status().ToString();
    BRAID_LOG_LINES(log_, kError, "failed to load '{}' version {}: {}", name, version, text);
    const std::string told = error_texts_.ForClients(text);
    faults += "version " + std::to_string(version) + " is at UNAVAILABLE state: " + told + ";";
    reasons.emplace(version, told);
  }
  ServableTable::RetiredServables leaving;
  if (reasons.empty()) {
    for (auto& [version, servable] : built) {
      if (options_.sequence_vault != nullptr) options_.sequence_vault->Enter(servable);
    }
    if (table_.Serve(request, plan, built, leaving)) {
      table_.Drain(std::move(leaving));
      const int64_t took_ms = (SteadyNowNs() - begin_ns) / kMillisecondNs;
      if (options_.watch && serves) {
        BRAID_LOG_INFO(log_, "reloaded '{}' in {} ms", name, took_ms);
      } else {
        BRAID_LOG_INFO(log_, "successfully loaded '{}'", name);
      }
      return OkStatus();
    }
  }
  table_.AbandonBuilds(name, reasons);
  for (auto& [version, servable] : built) drains_.Discard(*servable);
  BRAID_LOG_INFO(log_, "failed to load '{}'{}", name,
                 options_.watch && serves ? "; the previous version serves until its files are mended" : "");
  if (faults.empty()) return UnavailableError("Server exiting");
  return InvalidArgumentError(LoadFailed(name) + faults + "\n");
}

FolderLoads::Builds FolderLoads::BuildVersions(const ModelSource& source,
                                               const std::vector<int64_t>& versions,
                                               const Dependencies& uses) {
  std::vector<std::optional<Result<std::shared_ptr<Servable>>>> built(versions.size());
  ParallelFor(versions.size(), options_.load_thread_count, [&](size_t i) {
    const Status guard = Guarded([&] { built[i].emplace(BuildVersion(source, versions[i], uses)); });
    if (!guard.ok()) built[i].emplace(guard);
  });
  const RetryingAllocation retrying;
  Builds builds;
  for (size_t i = 0; i < versions.size(); ++i) builds.emplace(versions[i], std::move(*built[i]));
  return builds;
}

Result<std::shared_ptr<Servable>> FolderLoads::BuildVersion(const ModelSource& source, int64_t version,
                                                            const Dependencies& uses) {
  const std::string& name = source.config.name();
  const LogAbout about(name);
  const auto uses_of = [&uses](const std::string& one) {
    const auto found = uses.find(one);
    return found == uses.end() ? std::vector<std::string>()
                               : std::vector<std::string>(found->second.begin(), found->second.end());
  };
  if (const std::string cycle = FindCycle(uses_of, name); !cycle.empty()) {
    return InvalidArgumentError("circular dependency between ensembles: " + cycle);
  }
  const auto progress = [this, &name, version](const std::string& text) {
    table_.NoteProgress(name, version, text);
  };
  for (int attempt = 0;; ++attempt) {
    BRAID_LOG_INFO(log_, "loading: {}:{}", name, version);
    auto built = loader_.Load(source, version, progress);
    if (built.ok() || attempt >= options_.folders->load_retry_count) return built;
    const StatusCode code = built.status().code();
    if (code == StatusCode::kInvalidArgument || code == StatusCode::kUnsupported) return built;
    BRAID_LOG_LINES(log_, kWarning, "failed to load '{}' version {}, trying again: {}", name, version,
                    built.status().ToString());
  }
}

}  // namespace braid
