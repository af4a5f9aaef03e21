// SequenceCleaner: checks the sequences of all servables periodically and ends unused ones. A sequence ends
// at the second check after its last request.
#pragma once

#include <cstdint>

#include "base/mutex.h"
#include "scheduling/timer_service.h"
#include "serving/catalog.h"

namespace braid {

class SequenceCleaner {
 public:
  // Checks every `interval_ns`; 0: never. Both arguments outlive it. The checks run on the timers' thread and
  // briefly take the locks of the servables' sequences.
  SequenceCleaner(const Catalog& catalog, Timers& timers, int64_t interval_ns);
  ~SequenceCleaner();
  SequenceCleaner(const SequenceCleaner&) = delete;
  SequenceCleaner& operator=(const SequenceCleaner&) = delete;

 private:
  void Look();

  const Catalog& catalog_;
  Timers& timers_;
  const int64_t interval_ns_;
  Mutex mutex_;
  bool stopped_ BRAID_GUARDED_BY(mutex_) = false;
  TimerId timer_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
