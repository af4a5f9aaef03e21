#include "workers/model_template.h"

#include <utility>

#include "base/clock.h"
#include "base/guard.h"

namespace braid {

ModelTemplate::ModelTemplate(WorkerSpec spec, const WorkerFacts& facts, const WorkerServices& services,
                             WorkerSpawner& spawner, Arena& arena, int64_t initialize_timeout_ns)
    : spec_(std::move(spec)),
      facts_(facts),
      services_(services),
      spawner_(spawner),
      arena_(arena),
      log_(spawner.support().log),
      initialize_timeout_ns_(initialize_timeout_ns),
      chain_(std::make_shared<CallChain>(
          CallChain{.model = facts.model_name, .instance = spec_.name, .parents = {}})) {}

ModelTemplate::~ModelTemplate() {
  ending_ = true;
  MutexLock lock(mutex_);
  EndProcess();
}

Status ModelTemplate::Start(const std::function<void(const std::string&)>& progress) {
  MutexLock lock(mutex_);
  BRAID_RETURN_IF_ERROR(StartProcess(progress));
  active_ = true;
  return OkStatus();
}

Status ModelTemplate::StartProcess(const std::function<void(const std::string&)>& progress) {
  BRAID_ASSIGN_OR_RETURN(const UniqueFd theirs, server_.Open(spawner_.timeout_ns(), ending_));
  BRAID_ASSIGN_OR_RETURN(process_,
                         WorkerProcess::StartTemplate(spec_.name, facts_.isolation, spawner_, theirs));
  conversation_ = std::make_unique<WorkerConversation>(
      process_->channel(), arena_, services_, log_,
      [this](const CallMessage&) { return WorkerConversation::Origin{.chain = chain_, .trace = nullptr}; });
  Status loaded = Load(progress);
  if (loaded.ok()) {
    pid_ = process_->pid();
  } else {
    EndProcess();
  }
  return loaded;
}

Status ModelTemplate::Load(const std::function<void(const std::string&)>& progress) {
  WorkerConversation& conversation = *conversation_;
  const auto handle = [&conversation](const std::vector<std::byte>& message) -> Status {
    BRAID_ASSIGN_OR_RETURN(const bool handled, conversation.Handle(message));
    return handled ? OkStatus() : WorkerConversation::Malformed();
  };
  BRAID_RETURN_IF_ERROR(process_->AwaitSignIn(handle));
  WorkerProcess& process = *process_;
  const WorkerProcess::LoadWatch watch{.who = "the template of model '" + facts_.model_name + "'",
                                       .doing = "initialising",
                                       .done = "been initialised",
                                       .timeout_ns = initialize_timeout_ns_,
                                       .look = [&](const std::string& text) -> Status {
                                         // Forked children of initialize() cannot call the server.
                                         static_cast<void>(process.channel()->TakeForkSignal());
                                         if (!text.empty()) progress(text);
                                         if (SteadyNowNs() >= deadline_ns_)
                                           return UnavailableError("the server stopped while model '" +
                                                                   facts_.model_name + "' was initialising");
                                         return OkStatus();
                                       }};
  BRAID_ASSIGN_OR_RETURN(const auto answer,
                         process_->Load(LoadMode::kTemplate, facts_, spec_, handle, watch));
  return OkStatus();
}

void ModelTemplate::EndProcess() {
  pid_ = 0;
  server_.Close();
  if (process_) process_->EnsureDead();
  if (conversation_) conversation_->Abandon();
  conversation_.reset();
  process_.reset();
}

Status ModelTemplate::Use(const std::function<Status(const ForkServer&)>& fork) {
  const RetryingAllocation retrying;  // an order and its answer belong together
  MutexLock lock(mutex_);
  if (process_ && process_->dead()) {
    BRAID_LOG_WARNING(log_, "the template of model '{}' ended and is replaced: {}", facts_.model_name,
                      process_->DescribeDeath("").logged);
    EndProcess();
  }
  if (!process_) BRAID_RETURN_IF_ERROR(StartProcess([](const std::string&) {}));
  Status forked = fork(server_);
  if (forked.code() == StatusCode::kUnavailable) {
    const WorkerProcess::Death death = process_->DescribeDeath("");
    BRAID_LOG_WARNING(log_, "the template of model '{}' is lost: {}; {}", facts_.model_name, forked.message(),
                      death.logged);
    EndProcess();
  }
  return forked;
}

}  // namespace braid
