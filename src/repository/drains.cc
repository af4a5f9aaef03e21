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

// How soon a thread that waits for requests in flight notices the shutdown.
constexpr int64_t kDrainSliceNs = 100 * kMillisecondNs;
// At most this part of the shutdown time is reserved for user code to finalize; requests get the rest.
constexpr int64_t kFinalizeNs = 5 * kSecondNs;

// Ends waits of requests in flight for later requests of their sequences, which can no longer arrive.
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
    // Insert the entry first: destroying a joinable thread would end the program.
    const auto place = drains_.try_emplace(id).first;
    try {
      place->second = StartThread("brd-drain", [this, servable, stopped, id] {
        GuardedOrReport("brd-drain", [&] { Drain(*servable); });
        GuardedOrReport("brd-drain", stopped);
        MutexLock relock(mutex_);
        // Moving a map node does not allocate.
        ended_.insert(drains_.extract(id));
        changed_.NotifyAll();
      });
      return;
    } catch (...) {
      drains_.erase(place);
      throw;
    }
  } catch (const std::system_error&) {
    // No thread can be started; the caller waits.
  } catch (const std::bad_alloc&) {
    // No memory for a thread; the caller waits.
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

// A request in flight may advance its sequence until the servable has stopped.
void Drains::Stop(Servable& servable, bool drained) const {
  const RetryingAllocation retrying;  // an interrupted stop would never be finished
  if (vault_ != nullptr && drained) vault_->Leave(servable);
  if (vault_ != nullptr && !drained) vault_->BeginStop(servable);
  servable.Stop(StopDeadline());
  servable.ReleaseFiles();
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
  // Open gates have no notification, so poll them.
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
