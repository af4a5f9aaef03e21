#include "repository/drains.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"

namespace braid {
namespace {

// How soon a thread that waits for requests to leave sees that the server exits.
constexpr int64_t kDrainSliceNs = 100 * kMillisecondNs;
// The part of the time to shut down that is kept for user code to finalize in, at most; requests get the
// rest.
constexpr int64_t kFinalizeNs = 5 * kSecondNs;

// So that no request inside waits for one that does not come.
void BeginDrain(Servable& servable) {
  if (SequenceKeeper* sequences = servable.sequences()) sequences->BeginDrain();
}

}  // namespace

Drains::~Drains() { BRAID_CHECK(drains_.empty() && ended_.empty()); }

int64_t Drains::StopDeadline() const {
  const int64_t usual_ns = SteadyNowNs() + std::max(exit_timeout_seconds_, 0) * kSecondNs;
  MutexLock lock(mutex_);
  return std::min(usual_ns, stop_deadline_ns_);
}

void Drains::Start(std::shared_ptr<Servable> servable, std::function<void()> stopped) {
  servable->gate().Close();
  {
    const RetryingAllocation retrying;
    BeginDrain(*servable);
  }
  try {
    MutexLock lock(mutex_);
    const uint64_t id = ++last_id_;
    // Its place first: a thread for which there were none would end the program.
    const auto place = drains_.try_emplace(id).first;
    try {
      place->second = StartThread("brd-drain", [this, servable, stopped, id] {
        GuardedOrReport("brd-drain", [&] { Drain(*servable); });
        GuardedOrReport("brd-drain", stopped);
        MutexLock relock(mutex_);
        // A node of the map moves without an allocation.
        ended_.insert(drains_.extract(id));
        changed_.NotifyAll();
      });
      return;
    } catch (...) {
      drains_.erase(place);
      throw;
    }
  } catch (const std::system_error&) {
    // No thread is to be had; the caller waits.
  } catch (const std::bad_alloc&) {
    // Nor memory for one.
  }
  Drain(*servable);
  stopped();
}

void Drains::Drain(Servable& servable) {
  bool drained = false;
  for (;;) {
    int64_t end_ns = 0;
    {
      MutexLock lock(mutex_);
      end_ns = drain_deadline_ns_;
    }
    const int64_t now_ns = SteadyNowNs();
    drained = servable.gate().WaitUntilEmpty(std::min(now_ns + kDrainSliceNs, end_ns));
    if (drained || now_ns >= end_ns) break;
  }
  Stop(servable, drained);
}

// A request that is still inside may move its sequence on until the servable has stopped.
void Drains::Stop(Servable& servable, bool drained) const {
  const RetryingAllocation retrying;  // what has stopped half-way is never gone
  if (vault_ != nullptr && drained) vault_->Leave(servable);
  if (vault_ != nullptr && !drained) vault_->BeginStop(servable);
  servable.Stop(StopDeadline());
  if (vault_ != nullptr && !drained) vault_->Leave(servable);
}

void Drains::Discard(Servable& servable) const {
  servable.gate().Close();
  Stop(servable, true);
}

void Drains::Reap() {
  std::map<uint64_t, std::thread> ended;
  {
    MutexLock lock(mutex_);
    ended.swap(ended_);
  }
  for (auto& [id, thread] : ended) thread.join();
}

void Drains::BeginShutdown(const Catalog& catalog, int64_t deadline_ns) {
  const int64_t left_ns = std::max(deadline_ns - SteadyNowNs(), int64_t{0});
  const int64_t drain_deadline_ns = deadline_ns - std::min(kFinalizeNs, left_ns / 4);
  {
    MutexLock lock(mutex_);
    drain_deadline_ns_ = drain_deadline_ns;
    stop_deadline_ns_ = deadline_ns;
  }
  const auto all = catalog.All();
  for (const auto& servable : all) BeginDrain(*servable);
  auto at_rest = [&all] {
    return std::all_of(all.begin(), all.end(),
                       [](const auto& servable) { return servable->gate().inside() == 0; });
  };
  // Gates tell nobody while they are open.
  while (!at_rest() && SteadyNowNs() < drain_deadline_ns) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

bool Drains::empty() const {
  MutexLock lock(mutex_);
  return drains_.empty();
}

bool Drains::WaitUntilEmpty(int64_t deadline_ns) {
  MutexLock lock(mutex_);
  while (!drains_.empty()) {
    const int64_t left_ns = deadline_ns - SteadyNowNs();
    if (left_ns <= 0) return false;
    changed_.WaitFor(mutex_, std::chrono::nanoseconds(std::min(left_ns, kSecondNs)));
  }
  return true;
}

}  // namespace braid
