// ElasticThreads: threads for work that blocks or takes long, and has no place on a network thread.
//
//   ElasticThreads threads({.name = "brd-node", .most = 64});
//   threads.Run([...] { ... });
//
// They are made as they are needed, and end when they have been idle for some time. What comes when `most`
// of them work waits in order.
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
  // Waits until all work is done. REQUIRES: nobody calls Run() any more but the work itself.
  ~ElasticThreads();
  ElasticThreads(const ElasticThreads&) = delete;
  ElasticThreads& operator=(const ElasticThreads&) = delete;

  // Never blocks; any thread. Should the system refuse the first thread, the work is done before this
  // returns.
  void Run(std::function<void()> work);

  // What waits for a thread, and how many threads there are.
  size_t waiting() const;
  size_t threads() const;

 private:
  using Threads = std::list<std::thread>;
  void Loop(Threads::iterator self);

  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;  // there is work, or the end has come
  CondVar emptied_;  // no thread is left
  std::deque<std::function<void()>> work_ BRAID_GUARDED_BY(mutex_);
  Threads threads_ BRAID_GUARDED_BY(mutex_);
  size_t idle_ BRAID_GUARDED_BY(mutex_) = 0;
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  // The thread that ended last, which waits for the one that ended before it.
  std::thread ended_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
