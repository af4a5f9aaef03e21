#include "repository/config_repository.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>
#include <mutex>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "repository/config_graphs.h"
#include "repository/config_models.h"
#include "repository/config_pipelines.h"
#include "repository/config_plan.h"
#include "repository/config_states.h"
#include "repository/drains.h"
#include "repository/repository_life.h"

namespace braid {
namespace {

constexpr int64_t kMillisecondNs = 1000000;
constexpr int64_t kSecondNs = 1000 * kMillisecondNs;
// How often a repository with pipelines looks whether the catalog has changed.
constexpr int64_t kWatchNs = 100 * kMillisecondNs;

// What pipelines and others' servables are made of is as deep at most; nobody makes circles of them.
constexpr int kMostRounds = 1000;

// The texts of OpenVINO Model Server's REST API; the reasons are in the log.
constexpr const char* kUnreadable = "Config file not found or cannot open.";
constexpr const char* kConfigFailed = "Reloading config file failed. Check server logs for more info.";
constexpr const char* kVersionsFailed = "Reloading models versions failed. Check server logs for more info.";

// `fault` as a client is told of it: by its codes and another text.
Status Told(const Status& fault, const char* text) {
  const Status told(fault.code(), text);
  return fault.http_status() == 0 ? told : told.WithHttpStatus(fault.http_status());
}

}  // namespace

class ConfigRepository::Impl {
 public:
  Impl(ConfigRepositoryOptions options, Catalog& catalog, ConfigMakers makers, Logger& log)
      : options_(std::move(options)),
        catalog_(catalog),
        makers_(std::move(makers)),
        log_(log),
        drains_(options_.exit_timeout_seconds, options_.sequence_vault),
        states_(catalog, drains_, log),
        pipelines_(makers_, catalog, states_, drains_, log),
        models_(
            makers_, states_, drains_, options_.sequence_vault, [this] { pipelines_.Refresh(); },
            options_.load_thread_count, log),
        graphs_(makers_, states_, drains_, options_.load_thread_count, log) {}

  Status Start();
  Status Shutdown(int64_t deadline_ns);
  Result<bool> Reload();
  bool serving() const { return life_.serving(); }
  std::optional<OvmsMetricsConfig> metrics() const {
    std::lock_guard lock(mutex_);
    return metrics_;
  }

 private:
  // What one look at everything has brought.
  struct Findings {
    bool changed = false;
    Status unreadable;  // the file
    Status config;      // the file's text, or what of a new text could not be applied
    Status versions;    // what else could not be loaded
  };

  Findings Round(bool retry);
  bool ReadFile(bool retry, Findings& findings);
  void NameFolders();
  void Apply(bool fresh, bool retry, Findings& findings);
  void Settle();
  void PollLoop();

  const ConfigRepositoryOptions options_;
  Catalog& catalog_;
  const ConfigMakers makers_;
  Logger& log_;
  Drains drains_;
  ConfigStates states_;
  ConfigPipelines pipelines_;

  std::mutex round_mutex_;  // held while everything is looked at and loaded
  // All guarded by round_mutex_.
  ConfigModels models_;
  ConfigPlan plan_;
  ConfigGraphs graphs_;
  std::optional<std::string> text_;  // of the file, when it was last read
  Status text_fault_;                // what is wrong with it
  Status read_fault_;                // why it cannot be read now

  std::mutex settle_mutex_;  // held while what others serve, and the pipelines, are made anew
  uint64_t settled_ = 0;     // the catalog's generation then; guarded by settle_mutex_

