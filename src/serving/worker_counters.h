// WorkerCounters: what has been done to the workers of models, for metrics: one row for each instance, as long as
// that is loaded.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace braid {

// Any thread.
class WorkerCounters {
 public:
  struct Names {
    std::string model;
    std::string version;
    std::string instance;
  };
  // Counters only grow.
  struct Row {
    explicit Row(Names names) : names(std::move(names)) {}
    const Names names;
    std::atomic<uint64_t> execute_timeouts{
        0};  // how often its requests were failed for the limit of execute()
    std::atomic<uint64_t> memory_replacements{0};  // how often its process was replaced for its memory
  };

  // A row that is there until its last share goes. Shared with those who look.
  std::shared_ptr<Row> Add(Names names) {
    auto row = std::make_shared<Row>(std::move(names));
    MutexLock lock(mutex_);
    rows_.remove_if([](const std::weak_ptr<Row>& one) { return one.expired(); });
    rows_.push_back(row);
    return row;
  }
  std::vector<std::shared_ptr<const Row>> All() const {
    std::vector<std::shared_ptr<const Row>> all;
    MutexLock lock(mutex_);
    for (const std::weak_ptr<Row>& one : rows_) {
      if (auto row = one.lock()) all.push_back(std::move(row));
    }
    return all;
  }

 private:
  mutable Mutex mutex_;
  std::list<std::weak_ptr<Row>> rows_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
