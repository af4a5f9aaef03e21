// EventLoop: one thread that waits for descriptors, runs tasks that other threads give it, and calls what is
// due.
//
//   BRAID_ASSIGN_OR_RETURN(auto loop, EventLoop::Create("brd-grpc-0"));
//   loop->Start();
//   loop->Post([&] { loop->Watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP, watcher); });
//   ...
//   loop->Stop();
//
// A descriptor is registered once, edge-triggered: a watcher reads until there is no more, and asks for
// nothing again. That is one system call for each round of events, however many descriptors have some.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/thread_watch.h"
#include "base/unique_fd.h"

namespace braid {

class EventLoop {
 public:
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // What epoll_wait() tells of the descriptor. On the loop's thread. What it throws is reported.
    virtual void OnEvents(uint32_t events) = 0;
  };
  using TimerKey = std::pair<int64_t, uint64_t>;

  // Errors: those of the system, when it has no descriptors left.
  static Result<std::unique_ptr<EventLoop>> Create(std::string thread_name);
  // REQUIRES: not running.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // `watch` sees when the loop does not go round; null: none. Outlives the loop.
  void Start(ThreadWatch* watch = nullptr);
  // Runs the tasks that are there, ends the thread and lets go of all watchers. Not on the loop's thread.
  void Stop();

  // Runs `task` on the loop's thread; false, and no run, once Stop() was called. Any thread.
  bool Post(std::function<void()> task);

  // The rest: on the loop's thread, or before Start().

  // Tells `watcher`, which the loop shares until Unwatch(), of the descriptor's events. Errors: those of the
  // system.
  Status Watch(int fd, uint32_t events, std::shared_ptr<Watcher> watcher);
  // No event of it is told from now on. Before the descriptor is closed.
  void Unwatch(int fd);

  // Calls `due` at `deadline_ns` (SteadyNowNs() time), within a millisecond.
  TimerKey At(int64_t deadline_ns, std::function<void()> due);
  void Withdraw(const TimerKey& timer) { timers_.erase(timer); }

 private:
  struct Entry {
    int fd;
    std::shared_ptr<Watcher> watcher;  // null once it is unwatched
  };

  EventLoop(std::string thread_name, UniqueFd epoll, UniqueFd wake);
  void Run();
  void Round();
  int TimeoutMs() const;
  void RunTasks();
  void RunTimers();

  const std::string thread_name_;
  const UniqueFd epoll_;
  const UniqueFd wake_;
  std::thread thread_;
  std::unique_ptr<ThreadWatch::Watched> watched_;  // null while it is not watched
  std::atomic<bool> asleep_{false};                // a task must wake the loop
  std::atomic<bool> told_{false};                  // there are tasks, or the loop stops; set with mutex_ held

  Mutex mutex_;
  std::vector<std::function<void()>> tasks_ BRAID_GUARDED_BY(mutex_);
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;

  // Owned by the loop's thread.
  std::unordered_map<int, std::unique_ptr<Entry>> entries_;
  std::vector<std::unique_ptr<Entry>> unwatched_;  // events of this round may still name them
  std::map<TimerKey, std::function<void()>> timers_;
  uint64_t next_timer_ = 0;
  std::vector<std::function<void()>> running_;  // tasks; keeps its memory
  bool stop_ = false;
};

}  // namespace braid