  std::atomic<bool> watches_{false};  // there are pipelines
  mutable std::mutex mutex_;
  std::optional<OvmsMetricsConfig> metrics_;  // guarded by mutex_
  RepositoryLife life_;
};

Status ConfigRepository::Impl::Start() {
  const RepositoryLife::Work work(life_);
  if (!work.begun()) return UnavailableError("Server exiting");
  {
    std::lock_guard round(round_mutex_);
    Findings findings;
    if (!options_.config_path.empty()) {
      ReadFile(false, findings);
      BRAID_RETURN_IF_ERROR(findings.unreadable);
      BRAID_RETURN_IF_ERROR(findings.config);
    } else if (options_.single_model) {
      BRAID_ASSIGN_OR_RETURN(plan_, PlanSingleModel(*options_.single_model, log_));
      NameFolders();
    } else {
      return InvalidArgumentError("neither a config.json nor a model is given");
    }
    {
      std::lock_guard lock(mutex_);
      metrics_ = plan_.metrics;
    }
    Apply(true, true, findings);
  }
  BRAID_RETURN_IF_ERROR(life_.StartPolling("brd-config", [this] { PollLoop(); }));
  return life_.Serve();
}

Status ConfigRepository::Impl::Shutdown(int64_t deadline_ns) {
  life_.Exit();
  states_.Close();
  drains_.BeginShutdown(catalog_, deadline_ns);
  states_.RetireAll();
  const int64_t end_ns = deadline_ns + Drains::kStopGraceNs;
  if (!life_.End(end_ns)) return UnavailableError("a model or a pipeline is still being loaded");
  if (!drains_.WaitUntilEmpty(end_ns)) return UnavailableError("a model does not stop");
  drains_.Reap();
  return OkStatus();
}

Result<bool> ConfigRepository::Impl::Reload() {
  const RepositoryLife::Work work(life_);
  if (!work.begun()) return UnavailableError("Server exiting");
  if (!serving()) return UnavailableError("Server is not ready");
  const Findings findings = Round(true);
  if (!findings.unreadable.ok()) return Told(findings.unreadable, kUnreadable);
  if (!findings.config.ok()) return Told(findings.config, kConfigFailed);
  if (!findings.versions.ok()) return Told(findings.versions, kVersionsFailed);
  return findings.changed;
}

ConfigRepository::Impl::Findings ConfigRepository::Impl::Round(bool retry) {
  std::lock_guard round(round_mutex_);
  Findings findings;
  const bool fresh = !options_.config_path.empty() && ReadFile(retry, findings);
  Apply(fresh, retry, findings);
  drains_.Reap();
  return findings;
}

// True when there is a new plan. The file is known by its content.
bool ConfigRepository::Impl::ReadFile(bool retry, Findings& findings) {
  auto text = ReadConfigFile(options_.config_path);
  if (!text.ok()) {
    findings.unreadable = text.status();
    if (read_fault_ != text.status()) BRAID_LOG_ERROR(log_, "{}", text.status().message());
    read_fault_ = text.status();
    return false;
  }
  read_fault_ = OkStatus();
  if (text_ == *text && (text_fault_.ok() || !retry)) return false;
  text_ = *text;
  auto plan = ReadConfigPlan(options_.config_path, *text, log_);
  text_fault_ = plan.status();
  if (!plan.ok()) {
    BRAID_LOG_ERROR(log_, "{}: nothing of the file is applied: {}", options_.config_path,
                    plan.status().message());
    findings.config = plan.status();
    return false;
  }
  plan_ = std::move(plan).value();
  NameFolders();
  findings.changed = true;
  return true;
}

// In errors, what lies in a folder of the configuration is named relative to the one around it.
void ConfigRepository::Impl::NameFolders() {
  const auto name = [this](const std::string& folder) {
    const std::filesystem::path path(folder);
    catalog_.error_texts().AddRoot((path.has_filename() ? path : path.parent_path()).parent_path().string());
  };
  for (const auto& model : plan_.models) name(model.base_path);
  for (const auto& library : plan_.libraries) name(library.base_path);
  for (const auto& graph : plan_.graphs) name(graph.base_path);
}

void ConfigRepository::Impl::Apply(bool fresh, bool retry, Findings& findings) {
  if (fresh) {
    std::set<std::pair<std::string, ServableKind>> wanted;
    for (const auto& model : plan_.models) wanted.emplace(model.name, ServableKind::kModel);
    for (const auto& pipeline : plan_.pipelines) wanted.emplace(pipeline.name, ServableKind::kPipeline);
    for (const auto& graph : plan_.graphs) wanted.emplace(graph.name, ServableKind::kGraph);
    states_.Want(wanted);
  }
  ConfigOutcome outcome = models_.Sync(plan_.models, retry);
  Settle();
  if (fresh || retry) outcome.Add(pipelines_.Sync(plan_.pipelines, plan_.libraries, retry));
  // Behind the pipelines: a new definition may no longer need them.
  models_.RetireUnwanted();
  if (fresh || retry || options_.watch_graph_files) outcome.Add(graphs_.Sync(plan_.graphs, fresh || retry));
  Settle();
  findings.changed = findings.changed || outcome.changed;
  (fresh ? findings.config : findings.versions) = outcome.fault;
  if (const bool watches = !plan_.pipelines.empty(); watches_.exchange(watches) != watches) life_.Wake();
}

// Brings what is made of others' servables in step with these: what others have made of ours, pipelines of
// that, and what they have made of pipelines in turn, until nothing changes any longer.
void ConfigRepository::Impl::Settle() {
  std::lock_guard lock(settle_mutex_);
  for (int round = 0; round < kMostRounds && !states_.closed(); ++round) {
    const uint64_t now = catalog_.generation();
    if (std::exchange(settled_, now) == now) return;
    if (options_.changed) options_.changed();
    pipelines_.Refresh();
  }
}

void ConfigRepository::Impl::PollLoop() {
  const int64_t poll_ns =
      options_.poll_seconds > 0 ? options_.poll_seconds * kSecondNs : std::numeric_limits<int64_t>::max() / 2;
  int64_t next_ns = SteadyNowNs() + poll_ns;
  for (;;) {
    if (!life_.Sleep(watches_ ? std::min(next_ns, SteadyNowNs() + kWatchNs) : next_ns)) return;
    const RepositoryLife::Work work(life_);
    if (!work.begun()) return;
    GuardedOrReport("brd-config", [this] { Settle(); });
    if (SteadyNowNs() >= next_ns) {
      GuardedOrReport("brd-config", [this] { Round(false); });
      next_ns = SteadyNowNs() + poll_ns;
    }
  }
}

ConfigRepository::ConfigRepository(ConfigRepositoryOptions options, Catalog& catalog, ConfigMakers makers,
                                   Logger& log)
    : impl_(std::make_unique<Impl>(std::move(options), catalog, std::move(makers), log)) {}
ConfigRepository::~ConfigRepository() = default;

Status ConfigRepository::Start() { return impl_->Start(); }
Status ConfigRepository::Shutdown(int64_t deadline_ns) { return impl_->Shutdown(deadline_ns); }
bool ConfigRepository::serving() const { return impl_->serving(); }
std::optional<OvmsMetricsConfig> ConfigRepository::metrics() const { return impl_->metrics(); }
Result<bool> ConfigRepository::Reload() { return impl_->Reload(); }

}  // namespace braid
