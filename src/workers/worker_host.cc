#include "workers/worker_host.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>

#include "base/batch.h"
#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"
#include "base/thread_stack.h"

namespace braid {
namespace {

// The thread checks its state at this interval when nothing happens.
constexpr int64_t kIdleNs = kSecondNs;
// The most messages of a worker handled in one batch.
constexpr size_t kMostBatched = 16;

bool IsOfUserCode(MessageType type) {
  return type == MessageType::kCall || type == MessageType::kCancelCall || type == MessageType::kAsk;
}

}  // namespace

WorkerHost::WorkerHost(Options options, const WorkerSpec& spec, const WorkerFacts& facts,
                       const WorkerServices& services, WorkerSpawner& spawner, Arena& arena, WorkerUser& user)
    : options_(std::move(options)),
      spec_(spec),
      facts_(facts),
      services_(services),
      spawner_(spawner),
      arena_(arena),
      log_(spawner.support().log),
      user_(user) {}

WorkerHost::~WorkerHost() { BRAID_CHECK(!thread_.joinable()); }

void WorkerHost::Start(std::function<void(Status)> on_started) {
  on_started_ = std::move(on_started);
  user_.OnDown(options_.title + " is starting");
  thread_ = StartThread(options_.thread_name.c_str(), [this] { Run(); });
}

Status WorkerHost::StartAndWait() {
  auto started = std::make_shared<std::promise<Status>>();
  auto result = started->get_future();
  Start([started](Status status) { started->set_value(std::move(status)); });
  Status status = result.get();
  if (!status.ok()) Join();
  return status;
}

void WorkerHost::BeginStop(int64_t deadline_ns) {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    stop_deadline_ns_ = deadline_ns;
  }
  Wake();
}

void WorkerHost::Join() {
  if (thread_.joinable()) thread_.join();
}

void WorkerHost::Wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  if (worker_) worker_->channel()->Interrupt();
  woken_changed_.NotifyAll();
}

void WorkerHost::End(std::string reason) {
  {
    MutexLock lock(mutex_);
    end_reason_ = std::move(reason);
  }
  Wake();
}

std::string WorkerHost::Progress() const {
  MutexLock lock(mutex_);
  return progress_;
}

void WorkerHost::RetireSegment(uint32_t segment) {
  std::shared_ptr<WorkerMemory> memory;
  {
    MutexLock lock(mutex_);
    if (conversation_) memory = conversation_->memory();
  }
  if (memory) memory->RetireOwn(segment);
}

void WorkerHost::TrimArena() {
  if (!arena_.has_excess()) return;
  for (uint32_t segment : arena_.Trim(SteadyNowNs())) RetireSegment(segment);
}

void WorkerHost::Describe(InstanceReport& report) const {
  report.pid = pid_.load(std::memory_order_relaxed);
  report.started_ms = born_ms_.load(std::memory_order_relaxed);
  report.restarts = restarts_.load(std::memory_order_relaxed);
}

bool WorkerHost::stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

// --- Messages
// -----------------------------------------------------------------------------------------------------

Status WorkerHost::AdmitForks() {
  if (!options_.runs_user_code) return InvalidArgumentError("it requested its own channel");
  // Their sockets arrive among the worker's segments.
  BRAID_RETURN_IF_ERROR(conversation_->memory()->ReceiveSegments());
  for (UniqueFd& fork_socket : worker_->channel()->TakeForkSockets()) {
    if (!forks_) {
      forks_ = std::make_unique<ForkedChildren>(services_, arena_, log_, user_.ForkedChain(),
                                                worker_->channel()->imports());
    }
    forks_->Admit(std::move(fork_socket));
  }
  return OkStatus();
}

Status WorkerHost::Handle(const std::vector<std::byte>& message) {
  if (!options_.runs_user_code && IsOfUserCode(TypeOf(message))) return WorkerConversation::Malformed();
  std::string requests;
  std::optional<LogRequests> about;
  if (log_.colours() && TypeOf(message) == MessageType::kLog) {
    requests = user_.RequestsNow();
    about.emplace(requests);
  }
  BRAID_ASSIGN_OR_RETURN(const bool handled, conversation_->Handle(message));
  if (handled) return OkStatus();
  if (TypeOf(message) != MessageType::kFinalized) return user_.OnMessage(message);
  finalized_ = true;
  return OkStatus();
}

// --- The worker's life
// -----------------------------------------------------------------------------------------------

