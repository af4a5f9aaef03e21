// RateLimiter: instances of all models share named resources; an instance runs an execution only while it
// holds what it needs of each.
//
// Those that wait are served by priority: the chances of an instance of priority 2 come half as often as
// those of priority 1. Who waits for much is not overtaken for ever by who needs little: what it needs of a
// resource is set aside for it.
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

// How much there is of a resource, as the operator says. Resources that nobody limits have as much as the
// instance that needs the most.
struct ResourceLimit {
  std::string name;
  uint64_t count = 0;
  // Of one device; -1 for all of them and for the global resource of that name.
  int device = -1;
  bool operator==(const ResourceLimit&) const = default;
};

// "R1:10" or "R1:10:0". Errors: INVALID_ARGUMENT.
Result<ResourceLimit> ParseResourceLimit(std::string_view text);

class RateLimiter {
 public:
  // `timers` outlives the limiter, the limiter outlives its tickets.
  RateLimiter(std::vector<ResourceLimit> limits, Timers& timers);
  ~RateLimiter();

  // What an instance runs with. Any thread.
  class Ticket {
   public:
    ~Ticket();
    // Takes what the instance needs, for one execution. When that is not there, the instance waits, and
    // `on_chance` of Register() is called once it is.
    bool TryAcquire();
    // Gives back what was taken, or what was set aside and is not needed any more. With `wants_more` it waits
    // for the next execution's at once, as the others do.
    void Release(bool wants_more = false);

   private:
    friend class RateLimiter;
    struct Pool;
    RateLimiter& limiter_;
    std::vector<std::pair<Pool*, uint32_t>> needs_;
    std::function<void()> on_chance_;
    uint32_t priority_ = 1;
    enum class State : unsigned char { kIdle, kWaiting, kGranted, kHolding };
    // Guarded by the limiter's mutex, as the pools are.
    State state_ = State::kIdle;
    uint64_t executions_ = 0;
    uint64_t arrival_ = 0;

    explicit Ticket(RateLimiter& limiter) : limiter_(limiter) {}
    void Wait() BRAID_REQUIRES(limiter_.mutex_);
    // Which of those that wait goes first: the lowest.
    uint64_t Rank() const { return (executions_ + 1) * priority_; }
  };

  // A ticket for an instance on `device`. `on_chance` is called on the timers' thread; it makes the owner
  // look again whether it has something to run, and TryAcquire() succeeds then; it can be called when the
  // ticket is gone already. Priority 0 counts as 1. Errors: INVALID_ARGUMENT when more is needed than there
  // can be.
  Result<std::unique_ptr<Ticket>> Register(const std::vector<ResourceNeed>& needs, int device,
                                           uint32_t priority, std::function<void()> on_chance);

 private:
  using Pool = Ticket::Pool;
  Pool& PoolOf(const std::string& name, int device) BRAID_REQUIRES(mutex_);
  // Gives waiting tickets what is free, the lowest rank first.
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
