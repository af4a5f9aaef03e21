#include "backends/python/python_model.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "backends/python/python_instance.h"
#include "backends/python/replaceable_instance.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "serving/readiness_round.h"

namespace braid {
namespace {

constexpr auto kProgressInterval = std::chrono::seconds(1);
// For instances that started while another instance of the model failed.
constexpr int64_t kStopAfterFailureNs = 10'000'000'000;

}  // namespace

PythonModel::PythonModel(ModelLocation location, WorkerFacts facts, const std::vector<WorkerSpec>& instances,
                         const Arena::Options& arena, const WorkerServices& services,
                         std::shared_ptr<PythonEnvironment> environment, MemoryLimits& limits,
                         const ModelBounds& bounds, DeviceTensors device_tensors)
    : location_(std::move(location)),
      facts_(std::move(facts)),
      log_(environment->spawner().support().log),
      device_tensors_(device_tensors),
      environment_(std::move(environment)),
      arena_(environment_->spawner().support().segment_ids, arena),
      share_(bounds.share_instances) {
  if (share_ != ShareInstances::kOff)
    template_ = std::make_unique<ModelTemplate>(instances.front(), facts_, services, environment_->spawner(),
                                                arena_, bounds.initialize_timeout_ns());
  for (const WorkerSpec& spec : instances) {
    std::shared_ptr<WorkerCounters::Row> counters;
    if (services.worker_counters != nullptr)
      counters = services.worker_counters->Add({facts_.model_name, facts_.model_version, spec.name});
    const auto make = [=, this, &services](std::optional<PythonInstance::Owner> owner) {
      return std::make_unique<PythonInstance>(spec, facts_, services, environment_->spawner(), arena_, bounds,
                                              counters, std::move(owner), template_.get());
    };
    if (bounds.memory_max_bytes == 0) {
      instances_.push_back(make({}));
    } else {
      instances_.push_back(std::make_unique<ReplaceableInstance>(
          ReplaceableInstance::Options{facts_.model_name, spec.name, spec.passive, bounds.memory_max_bytes},
          make, limits, log_, counters));
    }
  }
}

PythonModel::~PythonModel() { BRAID_CHECK(!started_); }

std::vector<Instance*> PythonModel::instances() {
  std::vector<Instance*> all;
  for (auto& instance : instances_) all.push_back(instance.get());
  return all;
}

std::optional<InstanceReport> PythonModel::instance_template() const {
  const pid_t pid = template_ ? template_->pid() : 0;
  if (pid == 0) return std::nullopt;
  InstanceReport report;
  report.name = facts_.model_name + "_template";
  report.pid = pid;
  return report;
}

Status PythonModel::Start(ExecutionListener& listener,
                          const std::function<void(const std::string&)>& progress) {
  Mutex mutex;
  CondVar changed;
  size_t waiting = instances_.size();
  Status first_error;
  if (template_) BRAID_RETURN_IF_ERROR(StartTemplate(progress));
  started_ = true;
  for (auto& instance : instances_) {
    instance->Start(
        listener,
        [&](Status status) {
          MutexLock lock(mutex);
          if (first_error.ok()) first_error = std::move(status);
          --waiting;
          changed.NotifyAll();
        },
        [this] { TrimArena(); });
  }
  {
    MutexLock lock(mutex);
    std::string reported;
    auto report_at = std::chrono::steady_clock::now() + kProgressInterval;
    while (waiting > 0) {
      if (changed.WaitUntil(mutex, report_at) || waiting == 0) continue;
      report_at = std::chrono::steady_clock::now() + kProgressInterval;
      std::string text;
      for (auto& instance : instances_) {
        if (text.empty()) text = instance->Progress();
      }
      if (!text.empty() && text != reported) {
        progress(text);
        reported = text;
      }
    }
  }
  if (!first_error.ok()) Stop(SteadyNowNs() + kStopAfterFailureNs);
  return first_error;
}

Status PythonModel::StartTemplate(const std::function<void(const std::string&)>& progress) {
  Status started = template_->Start(progress);
  // The zygote may have died, and another one is there by now.
  if (started.code() == StatusCode::kUnavailable) started = template_->Start(progress);
  if (started.code() != StatusCode::kUnsupported) return started;
  const std::string why =
      "instances of model '" + facts_.model_name + "' cannot share memory: " + started.message();
  if (share_ == ShareInstances::kOn) return FailedPreconditionError(why);
  BRAID_LOG_WARNING(log_, "{}", why);
  return OkStatus();
}

void PythonModel::Stop(int64_t deadline_ns) {
  if (!started_) return;
  if (template_) template_->BeginStop(deadline_ns);
  for (auto& instance : instances_) instance->BeginStop(deadline_ns);
  for (auto& instance : instances_) instance->Join();
  template_.reset();
  started_ = false;
  environment_.reset();
}

Readiness PythonModel::readiness() const {
  for (const auto& instance : instances_) {
    if (auto reason = instance->NotReadyReason()) return {false, *reason};
  }
  return {};
}

bool PythonModel::saves_sequences() const {
  return std::all_of(instances_.begin(), instances_.end(),
                     [](const auto& instance) { return instance->saves_sequences(); });
}

void PythonModel::CheckReadiness(std::function<void(Readiness)> done) {
  auto log_and_tell = [&log = log_, model = facts_.model_name, version = facts_.model_version,
                       done = std::move(done)](Readiness readiness) {
    if (!readiness.ready) {
      BRAID_LOG_VERBOSE(log, "Model '{}' version {} is not ready: {}", model, version, readiness.reason);
    }
    done(std::move(readiness));
  };
  auto round = std::make_shared<ReadinessRound>(instances_.size(), std::move(log_and_tell));
  for (auto& instance : instances_) instance->CheckReadiness(ReadinessRound::Answer(round));
}

void PythonModel::TrimArena() {
  if (!arena_.has_excess()) return;
  for (uint32_t segment : arena_.Trim(SteadyNowNs())) {
    for (auto& instance : instances_) instance->RetireSegment(segment);
  }
}

}  // namespace braid
