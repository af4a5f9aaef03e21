// Drains: ends servables that have left the catalog, each when its last request has left, and sees to it that
// their sequences are kept.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "sequences/sequence_vault.h"
#include "serving/catalog.h"
#include "serving/servable.h"

namespace braid {

// All methods may be called from any thread.
class Drains {
 public:
  // How long a stop may go on after its deadline before nobody waits for it any longer.
  static constexpr int64_t kStopGraceNs = int64_t{2} * 1000000000;

  // Instances of what is stopped may take `exit_timeout_seconds` to end. `vault` gets what was drained before
  // it is stopped, so that its sequences need not wait for user code that finalizes; null where sequences end
  // with their servable.
  explicit Drains(int exit_timeout_seconds, SequenceVault* vault = nullptr)
      : exit_timeout_seconds_(exit_timeout_seconds), vault_(vault) {}
  // REQUIRES: empty().
  ~Drains();
  Drains(const Drains&) = delete;
  Drains& operator=(const Drains&) = delete;

  // Closes the servable to new requests at once, and stops it on a thread of its own when the last one has
  // left; then calls `stopped` there. One thread each: every one may have to wait for another request, and
  // there are no more of them than servables.
  void Start(std::shared_ptr<Servable> servable, std::function<void()> stopped);
  // Stops a servable that nobody has seen; blocks.
  void Discard(Servable& servable) const;
  // Joins the threads that have ended. Called now and then.
  void Reap();

  // From now on requests may run until a while before `deadline_ns` (SteadyNowNs() time), and everything ends
  // by it. Returns when no request is in any servable of the catalog, or when it is too late to wait: one
  // that answers may be waiting for another, so that none should close before all are at rest.
  void BeginShutdown(const Catalog& catalog, int64_t deadline_ns);
  bool empty() const;
  // Whether all drains had ended before `deadline_ns`.
  bool WaitUntilEmpty(int64_t deadline_ns);

 private:
  void Drain(Servable& servable);
  void Stop(Servable& servable, bool drained) const;
  int64_t StopDeadline() const;

  const int exit_timeout_seconds_;
  SequenceVault* const vault_;
  mutable Mutex mutex_;
  CondVar changed_;  // of anything below
  int64_t drain_deadline_ns_ BRAID_GUARDED_BY(mutex_) = std::numeric_limits<int64_t>::max();
  int64_t stop_deadline_ns_ BRAID_GUARDED_BY(mutex_) = std::numeric_limits<int64_t>::max();
  uint64_t last_id_ BRAID_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::thread> drains_ BRAID_GUARDED_BY(mutex_);
  std::map<uint64_t, std::thread> ended_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