Status WorkerHost::StartWorker() {
  finalized_ = served_ = killed_ = asked_to_finalize_ = ended_by_force_ = false;
  ForkSource* source = options_.source != nullptr && options_.source->active() ? options_.source : nullptr;
  BRAID_ASSIGN_OR_RETURN(auto worker, WorkerProcess::Start(spec_.name, facts_.isolation, spawner_, source));
  auto conversation =
      std::make_unique<WorkerConversation>(worker->channel(), arena_, services_, log_,
                                           [this](const CallMessage& call) { return user_.OriginOf(call); });
  {
    MutexLock lock(mutex_);
    end_reason_.clear();  // of an earlier worker
    conversation_ = std::move(conversation);
    worker_ = std::move(worker);
  }
  born_ms_.store(WallNowMs(), std::memory_order_relaxed);
  pid_.store(worker_->pid(), std::memory_order_relaxed);
  const Status status = Guarded([&] {
    BRAID_RETURN_IF_ERROR(
        worker_->AwaitSignIn([this](const std::vector<std::byte>& message) { return Handle(message); }));
    BRAID_ASSIGN_OR_RETURN(const auto loaded, Load(source != nullptr ? LoadMode::kForked : options_.mode));
    return user_.OnUp({worker_->channel(), conversation_->memory()}, loaded);
  });
  if (!status.ok()) {
    killed_ = worker_->killed_by_others();
    worker_->EnsureDead();
    BuryWorker(status.message());
  }
  return status;
}

Result<WorkerProcess::Answer> WorkerHost::Load(LoadMode mode) {
  const WorkerProcess::LoadWatch watch{
      .who = options_.title,
      .doing = "initialising",
      .done = "been initialised",
      .timeout_ns = options_.initialize_timeout_ns,
      .look = [this](const std::string& progress) -> Status {
        if (worker_->channel()->TakeForkSignal()) BRAID_RETURN_IF_ERROR(AdmitForks());
        MutexLock lock(mutex_);
        if (!progress.empty()) progress_ = progress;
        if (stopping_ && SteadyNowNs() >= stop_deadline_ns_)
          return UnavailableError("the server stopped while " + options_.title + " was initialising");
        return OkStatus();
      }};
  return worker_->Load(
      mode, facts_, spec_, [this](const std::vector<std::byte>& message) { return Handle(message); }, watch);
}

int64_t WorkerHost::WatchStuck(int64_t now_ns, int64_t next_ns, bool stuck,
                               const std::function<std::string()>& text) {
  if (stuck && !stuck_.passed()) {
    stuck_ = UserCodeLimit::PassedAt(now_ns);
    if (options_.counters != nullptr) options_.counters->execute_timeouts.fetch_add(1);
    BRAID_LOG_ERROR(log_, "{}; its stacks follow", text());
    worker_->WriteStacks();
  } else if (stuck && stuck_.over(now_ns)) {
    stuck_ = {};
    End(text());
  } else if (!stuck && stuck_.passed()) {
    stuck_ = {};
    BRAID_LOG_INFO(log_, "{} has returned from its overdue call", options_.title);
  }
  return std::max(std::min(next_ns, stuck_.next_ns()), now_ns + UserCodeLimit::kShortestLookNs);
}

int64_t WorkerHost::LookAtEnd(int64_t now_ns, int64_t deadline_ns) {
  if (!asked_to_finalize_) {
    asked_to_finalize_ = true;
    user_.OnDown(options_.title + " is being stopped");
    std::vector<std::byte> finalize;
    EncodeBare(finalize, MessageType::kFinalize);
    // If this cannot be sent, the worker is killed at the deadline.
    (void)worker_->channel()->Send(finalize);
    // If there is time, the limit passes before the deadline, so that the stacks of user code are logged.
    int64_t limit_ns = options_.finalize_timeout_ns;
    const int64_t left_ns = deadline_ns - UserCodeLimit::kGraceNs - now_ns;
    if (options_.runs_user_code && left_ns > UserCodeLimit::kGraceNs)
      limit_ns = limit_ns > 0 ? std::min(limit_ns, left_ns) : left_ns;
    finalizing_ = UserCodeLimit(now_ns, limit_ns);
  }
  if (ended_by_force_) return now_ns + kIdleNs;
  if (!finalized_ && finalizing_.Passes(now_ns)) {
    BRAID_LOG_WARNING(log_, "{} has not been finalized yet; its stacks follow", options_.title);
    worker_->WriteStacks();
  }
  if (now_ns >= deadline_ns || (!finalized_ && finalizing_.over(now_ns))) {
    ended_by_force_ = true;
    if (!finalized_ && now_ns >= deadline_ns) {
      BRAID_LOG_WARNING(log_, "{} did not end in time and was killed", options_.title);
    } else if (!finalized_) {
      BRAID_LOG_WARNING(log_,
                        "{} has not been finalized within {} ms (--finalize-timeout-ms, FINALIZE_TIMEOUT_MS) "
                        "and was killed",
                        options_.title, options_.finalize_timeout_ns / kMillisecondNs);
    }
    worker_->Kill();
  }
  return finalized_ ? deadline_ns : std::min(deadline_ns, finalizing_.next_ns());
}

