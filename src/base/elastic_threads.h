// ElasticThreads: a thread pool for work that blocks or takes long, and must not run on a network thread.
//
//   ElasticThreads threads({.name = "brd-node", .most = 64});
//   threads.Run([...] { ... });
//
// Threads are started on demand and end after `idle`. While `most` threads are busy, further work waits in
// order.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace braid {

class ElasticThreads {
 public:
  struct Options {
    std::string name;
    size_t most = 1;
    std::chrono::milliseconds idle{5000};
  };
  explicit ElasticThreads(Options options) : options_(std::move(options)) {}
  // Waits until all work is done. REQUIRES: only the work itself still calls Run().
  ~ElasticThreads();
  ElasticThreads(const ElasticThreads&) = delete;
  ElasticThreads& operator=(const ElasticThreads&) = delete;

  // Queues the work; never blocks on a free thread. Any thread. If the system refuses to start the first
  // thread, Run() does the work itself before it returns.
  void Run(std::function<void()> work);

  // The number of pieces that wait for a thread, and the number of threads.
  size_t waiting() const;
  size_t threads() const;

 private:
  using Threads = std::list<std::thread>;
  void Loop(Threads::iterator self);

  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;  // there is work, or the pool stops
  CondVar emptied_;  // no thread is left
  std::deque<std::function<void()>> work_ BRAID_GUARDED_BY(mutex_);
  Threads threads_ BRAID_GUARDED_BY(mutex_);
  size_t idle_ BRAID_GUARDED_BY(mutex_) = 0;
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  // The thread that ended last. Each thread joins the one that ended before it.
  std::thread ended_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
