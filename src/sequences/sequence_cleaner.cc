#include "sequences/sequence_cleaner.h"

namespace braid {

SequenceCleaner::SequenceCleaner(const Catalog& catalog, Timers& timers, int64_t interval_ns)
    : catalog_(catalog), timers_(timers), interval_ns_(interval_ns) {
  if (interval_ns_ <= 0) return;
  MutexLock lock(mutex_);
  timer_ = timers_.At(timers_.NowNs() + interval_ns_, [this] { Look(); });
}

SequenceCleaner::~SequenceCleaner() {
  TimerId timer;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    timer = timer_;
  }
  if (timer) timers_.Cancel(timer);
}

void SequenceCleaner::Look() {
  for (const auto& servable : catalog_.All()) {
    if (SequenceKeeper* sequences = servable->sequences()) sequences->CleanUp();
  }
  MutexLock lock(mutex_);
  if (stopped_) return;
  timer_ = timers_.At(timers_.NowNs() + interval_ns_, [this] { Look(); });
}

}  // namespace braid
