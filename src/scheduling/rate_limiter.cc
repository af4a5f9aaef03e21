#include "scheduling/rate_limiter.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>

namespace braid {
namespace {

constexpr int kGlobal = -1;

template <class T>
bool ToNumber(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<ResourceLimit> ParseResourceLimit(std::string_view text) {
  ResourceLimit limit;
  const size_t first = text.find(':');
  const size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  limit.name = text.substr(0, first);
  const bool good =
      first != std::string_view::npos && !limit.name.empty() &&
      ToNumber(text.substr(first + 1, second == std::string_view::npos ? second : second - first - 1),
               limit.count) &&
      (second == std::string_view::npos ||
       (ToNumber(text.substr(second + 1), limit.device) && limit.device >= 0));
  if (!good) {
    return InvalidArgumentError(
        fmt::format("'{}' must have the form RESOURCE:COUNT or RESOURCE:COUNT:DEVICE", text));
  }
  return limit;
}

// One resource, of one device or global.
struct RateLimiter::Ticket::Pool {
  // The operator's limit, or the largest need.
  uint64_t total = 0;
  bool limited = false;
  uint64_t taken = 0;
  // During Grant(): reserved for tickets that wait for more than is free.
  uint64_t reserved = 0;

  uint64_t free() const { return total > taken + reserved ? total - taken - reserved : 0; }
};

RateLimiter::RateLimiter(std::vector<ResourceLimit> limits, Timers& timers)
    : limits_(std::move(limits)), timers_(timers) {}

RateLimiter::~RateLimiter() = default;

RateLimiter::Pool& RateLimiter::PoolOf(const std::string& name, int device) {
  auto& pool = pools_[{name, device}];
  if (pool == nullptr) {
    pool = std::make_unique<Pool>();
    for (const ResourceLimit& limit : limits_) {
      // A limit of one device takes precedence over the limit of all.
      const bool applies =
          limit.name == name && (limit.device == device || (limit.device == -1 && !pool->limited));
      if (!applies) continue;
      pool->limited = true;
      pool->total = limit.count;
    }
  }
  return *pool;
}

Result<std::unique_ptr<RateLimiter::Ticket>> RateLimiter::Register(const std::vector<ResourceNeed>& needs,
                                                                   int device, uint32_t priority,
                                                                   std::function<void()> on_chance) {
  std::unique_ptr<Ticket> ticket(new Ticket(*this));
  ticket->on_chance_ = std::move(on_chance);
  ticket->priority_ = std::max<uint32_t>(priority, 1);
  MutexLock lock(mutex_);
  for (const ResourceNeed& need : needs) {
    Pool& pool = PoolOf(need.name, need.global ? kGlobal : device);
    if (pool.limited && need.count > pool.total) {
      return InvalidArgumentError(
          "Resource count for \"" + need.name + "\" is limited to " + std::to_string(pool.total) +
          " which will prevent scheduling of one or more model instances, the minimum "
          "required count is " +
          std::to_string(need.count));
    }
    if (!pool.limited) pool.total = std::max<uint64_t>(pool.total, need.count);
    ticket->needs_.emplace_back(&pool, need.count);
  }
  return ticket;
}

bool RateLimiter::Fits(const Ticket& ticket) {
  return std::all_of(ticket.needs_.begin(), ticket.needs_.end(),
                     [](const auto& need) { return need.second <= need.first->free(); });
}

void RateLimiter::Grant() {
  std::sort(waiting_.begin(), waiting_.end(), [](const Ticket* a, const Ticket* b) {
    return a->Rank() != b->Rank() ? a->Rank() < b->Rank() : a->arrival_ < b->arrival_;
  });
  for (auto& [name, pool] : pools_) pool->reserved = 0;
  std::vector<Ticket*> still_waiting;
  for (Ticket* ticket : waiting_) {
    if (!Fits(*ticket)) {
      for (auto& [pool, count] : ticket->needs_) pool->reserved += count;
      still_waiting.push_back(ticket);
      continue;
    }
    for (auto& [pool, count] : ticket->needs_) pool->taken += count;
    ticket->state_ = Ticket::State::kGranted;
    // The caller holds locks, so it is notified on another thread.
    timers_.At(timers_.NowNs(), ticket->on_chance_);
  }
  waiting_.swap(still_waiting);
}

RateLimiter::Ticket::~Ticket() { Release(); }

bool RateLimiter::Ticket::TryAcquire() {
  MutexLock lock(limiter_.mutex_);
  if (state_ == State::kIdle && limiter_.waiting_.empty() && Fits(*this)) {
    for (auto& [pool, count] : needs_) pool->taken += count;
    state_ = State::kGranted;
  }
  if (state_ == State::kGranted) {
    state_ = State::kHolding;
    ++executions_;
    return true;
  }
  if (state_ == State::kIdle) {
    Wait();
    limiter_.Grant();
  }
  return false;
}

void RateLimiter::Ticket::Release(bool wants_more) {
  MutexLock lock(limiter_.mutex_);
  if (state_ == State::kWaiting) std::erase(limiter_.waiting_, this);
  if (state_ == State::kGranted || state_ == State::kHolding) {
    for (auto& [pool, count] : needs_) pool->taken -= count;
  }
  const bool changed = state_ != State::kIdle;
  state_ = State::kIdle;
  if (wants_more) Wait();
  if (changed) limiter_.Grant();
}

void RateLimiter::Ticket::Wait() {
  state_ = State::kWaiting;
  arrival_ = ++limiter_.last_arrival_;
  limiter_.waiting_.push_back(this);
}

}  // namespace braid
