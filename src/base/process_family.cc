#include "base/process_family.h"

#include <dirent.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace braid {
namespace {

// Marks start at a high number, so that a limit set by an administrator is not taken for one.
constexpr uint64_t kFirstMark = uint64_t{0xb5a1d} << 40;
constexpr uint64_t kMarks = uint64_t{1} << 40;
// A process in a family needs a lower mark to found its own family, since a limit cannot be raised. Below so
// many free marks, Found() fails.
constexpr uint64_t kFewestMarks = uint64_t{1} << 16;
constexpr useconds_t kPauseUs = 5000;

bool IsMark(uint64_t limit) { return limit >= kFirstMark && limit < kFirstMark + kMarks; }

int OpenPidfd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

// Returns whether the process has ended and waits to be reaped.
bool HasEnded(int pidfd) {
  pollfd wait{pidfd, POLLIN, 0};
  return poll(&wait, 1, 0) == 1;
}

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

}  // namespace

Result<ProcessFamily> ProcessFamily::Choose(rlim_t highest) {
  const uint64_t end = std::min<uint64_t>(highest, kFirstMark + kMarks);
  if (end < kFirstMark + kFewestMarks) {
    return UnsupportedError("the file lock limit (ulimit -H -x) is too low to mark processes");
  }
  uint64_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) return ErrnoError("getrandom", errno);
  return ProcessFamily(kFirstMark + random % (end - kFirstMark));
}

Result<ProcessFamily> ProcessFamily::Prepare() {
  rlimit own{};
  if (getrlimit(RLIMIT_LOCKS, &own) != 0) return ErrnoError("getrlimit", errno);
  return Choose(own.rlim_max);
}

Result<ProcessFamily> ProcessFamily::Found(pid_t head) {
  rlimit its{};
  if (prlimit(head, RLIMIT_LOCKS, nullptr, &its) != 0) return ErrnoError("prlimit", errno);
  BRAID_ASSIGN_OR_RETURN(const ProcessFamily family, Choose(its.rlim_max));
  const rlimit mark = family.limit().second;
  if (prlimit(head, RLIMIT_LOCKS, &mark, nullptr) != 0) return ErrnoError("prlimit", errno);
  return family;
}

std::pair<int, rlimit> ProcessFamily::limit() const { return {RLIMIT_LOCKS, {mark_, mark_}}; }

std::optional<ProcessFamily> ProcessFamily::Own() {
  rlimit limit{};
  if (getrlimit(RLIMIT_LOCKS, &limit) != 0 || !IsMark(limit.rlim_max)) return std::nullopt;
  return ProcessFamily(limit.rlim_max);
}

bool ProcessFamily::Has(pid_t pid) const {
  rlimit limit{};
  return prlimit(pid, RLIMIT_LOCKS, nullptr, &limit) == 0 && limit.rlim_max == mark_;
}

size_t ProcessFamily::Kill() const {
  const std::unique_ptr<DIR, CloseDir> processes(opendir("/proc"));
  if (!processes) return 0;
  size_t found = 0;
  while (const dirent* entry = readdir(processes.get())) {
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    pid_t pid = 0;
    if (std::from_chars(entry->d_name, end, pid).ptr != end || pid == getpid() || !Has(pid)) continue;
    const UniqueFd pidfd(OpenPidfd(pid));
    // Checked again, because the open descriptor now keeps the process id from being reused.
    if (!pidfd.valid() || HasEnded(pidfd.get()) || !Has(pid)) continue;
    if (syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0) == 0) ++found;
  }
  return found;
}

bool ProcessFamily::End(int64_t timeout_ns) const {
  const int64_t deadline = SteadyNowNs() + timeout_ns;
  for (int empty = 0; empty < 2;) {
    empty = Kill() == 0 ? empty + 1 : 0;
    if (empty < 2 && SteadyNowNs() >= deadline) return false;
    if (empty < 2) usleep(kPauseUs);
  }
  return true;
}

}  // namespace braid
