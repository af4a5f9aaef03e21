#include "workers/auto_complete.h"

#include "workers/worker_asks.h"
#include "workers/worker_conversation.h"

namespace braid {

Result<std::string> AutoCompleteConfig(const WorkerFacts& facts, WorkerSpawner& spawner, int64_t timeout_ns,
                                       CustomMetrics* metrics) {
  const WorkerSpec spec{facts.model_name, "CPU", 0, false};
  BRAID_ASSIGN_OR_RETURN(auto worker, WorkerProcess::Start(spec.name, facts.isolation, spawner));
  // Models may create metrics when they are imported.
  const auto session = metrics == nullptr ? nullptr : metrics->Open();
  const auto other = [&](const std::vector<std::byte>& message) -> Status {
    AskMessage ask;
    if (TypeOf(message) == MessageType::kAsk && Decode(message, ask)) {
      HandleAsk(WorkerServices(), ask, worker->channel(), session.get());
      return OkStatus();
    }
    LogMessage line;
    if (TypeOf(message) != MessageType::kLog || !Decode(message, line)) {
      return InvalidArgumentError("it sent an unexpected message");
    }
    WriteWorkerLog(spawner.support().log, line);
    return OkStatus();
  };
  BRAID_RETURN_IF_ERROR(worker->AwaitSignIn(other));
  const WorkerProcess::LoadWatch watch{.who = "model '" + facts.model_name + "'",
                                       .doing = "completing its configuration",
                                       .done = "completed its configuration",
                                       .timeout_ns = timeout_ns,
                                       .look = [&](const std::string&) {
                                         // Requests of forked processes are dropped: there is nothing to ask
                                         // for here.
                                         (void)worker->channel()->TakeForkSignal();
                                         return OkStatus();
                                       }};
  BRAID_ASSIGN_OR_RETURN(auto answer, worker->Load(LoadMode::kAutoComplete, facts, spec, other, watch));
  return std::move(answer.completed_config);
}

}  // namespace braid
