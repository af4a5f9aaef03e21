// Drains: stops servables that have left the catalog, each after its last request, and keeps their sequences.
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

// Thread-safe.
class Drains {
 public:
  // The grace period after the deadline for stops. After it, the shutdown waits no longer.
  static constexpr int64_t kStopGraceNs = int64_t{2} * 1000000000;

  // `exit_timeout_seconds` limits how long instances of a stopped servable may take to end. Sequences of a
  // drained servable go to `vault` before the stop, so that finalizing user code does not delay them. A null
  // `vault` means that sequences end with their servable.
  explicit Drains(int exit_timeout_seconds, SequenceVault* vault = nullptr)
      : exit_timeout_seconds_(exit_timeout_seconds), vault_(vault) {}
  // REQUIRES: empty().
  ~Drains();
  Drains(const Drains&) = delete;
  Drains& operator=(const Drains&) = delete;

  // Closes the servable to new requests at once. After its last request, stops it on its own thread and calls
  // `stopped` there. Each drain has its own thread, because it may have to wait for another drain's requests.
  // There are no more threads than servables.
  void Start(std::shared_ptr<Servable> servable, std::function<void()> stopped);
  // Stops a servable that was never published; blocks.
  void Discard(Servable& servable) const;
  // Joins the threads that have ended. Call it regularly.
  void Reap();

  // Begins the shutdown: requests may run until some time before `deadline_ns` (SteadyNowNs() time), and
  // every stop ends by it. Returns when no request is in any servable of the catalog, or when the time for
  // requests has passed. It closes no servable before that, because a request in one may be waiting for
  // another.
  void BeginShutdown(const Catalog& catalog, int64_t deadline_ns);
  bool empty() const;
  // Waits for all drains. Returns false if one has not ended by `deadline_ns`.
  bool WaitUntilEmpty(int64_t deadline_ns);

 private:
  void Drain(Servable& servable);
  void Stop(Servable& servable, bool drained) const;
  int64_t StopDeadline() const;

  const int exit_timeout_seconds_;
  SequenceVault* const vault_;
  mutable Mutex mutex_;
  CondVar changed_;  // notified when any member below changes
  int64_t drain_deadline_ns_ BRAID_GUARDED_BY(mutex_) = std::numeric_limits<int64_t>::max();
  int64_t stop_deadline_ns_ BRAID_GUARDED_BY(mutex_) = std::numeric_limits<int64_t>::max();
  uint64_t last_id_ BRAID_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::thread> drains_ BRAID_GUARDED_BY(mutex_);
  std::map<uint64_t, std::thread> ended_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
