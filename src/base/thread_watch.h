// ThreadWatch: sees threads that stand still: each such stall is counted, and written to the log with the thread's
// stack, and again when the thread goes on.
//
//   ThreadWatch watch(log);
//   auto watched = watch.WatchTasks("brd-http-0", [&loop](auto task) { return loop.Post(std::move(task)); });
//
// It has a thread of its own ("brd-watch"), which looks four times a second. A thread that runs tasks is given one
// each time, and stands still when it has not run it after half a second. One that takes messages is asked for
// nothing: it stands still when there are some and it takes none. What a request passes through knows of neither.
//
// When the whole process has stood still, as in a machine that was suspended, no thread is blamed.
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
    int64_t look_ns = 250'000'000;   // from one look to the next
    int64_t stall_ns = 500'000'000;  // that a thread may take
  };

  // `log` outlives the watch.
  explicit ThreadWatch(Logger& log);
  ThreadWatch(Logger& log, const Options& options);
  // REQUIRES: nothing is watched any more.
  ~ThreadWatch();

 private:
  struct Thread;

 public:
  // A thread that is watched, as long as this exists. Must end before the watch.
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

  // Has a task run on the thread; false when it takes none any more. Does not block.
  using Post = std::function<bool(std::function<void()> task)>;
  // How much has arrived for a thread, and how much of that it has dealt with; both only grow. Does not block.
  struct Work {
    uint64_t arrived = 0;
    uint64_t handled = 0;
  };

  // `name` is the thread's, as metrics have it; `about` says in the log whose it is, e.g. "instance 'm_0'"; may be
  // empty. The functions are called until Watched has gone. Any thread.
  std::unique_ptr<Watched> WatchTasks(std::string name, Post post);
  std::unique_ptr<Watched> WatchWork(std::string name, std::string about, pid_t thread,
                                     std::function<Work()> work);

  // Stalls so far of all threads that are or were watched, by the thread's name. Any thread.
  std::map<std::string, uint64_t> Stalls() const;

 private:
  struct Probe;
  // What is to be written of a thread; its stack is asked for without the lock.
  struct Note {
    std::string name;
    int64_t ns = 0;
    bool over = false;  // it goes on
    pid_t thread = 0;
  };

  std::unique_ptr<Watched> Add(Thread thread);
  void Run();
  void LookLocked(int64_t now_ns, bool forgive, std::vector<Note>& notes) BRAID_REQUIRES(mutex_);
  static void PostTask(Thread& thread);
  // Whether the thread has gone on since the look before, or there is nothing for it to do.
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
