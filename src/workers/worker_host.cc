#include "workers/worker_host.h"

#include <algorithm>
#include <chrono>

#include "base/batch.h"
#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"
#include "base/thread_stack.h"
#include "workers/worker_asks.h"

namespace braid {
namespace {

// The thread looks around so often when nothing happens.
constexpr int64_t kIdleNs = kSecondNs;
constexpr int64_t kProgressSeconds = 10;
// Messages of a worker that are handled in one go.
constexpr size_t kMostBatched = 16;

bool IsOfUserCode(MessageType type) {
  return type == MessageType::kCall || type == MessageType::kCancelCall || type == MessageType::kAsk;
}

}  // namespace

WorkerHost::WorkerHost(Options options, const WorkerSpec& spec, const WorkerFacts& facts,
                       const WorkerServices& services, WorkerSpawner& spawner, ChildReaper& reaper,
                       Arena& arena, Logger& log, WorkerUser& user)
    : options_(std::move(options)),
      spec_(spec),
      facts_(facts),
      services_(services),
      spawner_(spawner),
      reaper_(reaper),
      arena_(arena),
      log_(log),
      user_(user) {}

WorkerHost::~WorkerHost() { BRAID_CHECK(!thread_.joinable()); }

void WorkerHost::Start(std::function<void(Status)> on_started) {
  on_started_ = std::move(on_started);
  user_.OnDown(options_.title + " is starting");
  thread_ = StartThread(options_.thread_name.c_str(), [this] { Run(); });
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
    memory = memory_;
  }
  if (memory) memory->RetireOwn(segment);
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

Status WorkerHost::HandleKnock() {
  if (!options_.runs_user_code) return InvalidArgumentError("it asked for a channel of its own");
  // Their sockets come among the worker's segments.
  BRAID_RETURN_IF_ERROR(memory_->ReceiveSegments());
  for (UniqueFd& knocker : worker_->channel()->TakeKnockers()) {
    if (!forks_) {
      forks_ = std::make_unique<ForkedChildren>(services_, arena_, log_, user_.ForkedChain(),
                                                worker_->channel()->imports());
    }
    forks_->Admit(std::move(knocker));
  }
  return OkStatus();
}

Status WorkerHost::Handle(const std::vector<std::byte>& message) {
  const auto malformed = [] { return InvalidArgumentError("the worker sent a message that cannot be read"); };
  if (!options_.runs_user_code && IsOfUserCode(TypeOf(message))) return malformed();
  switch (TypeOf(message)) {
    case MessageType::kRelease: {
      ReleaseMessage release;
      return Decode(message, release) ? memory_->OnRelease(release) : malformed();
    }
    case MessageType::kRetireSegment: {
      RetireSegmentMessage retired;
      return Decode(message, retired) ? memory_->OnRetire(retired.segment) : malformed();
    }
    case MessageType::kCall: {
      CallMessage call;
      if (!Decode(message, call)) return malformed();
      WorkerUser::Origin origin = user_.OriginOf(call);
      return calls_->Begin(call, std::move(origin.chain), origin.trace.get(),
                           std::max(origin.begun_ns, started_ns_));
    }
    case MessageType::kCancelCall: {
      CancelCallMessage cancel;
      if (!Decode(message, cancel)) return malformed();
      calls_->Cancel(cancel);
      return OkStatus();
    }
    case MessageType::kLog: {
      LogMessage log;
      if (!Decode(message, log)) return malformed();
      WriteWorkerLog(log_, log);
      return OkStatus();
    }
    case MessageType::kAsk: {
      AskMessage ask;
      if (!Decode(message, ask)) return malformed();
      HandleAsk(services_, ask, worker_->channel(), metrics_.get());
      return OkStatus();
    }
    case MessageType::kFinalized:
      finalized_ = true;
      return OkStatus();
    default:
      return user_.OnMessage(message);
  }
}

// --- The worker's life
// -----------------------------------------------------------------------------------------------

Status WorkerHost::StartWorker() {
  finalized_ = served_ = killed_ = asked_to_finalize_ = ended_by_force_ = false;
  started_ns_ = SteadyNowNs();
  BRAID_ASSIGN_OR_RETURN(auto worker,
                         WorkerProcess::Start(spec_.name, facts_.isolation, spawner_, reaper_, log_));
  {
    MutexLock lock(mutex_);
    end_reason_.clear();  // of an earlier one
    memory_ = std::make_shared<WorkerMemory>(worker->channel(), arena_);
    calls_ = std::make_shared<WorkerCalls>(worker->channel(), memory_, *services_.catalog);
    worker_ = std::move(worker);
  }
  born_ms_.store(WallNowMs(), std::memory_order_relaxed);
  pid_.store(worker_->pid(), std::memory_order_relaxed);
  if (services_.custom_metrics != nullptr)
    metrics_ = OpenMetrics(*services_.custom_metrics, worker_->channel());
  const Status status = Guarded([&] {
    BRAID_RETURN_IF_ERROR(
        worker_->AwaitSignIn(options_.sign_in_timeout_ns,
                             [this](const std::vector<std::byte>& message) { return Handle(message); }));
    BRAID_ASSIGN_OR_RETURN(const auto loaded, Load());
    return user_.OnUp({worker_->channel(), memory_}, loaded);
  });
  if (!status.ok()) {
    killed_ = worker_->killed_by_others();
    worker_->EnsureDead();
    BuryWorker(status.message());
  }
  return status;
}

Result<WorkerProcess::Answer> WorkerHost::Load() {
  UserCodeLimit limit(SteadyNowNs(), options_.initialize_timeout_ns);
  const auto overdue = [&] {
    return UnavailableError(fmt::format(
        "{} has not been initialised within {} ms (--initialize-timeout-ms, INITIALIZE_TIMEOUT_MS)",
        options_.title, options_.initialize_timeout_ns / kMillisecondNs));
  };
  int64_t next_report = kProgressSeconds;
  const auto still_loading = [&](int64_t elapsed_ns) -> Result<int64_t> {
    if (const int64_t seconds = elapsed_ns / kSecondNs; seconds >= next_report) {
      next_report += kProgressSeconds;
      std::string text = fmt::format("{} has been initialising for {} s", options_.title, seconds);
      BRAID_LOG_INFO(log_, "{}", text);
      MutexLock lock(mutex_);
      progress_ = std::move(text);
    }
    if (worker_->channel()->TakeKnock()) BRAID_RETURN_IF_ERROR(HandleKnock());
    const int64_t now = SteadyNowNs();
    if (limit.Passes(now)) {
      BRAID_LOG_ERROR(log_, "{}; its stacks follow", overdue().message());
      worker_->WriteStacks();
    }
    if (limit.over(now)) return overdue();
    MutexLock lock(mutex_);
    if (stopping_ && now >= stop_deadline_ns_)
      return UnavailableError("the server stopped while " + options_.title + " was initialising");
    return limit.next_ns() - now;
  };
  Result<WorkerProcess::Answer> loaded = worker_->Load(
      options_.mode, facts_, spec_, [this](const std::vector<std::byte>& message) { return Handle(message); },
      still_loading);
  // The limit holds, even if the code came back while its stacks were written.
  if (loaded.ok() && limit.passed()) return overdue();
  return loaded;
}

int64_t WorkerHost::LookAtEnd(int64_t now_ns, int64_t deadline_ns) {
  if (!asked_to_finalize_) {
    asked_to_finalize_ = true;
    user_.OnDown(options_.title + " is being stopped");
    std::vector<std::byte> finalize;
    EncodeBare(finalize, MessageType::kFinalize);
    // A worker that cannot be told is killed at the deadline.
    (void)worker_->channel()->Send(finalize);
    // The stacks of user code are worth having before the deadline ends it, too, if that leaves time for them.
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
      BRAID_LOG_WARNING(log_, "{} did not end in time and is killed", options_.title);
    } else if (!finalized_) {
      BRAID_LOG_WARNING(
          log_,
          "{} has not been finalized within {} ms (--finalize-timeout-ms, FINALIZE_TIMEOUT_MS) and is killed",
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
    if (worker_->channel()->TakeKnock()) {
      Status handled = Guarded([this] { return HandleKnock(); });
      if (!handled.ok()) return handled.message();
    }
    if (calls_->stuck()) return "it does not read the responses to its calls";
    const bool dead = worker_->dead();
    Channel::Outcome outcome = worker_->channel()->Receive(message, dead ? 0 : timeout);
    {
      // What is there already is handled before the next look around, and the answers to it may leave together.
      const Batch batch;
      for (size_t handled = 0; outcome == Channel::Outcome::kMessage;) {
        if (Status status = Guarded([&] { return Handle(message); }); !status.ok()) return status.message();
        if (++handled == kMostBatched) break;
        outcome = worker_->channel()->Receive(message, 0);
      }
    }
    if (outcome == Channel::Outcome::kCorrupted) return "it wrote nonsense into its channel";
    if (outcome == Channel::Outcome::kTimeout && dead) return "";
  }
}

void WorkerHost::BuryWorker(const std::string& reason) {
  pid_.store(0, std::memory_order_relaxed);
  user_.OnDead();
  metrics_.reset();
  // Calls first: what their responses would lend has no taker any more.
  forks_.reset();
  calls_->Abandon();
  memory_->Abandon();
  {
    std::unique_ptr<WorkerProcess> gone;
    MutexLock lock(mutex_);
    gone = std::move(worker_);
    memory_.reset();
    calls_.reset();
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
  // What this thread notes and passes on belongs to all that the worker has in hand.
  const PatientAllocation patience;
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
