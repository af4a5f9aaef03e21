#include "workers/auto_complete.h"

#include "base/clock.h"
#include "workers/user_code_limit.h"
#include "workers/worker_asks.h"

namespace braid {

Result<std::string> AutoCompleteConfig(const WorkerFacts& facts, WorkerSpawner& spawner, ChildReaper& reaper,
                                       Logger& log, int64_t sign_in_timeout_ns, int64_t timeout_ns,
                                       CustomMetrics* metrics) {
  const WorkerSpec spec{facts.model_name, "CPU", 0, false};
  BRAID_ASSIGN_OR_RETURN(auto worker, WorkerProcess::Start(spec.name, facts.isolation, spawner, reaper, log));
  // Modules make their metrics when they are imported, as it happens.
  const auto session = metrics == nullptr ? nullptr : metrics->Open();
  const auto other = [&](const std::vector<std::byte>& message) -> Status {
    AskMessage ask;
    if (TypeOf(message) == MessageType::kAsk && Decode(message, ask)) {
      HandleAsk(WorkerServices(), ask, worker->channel(), session.get());
      return OkStatus();
    }
    LogMessage line;
    if (TypeOf(message) != MessageType::kLog || !Decode(message, line)) {
      return InvalidArgumentError("it sent a message that has no place here");
    }
    WriteWorkerLog(log, line);
    return OkStatus();
  };
  BRAID_RETURN_IF_ERROR(worker->AwaitSignIn(sign_in_timeout_ns, other));
  UserCodeLimit limit(SteadyNowNs(), timeout_ns);
  const auto overdue = [&] {
    return UnavailableError(
        fmt::format("model '{}' has not completed its configuration within {} ms (--initialize-timeout-ms, "
                    "INITIALIZE_TIMEOUT_MS)",
                    facts.model_name, timeout_ns / 1'000'000));
  };
  int64_t next_report = 10;
  const auto still_loading = [&](int64_t elapsed_ns) -> Result<int64_t> {
    // Processes that it forks are not answered: there is nothing to ask for here.
    (void)worker->channel()->TakeKnock();
    const int64_t now = SteadyNowNs();
    if (limit.Passes(now)) {
      BRAID_LOG_ERROR(log, "{}; its stacks follow", overdue().message());
      worker->WriteStacks();
    }
    if (limit.over(now)) return overdue();
    if (const int64_t seconds = elapsed_ns / 1'000'000'000; seconds >= next_report) {
      next_report += 10;
      BRAID_LOG_INFO(log, "model '{}' has been completing its configuration for {} s", facts.model_name,
                     seconds);
    }
    return limit.next_ns() - now;
  };
  BRAID_ASSIGN_OR_RETURN(auto answer,
                         worker->Load(LoadMode::kAutoComplete, facts, spec, other, still_loading));
  if (limit.passed()) return overdue();
  return std::move(answer.completed_config);
}

}  // namespace braid
