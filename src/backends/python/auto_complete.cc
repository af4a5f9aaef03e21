#include "backends/python/auto_complete.h"

#include "backends/python/worker_asks.h"

namespace braid {

Result<std::string> AutoCompleteConfig(const PythonModelFacts& facts, WorkerSpawner& spawner,
                                       ChildReaper& reaper, Logger& log, int64_t sign_in_timeout_ns,
                                       CustomMetrics* metrics) {
  const PythonInstanceSpec spec{facts.model_name, "CPU", 0, false};
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
  int64_t next_report = 10;
  const auto still_loading = [&](int64_t seconds) {
    // Processes that it forks are not answered: there is nothing to ask for here.
    (void)worker->channel()->TakeKnock();
    if (seconds >= next_report) {
      next_report += 10;
      BRAID_LOG_INFO(log, "model '{}' has been completing its configuration for {} s", facts.model_name,
                     seconds);
    }
    return OkStatus();
  };
  BRAID_ASSIGN_OR_RETURN(auto answer,
                         worker->Load(LoadMode::kAutoComplete, facts, spec, other, still_loading));
  return std::move(answer.completed_config);
}

}  // namespace braid
