#include "base/thread_watch.h"

#include <atomic>
#include <chrono>

#include "base/check.h"
#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"
#include "base/thread_stack.h"

namespace braid {

// The state that a task updates. It is shared with the tasks, because a thread may run one after Watched is
// destroyed.
struct ThreadWatch::Probe {
  std::atomic<uint64_t> ran{0};  // the number of the last task that has run
  std::atomic<pid_t> thread{0};  // the thread that ran it
};

struct ThreadWatch::Thread {
  std::string name;
  std::string about;
  // One of the two is set.
  Post post;
  std::function<Work()> work;

  std::shared_ptr<Probe> probe = std::make_shared<Probe>();
  uint64_t posted = 0;
  uint64_t handled = 0;
  int64_t since_ns = 0;    // when the last task was posted, or work was last handled
  int64_t stalled_ns = 0;  // when the current stall began; 0: not stalled
};

ThreadWatch::ThreadWatch(Logger& log) : ThreadWatch(log, Options()) {}

ThreadWatch::ThreadWatch(Logger& log, const Options& options)
    : options_(options), log_(log), thread_(StartThread("brd-watch", [this] { Run(); })) {}

ThreadWatch::~ThreadWatch() {
  {
    MutexLock lock(mutex_);
    BRAID_CHECK(threads_.empty());
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

ThreadWatch::Watched::~Watched() {
  MutexLock lock(watch_.mutex_);
  watch_.threads_.erase(thread_);
}

std::unique_ptr<ThreadWatch::Watched> ThreadWatch::Add(Thread thread) {
  thread.since_ns = SteadyNowNs();
  // A task is posted at once, so that the thread's id, and thus its stack, is known even if it stalls before
  // the first check.
  if (thread.post) PostTask(thread);
  MutexLock lock(mutex_);
  stalls_.emplace(thread.name, 0);
  threads_.push_back(std::move(thread));
  return std::make_unique<Watched>(*this, std::prev(threads_.end()));
}

std::unique_ptr<ThreadWatch::Watched> ThreadWatch::WatchTasks(std::string name, Post post) {
  Thread thread;
  thread.name = std::move(name);
  thread.post = std::move(post);
  return Add(std::move(thread));
}

std::unique_ptr<ThreadWatch::Watched> ThreadWatch::WatchWork(std::string name, std::string about, pid_t id,
                                                             std::function<Work()> work) {
  Thread thread;
  thread.name = std::move(name);
  thread.about = std::move(about);
  thread.work = std::move(work);
  thread.probe->thread = id;
  return Add(std::move(thread));
}

std::map<std::string, uint64_t> ThreadWatch::Stalls() const {
  MutexLock lock(mutex_);
  return stalls_;
}

void ThreadWatch::PostTask(Thread& thread) {
  const auto task = [probe = thread.probe, number = thread.posted + 1] {
    probe->thread.store(ThreadId(), std::memory_order_relaxed);
    probe->ran.store(number, std::memory_order_release);
  };
  if (thread.post(task)) ++thread.posted;
}

bool ThreadWatch::GoesOn(Thread& thread) {
  if (thread.post) return thread.probe->ran.load(std::memory_order_acquire) == thread.posted;
  const Work work = thread.work();
  return std::exchange(thread.handled, work.handled) != work.handled || work.handled >= work.arrived;
}

void ThreadWatch::LookLocked(int64_t now_ns, bool forgive, std::vector<Note>& notes) {
  for (Thread& thread : threads_) {
    const auto note = [&](int64_t ns, bool over) {
      notes.push_back({thread.about.empty() ? thread.name : thread.name + " of " + thread.about, ns, over,
                       thread.probe->thread.load(std::memory_order_relaxed)});
    };
    if (GoesOn(thread)) {
      thread.since_ns = now_ns;
      if (thread.stalled_ns != 0) note(now_ns - std::exchange(thread.stalled_ns, 0), true);
      if (thread.post) PostTask(thread);
    } else if (forgive) {
      thread.since_ns = now_ns;
    } else if (thread.stalled_ns == 0 && now_ns - thread.since_ns >= options_.stall_ns) {
      thread.stalled_ns = thread.since_ns;
      ++stalls_[thread.name];
      note(now_ns - thread.since_ns, false);
    }
  }
}

void ThreadWatch::Write(const Note& note) {
  if (note.over) {
    BRAID_LOG_WARNING(log_, "thread {} resumed after {} ms", note.name, note.ns / 1'000'000);
    return;
  }
  const Result<std::vector<std::string>> stack =
      note.thread == 0 ? NotFoundError("it has not run yet") : StackOf(note.thread);
  if (!stack.ok()) {
    BRAID_LOG_WARNING(log_, "thread {} has stalled for {} ms; {}", note.name, note.ns / 1'000'000,
                      stack.status().message());
    return;
  }
  BRAID_LOG_WARNING(log_, "thread {} has stalled for {} ms, in:", note.name, note.ns / 1'000'000);
  for (const std::string& line : *stack) BRAID_LOG_WARNING(log_, "  {}", line);
}

void ThreadWatch::Run() {
  std::vector<Note> notes;
  int64_t last_ns = SteadyNowNs();
  MutexLock lock(mutex_);
  while (!stopping_) {
    changed_.WaitFor(mutex_, std::chrono::nanoseconds(options_.look_ns));
    if (stopping_) break;
    const int64_t now_ns = SteadyNowNs();
    // This thread has no work that takes so long, so the system did not let it run.
    const bool forgive = now_ns - std::exchange(last_ns, now_ns) > options_.look_ns + options_.stall_ns / 2;
    GuardedOrReport("brd-watch", [&] {
      mutex_.AssertHeld();
      LookLocked(now_ns, forgive, notes);
    });
    if (notes.empty()) continue;
    lock.Unlock();
    GuardedOrReport("brd-watch", [&] {
      for (const Note& note : notes) Write(note);
      // Flushed now, because an operator who reads the file needs the lines at once.
      log_.Flush();
    });
    notes.clear();
    lock.Lock();
    last_ns = SteadyNowNs();
  }
}

}  // namespace braid
