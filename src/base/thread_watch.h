// ThreadWatch: detects stalled threads. Each stall is counted and logged with the thread's stack; its end is
// logged as well.
//
//   ThreadWatch watch(log);
//   auto watched = watch.WatchTasks("brd-http-0", [&loop](auto task) { return loop.Post(std::move(task)); });
//
// A separate thread ("brd-watch") checks four times a second. It posts a task to each thread that runs tasks;
// such a thread is stalled if the task has not run after half a second. A thread that takes messages is
// stalled if messages wait and it takes none. Requests cause no work for either kind.
//
// If the whole process has stood still, as in a suspended machine, no thread is reported.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"

namespace braid {

class ThreadWatch {
 public:
  struct Options {
    int64_t look_ns = 250'000'000;   // between two checks
    int64_t stall_ns = 500'000'000;  // the delay from which on a thread is stalled
  };

  // `log` outlives the watch.
  explicit ThreadWatch(Logger& log);
  ThreadWatch(Logger& log, const Options& options);
  // REQUIRES: no thread is watched any more.
  ~ThreadWatch();

 private:
  struct Thread;

 public:
  // Watches a thread for as long as it exists. The watch outlives it.
  class Watched {
   public:
    Watched(ThreadWatch& watch, std::list<Thread>::iterator thread) : watch_(watch), thread_(thread) {}
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

   private:
    ThreadWatch& watch_;
    const std::list<Thread>::iterator thread_;
  };

  // Runs a task on the thread. Returns false if the thread takes no more tasks. Does not block.
  using Post = std::function<bool(std::function<void()> task)>;
  // The number of messages that have arrived for a thread, and the number it has handled. Both only grow.
  // Does not block.
  struct Work {
    uint64_t arrived = 0;
    uint64_t handled = 0;
  };

  // Watch a thread until Watched is destroyed. `name` is the thread's name in metrics. `about` identifies its
  // owner in the log, e.g. "instance 'm_0'", and may be empty. The functions are called until Watched is
  // destroyed. Any thread.
  std::unique_ptr<Watched> WatchTasks(std::string name, Post post);
  std::unique_ptr<Watched> WatchWork(std::string name, std::string about, pid_t thread,
                                     std::function<Work()> work);

  // Returns the stalls so far of all threads that are or were watched, by thread name. Any thread.
  std::map<std::string, uint64_t> Stalls() const;

 private:
  struct Probe;
  // A log entry about a thread. The stack is captured without the lock.
  struct Note {
    std::string name;
    int64_t ns = 0;
    bool over = false;  // the stall is over
    pid_t thread = 0;
  };

  std::unique_ptr<Watched> Add(Thread thread);
  void Run();
  void LookLocked(int64_t now_ns, bool forgive, std::vector<Note>& notes) BRAID_REQUIRES(mutex_);
  static void PostTask(Thread& thread);
  // Returns whether the thread has made progress since the last check, or is idle.
  static bool GoesOn(Thread& thread);
  void Write(const Note& note);

  const Options options_;
  Logger& log_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::list<Thread> threads_ BRAID_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> stalls_ BRAID_GUARDED_BY(mutex_);
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace braid
