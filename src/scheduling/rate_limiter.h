// RateLimiter: limits executions by named resources that instances of all models share. An instance runs an
// execution only while it holds the resources it needs.
//
// Waiting instances are served by priority: an instance of priority 2 gets half as many turns as one of
// priority 1. No starvation: freed resources are reserved for a waiting instance that needs more than is
// free.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "scheduling/timer_service.h"

namespace braid {

struct ResourceNeed {
  std::string name;
  // Shared by all devices; otherwise each device has its own.
  bool global = false;
  uint32_t count = 1;
};

// The operator's limit of a resource. A resource without a limit has as much as the largest need of an
// instance.
struct ResourceLimit {
  std::string name;
  uint64_t count = 0;
  // The limit of one device; -1: of each device, and of the global resource of that name.
  int device = -1;
  bool operator==(const ResourceLimit&) const = default;
};

// Parses "R1:10" or "R1:10:0". Errors: INVALID_ARGUMENT.
Result<ResourceLimit> ParseResourceLimit(std::string_view text);

class RateLimiter {
 public:
  // `timers` outlives the limiter, and the limiter outlives its tickets.
  RateLimiter(std::vector<ResourceLimit> limits, Timers& timers);
  ~RateLimiter();

  // The resources of one instance. Any thread.
  class Ticket {
   public:
    ~Ticket();
    // Takes the instance's resources for one execution. If they are not free, returns false and the instance
    // waits; `on_chance` of Register() is called when they are.
    bool TryAcquire();
    // Returns the resources, or a reservation that is no longer needed. With `wants_more` the ticket at once
    // waits for the next execution's resources, like the others.
    void Release(bool wants_more = false);

   private:
    friend class RateLimiter;
    struct Pool;
    RateLimiter& limiter_;
    std::vector<std::pair<Pool*, uint32_t>> needs_;
    std::function<void()> on_chance_;
    uint32_t priority_ = 1;
    enum class State : unsigned char { kIdle, kWaiting, kGranted, kHolding };
    // Guarded by the limiter's mutex, as are the pools.
    State state_ = State::kIdle;
    uint64_t executions_ = 0;
    uint64_t arrival_ = 0;

    explicit Ticket(RateLimiter& limiter) : limiter_(limiter) {}
    void Wait() BRAID_REQUIRES(limiter_.mutex_);
    // The order of waiting tickets; the lowest goes first.
    uint64_t Rank() const { return (executions_ + 1) * priority_; }
  };

  // Creates a ticket for an instance on `device`. `on_chance` is called on the timers' thread when resources
  // are reserved; its owner then decides again, and TryAcquire() succeeds. It may be called after the ticket
  // was destroyed. Priority 0 counts as 1. Errors: INVALID_ARGUMENT if more is needed than the limit.
  Result<std::unique_ptr<Ticket>> Register(const std::vector<ResourceNeed>& needs, int device,
                                           uint32_t priority, std::function<void()> on_chance);

 private:
  using Pool = Ticket::Pool;
  Pool& PoolOf(const std::string& name, int device) BRAID_REQUIRES(mutex_);
  // Reserves free resources for waiting tickets, the lowest rank first.
  void Grant() BRAID_REQUIRES(mutex_);
  static bool Fits(const Ticket& ticket);

  const std::vector<ResourceLimit> limits_;
  Timers& timers_;

  Mutex mutex_;
  std::map<std::pair<std::string, int>, std::unique_ptr<Pool>> pools_ BRAID_GUARDED_BY(mutex_);
  std::vector<Ticket*> waiting_ BRAID_GUARDED_BY(mutex_);
  uint64_t last_arrival_ BRAID_GUARDED_BY(mutex_) = 0;
};

}  // namespace braid
