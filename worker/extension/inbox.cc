#include "worker/extension/inbox.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"
#include "ipc/messages.h"

namespace braid {
namespace {

// Limit of one wait; the thread then waits again.
constexpr int64_t kForeverNs = 3600'000'000'000;
// The longest time that a readiness check waits while the main thread runs user code.
constexpr auto kLookAround = std::chrono::milliseconds(50);

}  // namespace

Inbox::Inbox(Channel& channel, std::function<void()> attend)
    : channel_(channel), attend_(std::move(attend)) {}

Inbox::~Inbox() { BRAID_CHECK(!reader_.joinable()); }

// --- The lead

void Inbox::TakeLeadLocked() {
  if (lead_ == Lead::kLoop) channel_.reader().Awake();
  lead_ = Lead::kThread;
}

void Inbox::PassLeadLocked() {
  if (lead_ == Lead::kThread) return;
  if (ended_) {
    lead_free_.notify_all();
    return;
  }
  if (!followers_.empty()) {
    // The follower may be about to leave; it then passes the lead on.
    if (lead_ == Lead::kNobody) followers_.front()->wake.notify_one();
    return;
  }
  if (ReaderWantedLocked()) {
    if (reader_sleeps_) reader_wake_.notify_one();
    return;
  }
  if (in_loop_ && lead_ == Lead::kNobody) {
    lead_ = Lead::kLoop;
    if (!channel_.reader().SleepOnEventFd()) WakeLoop();
  }
}

// Receives one message without the lock. REQUIRES: this thread has the lead.
Inbox::Outcome Inbox::ReceiveLocked(std::unique_lock<std::mutex>& lock, std::vector<std::byte>& message,
                                    int64_t timeout_ns) {
  lock.unlock();
  const Channel::Outcome outcome = channel_.Receive(message, timeout_ns);
  lock.lock();
  if (outcome == Channel::Outcome::kCorrupted) BreakLocked("the message ring is corrupt");
  return outcome == Channel::Outcome::kMessage ? Outcome::kReady : Outcome::kTimeout;
}

template <class Done>
Inbox::Outcome Inbox::WaitLocked(std::unique_lock<std::mutex>& lock, Waiter& waiter, int64_t timeout_ns,
                                 const Done& done) {
  const int64_t deadline = SteadyNowNs() + timeout_ns;
  std::vector<std::byte> message;
  bool leading = false;
  Outcome outcome = Outcome::kReady;
  while (!done()) {
    const int64_t left = deadline - SteadyNowNs();
    if (ended_ || broken_) {
      outcome = Outcome::kEnded;
    } else if (leading && urgent_) {
      outcome = Outcome::kAttend;
    } else if (left <= 0) {
      outcome = Outcome::kTimeout;
    }
    if (outcome != Outcome::kReady) break;
    if (!leading && lead_ == Lead::kThread) {
      followers_.push_back(&waiter);
      waiter.wake.wait_for(lock, std::chrono::nanoseconds(left));
      std::erase(followers_, &waiter);
      continue;
    }
    if (!leading) {
      TakeLeadLocked();
      leading = true;
      continue;  // the previous leader may have left a chore
    }
    if (ReceiveLocked(lock, message, left) == Outcome::kReady) SortLocked(message);
  }
  if (leading) lead_ = Lead::kNobody;
  PassLeadLocked();
  return outcome;
}

// --- Sorting

void Inbox::SortLocked(std::vector<std::byte>& message) {
  uint64_t id = 0;
  bool last = true;
  switch (TypeOf(message)) {
    case MessageType::kCallResponse:
      if (!PeekCallResponse(message, id, last)) return BreakLocked("a bad response to a call");
      return SortResponseLocked(id, last, message);
    case MessageType::kAnswer:
      if (!PeekAnswer(message, id)) return BreakLocked("a bad answer");
      return SortResponseLocked(id, true, message);
    case MessageType::kCheckReady: {
      CheckReadyMessage check;
      if (!Decode(message, check)) return BreakLocked("a bad question about readiness");
      chores_.checks.push_back(check.check_id);
      has_chores_ = urgent_ = true;
      return;
    }
    case MessageType::kRetireSegment:
      // Urgent, because an idle worker would keep the segment mapped.
      urgent_ = true;
      [[fallthrough]];
    case MessageType::kRelease:
      chores_.housekeeping.push_back(std::move(message));
      has_chores_ = true;
      return;
    default:
      return GiveToMainLocked(message);
  }
}

void Inbox::SortResponseLocked(uint64_t id, bool last, std::vector<std::byte>& message) {
  auto found = open_.find(id);
  if (found == open_.end()) return BreakLocked("an answer to an unknown question");
  std::shared_ptr<Exchange> exchange = found->second;
  if (exchange->discarded_) {
    chores_.discarded.push_back(std::move(message));
    has_chores_ = urgent_ = true;
  } else {
    exchange->messages_.push_back(std::move(message));
  }
  if (last) {
    exchange->ended_ = true;
    open_.erase(found);
  }
  if (exchange->notice_ == Exchange::Notice::kFirst ||
      (last && exchange->notice_ == Exchange::Notice::kLast)) {
    NoticeLocked(exchange);
  }
  if (last && exchange->background_) {
    exchange->background_ = false;
    --background_;
  }
  for (Waiter* waiter : exchange->waiters_) waiter->wake.notify_one();
}

void Inbox::NoticeLocked(const std::shared_ptr<Exchange>& exchange) {
  exchange->notice_ = Exchange::Notice::kNone;
  chores_.noticed.push_back(exchange);
  has_chores_ = urgent_ = true;
}

void Inbox::GiveToMainLocked(std::vector<std::byte>& message) {
  main_.push_back(std::move(message));
  if (main_waiter_ != nullptr) main_waiter_->wake.notify_one();
  if (!main_waiters_.empty() && !claimed_) main_waiters_.back()->wake.notify_one();
  if (in_loop_) WakeLoop();
}

void Inbox::WakeLoop() {
  const std::byte one{1};
  // In a full pipe, a wake-up is already pending.
  [[maybe_unused]] ssize_t written = ::write(channel_.wake_fd(), &one, sizeof(one));
}

// --- The main thread

Inbox::Outcome Inbox::Next(std::vector<std::byte>& message, int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  Outcome outcome = Outcome::kTimeout;
  Waiter waiter;
  const int64_t deadline = timeout_ns > 0 ? SteadyNowNs() + timeout_ns : 0;
  bool leading = false;
  while (true) {
    if (!main_.empty()) {
      message = std::move(main_.front());
      main_.pop_front();
      outcome = Outcome::kReady;
      break;
    }
    if (ended_ || broken_) {
      outcome = Outcome::kEnded;
      break;
    }
    if (leading && urgent_) {
      outcome = Outcome::kAttend;
      break;
    }
    const int64_t left = timeout_ns > 0 ? deadline - SteadyNowNs() : 0;
    if (!leading && lead_ == Lead::kThread) {
      if (left <= 0) break;
      followers_.push_back(&waiter);
      main_waiter_ = &waiter;
      waiter.wake.wait_for(lock, std::chrono::nanoseconds(left));
      main_waiter_ = nullptr;
      std::erase(followers_, &waiter);
      continue;
    }
    if (!leading) TakeLeadLocked();
    leading = true;
    const Outcome received = ReceiveLocked(lock, message, std::max<int64_t>(left, 0));
    if (received == Outcome::kTimeout && !broken_) {
      // An interruption means the end; the next iteration notices it.
      if (left <= 0 || SteadyNowNs() >= deadline) break;
      continue;
    }
    if (received != Outcome::kReady) continue;
    const MessageType type = TypeOf(message);
    if ((type == MessageType::kExecute || type == MessageType::kLoad) && main_.empty()) {
      outcome = Outcome::kReady;  // the common case, without the queue
      break;
    }
    SortLocked(message);
  }
  if (leading) lead_ = Lead::kNobody;
  PassLeadLocked();
  return outcome;
}

// --- Several threads instead of the main thread

void Inbox::WillAwait() {
  std::lock_guard lock(mutex_);
  ++awaiting_;
}

Inbox::Outcome Inbox::Await(int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  Waiter waiter;
  std::vector<std::byte> message;
  const int64_t deadline = SteadyNowNs() + timeout_ns;
  bool leading = false;
  Outcome outcome = Outcome::kReady;
  while (true) {
    if (summoned_ != 0) {
      outcome = Outcome::kSummoned;
      break;
    }
    if (!main_.empty() && !claimed_) {
      claimed_ = true;
      break;
    }
    if (ended_ || broken_) {
      outcome = Outcome::kEnded;
      break;
    }
    if (leading && urgent_) {
      outcome = Outcome::kAttend;
      break;
    }
    if (!leading && lead_ == Lead::kThread) {
      followers_.push_back(&waiter);
      main_waiters_.push_back(&waiter);
      waiter.wake.wait_for(lock, std::chrono::nanoseconds(kForeverNs));
      std::erase(main_waiters_, &waiter);
      std::erase(followers_, &waiter);
      continue;
    }
    if (!leading) {
      TakeLeadLocked();
      leading = main_reads_ = true;
      continue;  // the previous leader may have left a chore
    }
    const int64_t left = deadline - SteadyNowNs();
    if (left <= 0) {
      outcome = Outcome::kTimeout;
      break;
    }
    if (ReceiveLocked(lock, message, left) == Outcome::kReady) SortLocked(message);
  }
  --(outcome == Outcome::kSummoned ? summoned_ : awaiting_);
  if (leading) {
    lead_ = Lead::kNobody;
    main_reads_ = false;
  }
  PassLeadLocked();
  return outcome;
}

bool Inbox::TakeMain(std::vector<std::byte>& message) {
  std::lock_guard lock(mutex_);
  if (main_.empty()) {
    claimed_ = false;
    return false;
  }
  message = std::move(main_.front());
  main_.pop_front();
  return true;
}

bool Inbox::Summon(bool reader_too) {
  std::lock_guard lock(mutex_);
  if (awaiting_ <= (main_reads_ && !reader_too ? 1u : 0u)) return false;
  --awaiting_;
  ++summoned_;
  if (!main_waiters_.empty()) {
    main_waiters_.back()->wake.notify_one();
  } else if (main_reads_) {
    channel_.Interrupt();
  }
  return true;
}

size_t Inbox::awaiting() const {
  std::lock_guard lock(mutex_);
  return awaiting_;
}

void Inbox::EnterLoop() {
  std::lock_guard lock(mutex_);
  in_loop_ = true;
  if (!main_.empty()) WakeLoop();
  PassLeadLocked();
}

void Inbox::LeaveLoop() {
  std::lock_guard lock(mutex_);
  in_loop_ = false;
  if (lead_ != Lead::kLoop) return;
  channel_.reader().Awake();
  lead_ = Lead::kNobody;
  PassLeadLocked();
}

// --- Exchanges

std::shared_ptr<Exchange> Inbox::Begin(Exchange::Notice notice, bool background) {
  std::lock_guard lock(mutex_);
  auto exchange = std::make_shared<Exchange>(next_id_++);
  exchange->notice_ = notice;
  exchange->background_ = background;
  open_.emplace(exchange->id(), exchange);
  if (background && background_++ == 0) StartReaderLocked();
  return exchange;
}

Inbox::Outcome Inbox::Wait(Exchange& exchange) {
  std::unique_lock lock(mutex_);
  if (exchange.has_message() || exchange.ended_) return Outcome::kReady;
  if (!OpenLocked(exchange)) return Outcome::kEnded;
  Waiter waiter;
  exchange.waiters_.push_back(&waiter);
  const Outcome outcome =
      WaitLocked(lock, waiter, kForeverNs, [&] { return exchange.has_message() || exchange.ended_; });
  std::erase(exchange.waiters_, &waiter);
  return outcome == Outcome::kTimeout ? Outcome::kAttend : outcome;
}

bool Inbox::Take(Exchange& exchange, std::vector<std::byte>& message) {
  std::lock_guard lock(mutex_);
  if (!exchange.has_message()) return false;
  message = std::move(exchange.messages_[exchange.taken_++]);
  if (exchange.has_message()) return true;
  exchange.messages_.clear();
  exchange.taken_ = 0;
  return true;
}

bool Inbox::Exhausted(const Exchange& exchange) {
  std::lock_guard lock(mutex_);
  return exchange.ended_ && !exchange.has_message();
}

bool Inbox::Open(const Exchange& exchange) {
  std::lock_guard lock(mutex_);
  return OpenLocked(exchange) && !ended_ && !broken_;
}

// A forked child's parent may have an exchange with the same id.
bool Inbox::OpenLocked(const Exchange& exchange) const {
  auto found = open_.find(exchange.id());
  return found != open_.end() && found->second.get() == &exchange;
}

void Inbox::Forget(Exchange& exchange) {
  std::lock_guard lock(mutex_);
  exchange.ended_ = true;
  if (!OpenLocked(exchange)) return;
  open_.erase(exchange.id());
  if (exchange.background_) --background_;
  exchange.background_ = false;
}

void Inbox::Discard(Exchange& exchange) {
  std::lock_guard lock(mutex_);
  if (!exchange.ended_ && !OpenLocked(exchange)) return;
  exchange.discarded_ = true;
  exchange.notice_ = Exchange::Notice::kNone;
  for (; exchange.has_message(); ++exchange.taken_) {
    chores_.discarded.push_back(std::move(exchange.messages_[exchange.taken_]));
    has_chores_ = true;
  }
  if (!exchange.background_) return;
  exchange.background_ = false;
  --background_;
}

Inbox::Chores Inbox::TakeChores() {
  std::lock_guard lock(mutex_);
  Chores chores;
  std::swap(chores, chores_);
  has_chores_ = urgent_ = false;
  return chores;
}

// --- The reader

void Inbox::Poll() {
  std::unique_lock lock(mutex_);
  if (lead_ == Lead::kThread || ended_ || broken_) return;
  TakeLeadLocked();
  std::vector<std::byte> message;
  while (ReceiveLocked(lock, message, 0) == Outcome::kReady) SortLocked(message);
  lead_ = Lead::kNobody;
  PassLeadLocked();
}

void Inbox::WantReader() {
  std::lock_guard lock(mutex_);
  StartReaderLocked();
}

void Inbox::WatchForChecks() {
  std::lock_guard lock(mutex_);
  watches_checks_ = true;
  StartReaderLocked();
}

void Inbox::StartReaderLocked() {
  if (ended_) return;
  if (!reader_.joinable()) {
    Result<std::thread> reader = TryStartThread("brd-read", [this] { Read(); });
    if (!reader.ok()) {
      // Without a reader, calls would wait for ever. The process ends, and the server starts another worker.
      std::fprintf(stderr, "braid worker %d ends: %s\n", static_cast<int>(getpid()),
                   reader.status().message().c_str());
      _exit(1);
    }
    reader_ = std::move(reader).value();
  }
  if (reader_sleeps_ && lead_ != Lead::kThread) reader_wake_.notify_one();
}

void Inbox::Read() {
  std::unique_lock lock(mutex_);
  while (!ended_ && !broken_) {
    if (ReaderWantedLocked()) {
      WaitLocked(lock, reader_waiter_, kForeverNs, [this] { return !ReaderWantedLocked(); });
    } else {
      // The lead was kept for this thread as long as messages waited; a sender may have sent them meanwhile.
      PassLeadLocked();
      reader_sleeps_ = true;
      const bool look =
          watches_checks_ && reader_wake_.wait_for(lock, kLookAround) == std::cv_status::timeout;
      if (!watches_checks_) reader_wake_.wait(lock);
      reader_sleeps_ = false;
      if (look && lead_ != Lead::kThread) {
        lock.unlock();
        Poll();
        lock.lock();
      }
    }
    if (!urgent_) continue;
    lock.unlock();
    attend_();
    lock.lock();
  }
}

// --- The end

void Inbox::BreakLocked(std::string why) {
  if (broken_ || ended_) return;
  broken_ = true;
  why_ = std::move(why);
  for (Waiter* follower : followers_) follower->wake.notify_one();
  reader_wake_.notify_one();
  if (in_loop_) WakeLoop();
}

void Inbox::Break(std::string why) {
  std::lock_guard lock(mutex_);
  BreakLocked(std::move(why));
  channel_.Interrupt();
}

void Inbox::End(std::string why) {
  std::unique_lock lock(mutex_);
  BreakLocked(std::move(why));
  ended_ = true;
  channel_.Interrupt();
  reader_wake_.notify_one();
  lead_free_.wait(lock, [this] { return lead_ != Lead::kThread; });
  lock.unlock();
  if (reader_.joinable()) reader_.join();
}

std::string Inbox::why() const {
  std::lock_guard lock(mutex_);
  return why_;
}

}  // namespace braid
