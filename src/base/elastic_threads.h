// ElasticThreads: threads for work that blocks or takes long, and has no place on a network thread.
//
//   ElasticThreads threads({.name = "brd-node", .most = 64});
//   threads.Run([...] { ... });
//
// They are made as they are needed, and end when they have been idle for some time. What comes when `most`
// of them work waits in order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

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
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // there is work, or the end has come
  std::condition_variable emptied_;  // no thread is left
  // All guarded by mutex_.
  std::deque<std::function<void()>> work_;
  Threads threads_;
  size_t idle_ = 0;
  bool stopping_ = false;
  std::thread ended_;  // the thread that ended last, which waits for the one that ended before it
};

}  // namespace braid
