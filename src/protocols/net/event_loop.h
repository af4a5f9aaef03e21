// EventLoop: one thread that waits for events of descriptors, runs tasks of other threads, and calls timers.
//
//   BRAID_ASSIGN_OR_RETURN(auto loop, EventLoop::Create("brd-grpc-0"));
//   loop->Start();
//   loop->Post([&] { loop->Watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP, watcher); });
//   ...
//   loop->Stop();
//
// A descriptor is registered once, edge-triggered: a watcher reads until no input is left, and never
// registers again. So a round of events takes one system call for any number of descriptors.
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
    // Receives the descriptor's events, as epoll_wait() returns them. Runs on the loop's thread. Exceptions
    // are reported.
    virtual void OnEvents(uint32_t events) = 0;
  };
  using TimerKey = std::pair<int64_t, uint64_t>;

  // Errors: those of the system, such as no free descriptors.
  static Result<std::unique_ptr<EventLoop>> Create(std::string thread_name);
  // REQUIRES: not running.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Starts the thread. `watch` reports a loop that hangs, and outlives the loop; null: none.
  void Start(ThreadWatch* watch = nullptr);
  // Runs the pending tasks, ends the thread and releases all watchers. Not on the loop's thread.
  void Stop();

  // Runs `task` on the loop's thread. Returns false, and does not run it, after Stop(). Any thread.
  bool Post(std::function<void()> task);

  // Call the functions below on the loop's thread, or before Start().

  // Notifies `watcher` of the descriptor's events. The loop shares it until Unwatch(). Errors: those of the
  // system.
  Status Watch(int fd, uint32_t events, std::shared_ptr<Watcher> watcher);
  // Ends notifications for the descriptor. Call it before closing the descriptor.
  void Unwatch(int fd);

  // Calls `due` at `deadline_ns` (SteadyNowNs() time), within a millisecond.
  TimerKey At(int64_t deadline_ns, std::function<void()> due);
  void Withdraw(const TimerKey& timer) { timers_.erase(timer); }

 private:
  struct Entry {
    int fd;
    std::shared_ptr<Watcher> watcher;  // null after Unwatch()
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
  std::unique_ptr<ThreadWatch::Watched> watched_;  // null while no ThreadWatch watches
  std::atomic<bool> asleep_{false};                // a new task must wake the loop
  std::atomic<bool> told_{false};                  // there are tasks, or the loop stops; set with mutex_ held

  Mutex mutex_;
  std::vector<std::function<void()>> tasks_ BRAID_GUARDED_BY(mutex_);
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;

  // Owned by the loop's thread.
  std::unordered_map<int, std::unique_ptr<Entry>> entries_;
  // Kept because events of this round may still point to them.
  std::vector<std::unique_ptr<Entry>> unwatched_;
  std::map<TimerKey, std::function<void()>> timers_;
  uint64_t next_timer_ = 0;
  std::vector<std::function<void()>> running_;  // tasks of this round; a member to reuse its memory
  bool stop_ = false;
};

}  // namespace braid