std::string WorkerHost::Serve() {
  std::vector<std::byte> message;
  int64_t next_idle = 0;
  while (true) {
    bool stopping = false;
    int64_t deadline = 0;
    {
      MutexLock lock(mutex_);
      stopping = stopping_;
      deadline = stop_deadline_ns_;
      woken_ = false;
      if (!end_reason_.empty()) return end_reason_;
    }
    const int64_t now = SteadyNowNs();
    int64_t timeout = kIdleNs;
    if (stopping) timeout = std::clamp(LookAtEnd(now, deadline) - now, kMillisecondNs, kIdleNs);
    if (now >= next_idle) {
      next_idle = now + kIdleNs;
      GuardedOrReport(options_.thread_name, [this] { user_.OnIdle(); });
    }
    timeout = std::clamp(user_.OnRound(now) - now, int64_t{0}, timeout);
    if (worker_->channel()->TakeForkSignal()) {
      Status handled = Guarded([this] { return AdmitForks(); });
      if (!handled.ok()) return handled.message();
    }
    if (conversation_->stuck()) return "it does not read the responses to its calls";
    const bool dead = worker_->dead();
    Channel::Outcome outcome = worker_->channel()->Receive(message, dead ? 0 : timeout);
    {
      // Handles available messages before the next round, so that their answers can be sent together.
      const Batch batch;
      for (size_t handled = 0; outcome == Channel::Outcome::kMessage;) {
        if (Status status = Guarded([&] { return Handle(message); }); !status.ok()) return status.message();
        if (++handled == kMostBatched) break;
        outcome = worker_->channel()->Receive(message, 0);
      }
    }
    if (outcome == Channel::Outcome::kCorrupted) return "it wrote invalid data to its channel";
    if (outcome == Channel::Outcome::kTimeout && dead) return "";
  }
}

void WorkerHost::BuryWorker(const std::string& reason) {
  pid_.store(0, std::memory_order_relaxed);
  user_.OnDead();
  stuck_ = {};
  forks_.reset();
  conversation_->Abandon();
  {
    std::unique_ptr<WorkerProcess> gone;
    std::unique_ptr<WorkerConversation> ended;
    MutexLock lock(mutex_);
    gone = std::move(worker_);
    ended = std::move(conversation_);
  }
  user_.OnGone(reason);
}

void WorkerHost::Pause(int64_t until_ns) {
  while (true) {
    const int64_t now = SteadyNowNs();
    const int64_t round = user_.OnRound(now);
    MutexLock lock(mutex_);
    if (stopping_ || now >= until_ns) return;
    if (!woken_) woken_changed_.WaitFor(mutex_, std::chrono::nanoseconds(std::min(round, until_ns) - now));
    woken_ = false;
  }
}

bool WorkerHost::Restart(RestartPauses& pauses, RestartPauses::Life life, std::string cause) {
  while (true) {
    const int64_t pause_ns = pauses.After(life);
    user_.OnDown(pauses.failures() < 2
                     ? fmt::format("{} The {} is being restarted.", cause, options_.noun)
                     : fmt::format("{} The {} has failed {} times in a row; next try in {:g} s.", cause,
                                   options_.noun, pauses.failures(),
                                   static_cast<double>(pause_ns) / static_cast<double>(kSecondNs)));
    Pause(SteadyNowNs() + pause_ns);
    if (stopping()) return false;
    const Status restarted = Guarded([this] { return StartWorker(); });
    if (restarted.ok()) {
      restarts_.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    life = {.killed = killed_};
    BRAID_LOG_ERROR(log_, "{} could not be restarted: {}", options_.title, restarted.message());
    cause = services_.catalog->error_texts().ForClients(restarted.message());
  }
}

ThreadWatch::Work WorkerHost::work() const {
  MutexLock lock(mutex_);
  if (!worker_) return {};
  const uint64_t handled = worker_->channel()->handled();
  return {worker_->channel()->sent(), handled};
}

void WorkerHost::Run() {
  std::unique_ptr<ThreadWatch::Watched> watched;
  if (services_.thread_watch != nullptr) {
    watched = services_.thread_watch->WatchWork(options_.thread_name, options_.title, ThreadId(),
                                                [this] { return work(); });
  }
  // This thread keeps state for all work of the worker, so failed allocations are retried.
  const RetryingAllocation retrying;
  const LogAbout about(facts_.model_name);
  const Status started = Guarded([this] { return StartWorker(); });
  if (!started.ok()) user_.OnDown(started.message());
  on_started_(started);
  if (!started.ok()) return;
  RestartPauses pauses;
  while (true) {
    const int64_t ready_since = SteadyNowNs();
    std::string broken_rule;
    if (Status fault = Guarded([&] { broken_rule = Serve(); }); !fault.ok()) broken_rule = fault.message();
    const bool in_order = stopping() && broken_rule.empty();
    const RestartPauses::Life life = {
        .served = served_, .killed = worker_->killed_by_others(), .up_ns = SteadyNowNs() - ready_since};
    worker_->EnsureDead();
    const WorkerProcess::Death death = worker_->DescribeDeath(broken_rule);
    user_.OnDown(death.told);
    BuryWorker(death.told);
    if (stopping()) {
      if (!in_order || !finalized_)
        BRAID_LOG_WARNING(log_, "{} ended without finalize: {}", options_.title, death.logged);
      break;
    }
    BRAID_LOG_ERROR(log_, "{}", death.logged);
    if (!Restart(pauses, life, death.told)) break;
    BRAID_LOG_INFO(log_, "{} is back", options_.title);
  }
  user_.OnRound(SteadyNowNs());
}

}  // namespace braid
