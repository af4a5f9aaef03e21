#include "protocols/net/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"

namespace braid {
namespace {

constexpr int kEventsARound = 128;

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::Create(std::string thread_name) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.valid() || !wake.valid()) return ErrnoError("cannot create an event loop", errno);
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.ptr = nullptr}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) {
    return ErrnoError("cannot create an event loop", errno);
  }
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(thread_name), std::move(epoll), std::move(wake)));
}

EventLoop::EventLoop(std::string thread_name, UniqueFd epoll, UniqueFd wake)
    : thread_name_(std::move(thread_name)), epoll_(std::move(epoll)), wake_(std::move(wake)) {}

EventLoop::~EventLoop() { Stop(); }

void EventLoop::Start(ThreadWatch* watch) {
  thread_ = StartThread(thread_name_, [this] { Run(); });
  if (watch != nullptr) {
    watched_ =
        watch->WatchTasks(thread_name_, [this](std::function<void()> task) { return Post(std::move(task)); });
  }
}

void EventLoop::Stop() {
  watched_.reset();
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    told_.store(true, std::memory_order_seq_cst);
  }
  if (thread_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
    thread_.join();
  }
  timers_.clear();
  entries_.clear();
  unwatched_.clear();
}

bool EventLoop::Post(std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return false;
    tasks_.push_back(std::move(task));
    told_.store(true, std::memory_order_seq_cst);
  }
  // The loop sets asleep_ before it looks for tasks. So either the loop sees this task, or this thread sees
  // asleep_.
  if (asleep_.exchange(false, std::memory_order_seq_cst)) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
  }
  return true;
}

Status EventLoop::Watch(int fd, uint32_t events, std::shared_ptr<Watcher> watcher) {
  auto entry = std::make_unique<Entry>(Entry{fd, std::move(watcher)});
  epoll_event event{.events = events | EPOLLET, .data = {.ptr = entry.get()}};
  std::unique_ptr<Entry>& slot = entries_[fd];
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const int error = errno;
    entries_.erase(fd);
    return ErrnoError("cannot watch a connection", error);
  }
  slot = std::move(entry);
  return OkStatus();
}

void EventLoop::Unwatch(int fd) {
  const auto found = entries_.find(fd);
  if (found == entries_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  const RetryingAllocation retrying;
  found->second->watcher = nullptr;
  unwatched_.push_back(std::move(found->second));
  entries_.erase(found);
}

EventLoop::TimerKey EventLoop::At(int64_t deadline_ns, std::function<void()> due) {
  const TimerKey key{deadline_ns, ++next_timer_};
  timers_.emplace(key, std::move(due));
  return key;
}

void EventLoop::Run() {
  while (!stop_) GuardedOrReport(thread_name_, [this] { Round(); });
}

int EventLoop::TimeoutMs() const {
  if (timers_.empty()) return -1;
  const int64_t left_ns = timers_.begin()->first.first - SteadyNowNs();
  return left_ns <= 0 ? 0 : static_cast<int>(std::min<int64_t>(left_ns / 1'000'000 + 1, 60'000));
}

void EventLoop::Round() {
  asleep_.store(true, std::memory_order_seq_cst);
  const bool wait = !told_.load(std::memory_order_seq_cst);
  std::array<epoll_event, kEventsARound> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsARound, wait ? TimeoutMs() : 0);
  asleep_.store(false, std::memory_order_relaxed);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    auto* entry = static_cast<Entry*>(event.data.ptr);
    if (entry == nullptr) {
      uint64_t told = 0;
      [[maybe_unused]] const ssize_t read = ::read(wake_.get(), &told, sizeof(told));
      continue;
    }
    // A watcher may unwatch itself within its own event.
    const std::shared_ptr<Watcher> watcher = entry->watcher;
    if (watcher == nullptr) continue;
    GuardedOrReport(thread_name_, [&] { watcher->OnEvents(event.events); });
  }
  unwatched_.clear();
  RunTasks();
  RunTimers();
}

void EventLoop::RunTasks() {
  if (!told_.exchange(false, std::memory_order_seq_cst)) return;
  {
    MutexLock lock(mutex_);
    running_.swap(tasks_);
    stop_ = stopping_;
  }
  for (std::function<void()>& task : running_) {
    GuardedOrReport(thread_name_, [&] { task(); });
    task = nullptr;
  }
  running_.clear();
}

void EventLoop::RunTimers() {
  const int64_t now_ns = SteadyNowNs();
  while (!timers_.empty() && timers_.begin()->first.first <= now_ns) {
    auto due = timers_.extract(timers_.begin());
    GuardedOrReport(thread_name_, [&] { due.mapped()(); });
  }
}

}  // namespace braid
