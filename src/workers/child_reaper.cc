#include "workers/child_reaper.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"

namespace braid {
namespace {

// Orphans of user code are rare and only cost a process id, so a check at this interval is enough.
constexpr int kOrphanIntervalMs = 1000;
// The interval of checks on families, and their duration at most.
constexpr int kFamilyIntervalMs = 5;
constexpr int64_t kFamilyNs = 5'000'000'000;

}  // namespace

std::string ExitCause::ToString() const {
  if (!signalled) return "it exited with code " + std::to_string(number);
  return "it was ended by signal " + std::to_string(number) + " (" + strsignal(number) + ")";
}

Result<std::unique_ptr<ChildReaper>> ChildReaper::Create() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return ErrnoError("PR_SET_CHILD_SUBREAPER", errno);
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.valid() || !wake.valid()) return ErrnoError("epoll of child processes", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 0;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) return ErrnoError("epoll_ctl", errno);
  return std::unique_ptr<ChildReaper>(new ChildReaper(std::move(epoll), std::move(wake)));
}

ChildReaper::ChildReaper(UniqueFd epoll, UniqueFd wake)
    : epoll_(std::move(epoll)), wake_(std::move(wake)), thread_(StartThread("brd-reap", [this] { Run(); })) {}

ChildReaper::~ChildReaper() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = ::write(wake_.get(), &one, sizeof(one));
  thread_.join();
}

ChildReaper::SpawnScope::SpawnScope(ChildReaper& reaper) : reaper_(reaper) {
  MutexLock lock(reaper_.mutex_);
  ++reaper_.spawning_;
}

ChildReaper::SpawnScope::~SpawnScope() {
  MutexLock lock(reaper_.mutex_);
  --reaper_.spawning_;
}

Status ChildReaper::Watch(pid_t pid, OnExit on_exit, std::optional<ProcessFamily> family) {
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) return ErrnoError("pidfd_open", errno);
  MutexLock lock(mutex_);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<uint64_t>(pid);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, pidfd.get(), &event) != 0) return ErrnoError("epoll_ctl", errno);
  children_.emplace(pid, Child{std::move(pidfd), std::move(on_exit), family});
  return OkStatus();
}

void ChildReaper::Kill(pid_t pid, int signal) {
  // Only our thread reaps watched children, with this mutex held, so the id cannot belong to another process
  // here.
  MutexLock lock(mutex_);
  if (!children_.contains(pid)) return;
  if (signal == SIGKILL) kill(-pid, signal);
  kill(pid, signal);
}

void ChildReaper::Reap(pid_t pid) {
  OnExit on_exit;
  ExitCause cause;
  {
    MutexLock lock(mutex_);
    auto it = children_.find(pid);
    if (it == children_.end()) return;
    // The group is killed first: while the zombie exists, no other process can have its id.
    kill(-pid, SIGKILL);
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) return;
    cause.signalled = info.si_code != CLD_EXITED;
    cause.number = info.si_status;
    on_exit = std::move(it->second.on_exit);
    if (it->second.family) orphaned_.push_back({*it->second.family, SteadyNowNs() + kFamilyNs});
    children_.erase(it);
  }
  GuardedOrReport("brd-reap", [this] { EndFamilies(); });
  GuardedOrReport("brd-reap", [&] { on_exit(cause); });
}

void ChildReaper::EndFamilies() {
  std::erase_if(orphaned_, [](Orphaned& one) {
    one.empty_looks = one.family.Kill() == 0 ? one.empty_looks + 1 : 0;
    return one.empty_looks == 2 || SteadyNowNs() > one.give_up_ns;
  });
}

void ChildReaper::ReapOrphans() {
  MutexLock lock(mutex_);
  if (spawning_ != 0) return;
  while (true) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    // A watched child is reaped through its descriptor. Until then it hides other orphans, but only for a
    // moment.
    if (children_.contains(info.si_pid)) return;
    waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
  }
}

void ChildReaper::Run() {
  while (true) {
    epoll_event events[16];
    const int count =
        epoll_wait(epoll_.get(), events, 16, orphaned_.empty() ? kOrphanIntervalMs : kFamilyIntervalMs);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 != 0) Reap(static_cast<pid_t>(events[i].data.u64));
    }
    EndFamilies();
    ReapOrphans();
    MutexLock lock(mutex_);
    if (stopping_ && orphaned_.empty()) return;
  }
}

}  // namespace braid
