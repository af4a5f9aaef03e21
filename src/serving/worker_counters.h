// WorkerCounters: counters of interventions on models' workers, for metrics. Each loaded instance has one
// row.
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

// Thread-safe.
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
        0};  // requests that failed because execute() exceeded its time limit
    std::atomic<uint64_t> memory_replacements{0};  // replacements of its process because of its memory
  };

  // Adds a row, which exists until its last owner releases it. Readers share it.
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
