// ReadinessRound: combines several readiness answers into one.
//
//   auto round = std::make_shared<ReadinessRound>(servables.size(), std::move(done));
//   for (auto& servable : servables) servable->CheckReadiness(ReadinessRound::Answer(round));
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "serving/servable.h"

namespace braid {

// Shared by its pending answers.
class ReadinessRound {
 public:
  using Done = std::function<void(Readiness)>;

  // The last of `answers` answers calls `done` with the first one that is not ready. REQUIRES: answers > 0.
  ReadinessRound(size_t answers, Done done) : missing_(answers), done_(std::move(done)) {}

  static Done Answer(std::shared_ptr<ReadinessRound> round) {
    return [round = std::move(round)](Readiness readiness) { round->Add(std::move(readiness)); };
  }

 private:
  void Add(Readiness readiness) {
    {
      MutexLock lock(mutex_);
      if (result_.ready) result_ = std::move(readiness);
      if (--missing_ > 0) return;
    }
    done_(std::move(result_));
  }

  Mutex mutex_;
  size_t missing_ BRAID_GUARDED_BY(mutex_);
  Readiness result_;  // guarded by mutex_ until the last answer
  const Done done_;
};

}  // namespace braid
