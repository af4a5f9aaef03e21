// SequenceCleaner: looks at the sequences of all servables now and then, so that those which nobody uses end.
// A sequence that is not used ends at the second look after its last request.
#pragma once

#include <cstdint>

#include "base/mutex.h"
#include "scheduling/timer_service.h"
#include "serving/catalog.h"

namespace braid {

class SequenceCleaner {
 public:
  // Looks each `interval_ns`; 0: never. Both outlive it. The looks run on the timers' thread; they take the
  // locks of the servables' sequences for a moment.
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
