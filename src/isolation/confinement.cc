#include "isolation/confinement.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/unique_fd.h"

namespace braid {
namespace {

// Capabilities that give access to all other processes or to the kernel.
constexpr std::array kDroppedCapabilities = {
    CAP_SYS_PTRACE, CAP_SYS_ADMIN,    CAP_SYS_MODULE,        CAP_SYS_RAWIO, CAP_SYS_BOOT,
    CAP_SYS_TIME,   CAP_SYSLOG,       CAP_SYS_PACCT,         CAP_BPF,       CAP_PERFMON,
    CAP_MAC_ADMIN,  CAP_MAC_OVERRIDE, CAP_CHECKPOINT_RESTORE};

bool HasCapability(int capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return false;
  return (sets.at(static_cast<size_t>(capability) / 32).effective >> (capability % 32) & 1) != 0;
}

// Limits the capabilities of programs that root starts; those of other users start without any. The
// capability `kept` remains, unless it is -1.
void DropCapabilities(IsolationLevel level, int kept = -1) {
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (level >= IsolationLevel::kStrict) {
    for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
      if (capability != kept) ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    }
    return;
  }
  for (const int capability : kDroppedCapabilities) ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
}

// Drops the calling thread's capabilities.
Status LayDownCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return ErrnoError("capget", errno);
  // A filter around this process may refuse the call, so skip it if there is nothing to drop.
  if ((sets[0].permitted | sets[1].permitted) == 0) return OkStatus();
  sets = {};
  if (::syscall(SYS_capset, &header, sets.data()) != 0) return ErrnoError("capset", errno);
  return OkStatus();
}

// A new network namespace starts with its loopback interface switched off.
Status SwitchLoopbackOn() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return ErrnoError("socket", errno);
  ifreq interface {};
  std::strncpy(interface.ifr_name, "lo", sizeof(interface.ifr_name) - 1);
  interface.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &interface) != 0)
    return ErrnoError("the loopback interface", errno);
  return OkStatus();
}

// With this capability, a user without ownership can read the files that Landlock allows, regardless of their
// modes.
constexpr int kReadFiles = CAP_DAC_READ_SEARCH;

Status KeepReadingFiles() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  sets[0].permitted = sets[0].effective = sets[0].inheritable = 1U << kReadFiles;
  if (::syscall(SYS_capset, &header, sets.data()) != 0) return ErrnoError("capset", errno);
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, kReadFiles, 0, 0) != 0)
    return ErrnoError("an ambient capability", errno);
  return OkStatus();
}

// Raw system calls: the C library's functions would also change the parent's threads, because the memory may
// be shared.
Status BecomeUser(uint32_t user) {
  ::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
  if (::syscall(SYS_setgroups, 0, nullptr) != 0) return ErrnoError("setgroups", errno);
  if (::syscall(SYS_setresgid, user, user, user) != 0) return ErrnoError("setresgid", errno);
  if (::syscall(SYS_setresuid, user, user, user) != 0) return ErrnoError("setresuid", errno);
  return KeepReadingFiles();
}

Status BeSeparate(uint32_t user, const MountTree& tree) {
  if (::unshare(CLONE_NEWNET) != 0) return ErrnoError("a network namespace", errno);
  BRAID_RETURN_IF_ERROR(SwitchLoopbackOn());
  BRAID_RETURN_IF_ERROR(tree.Enter(true));
  DropCapabilities(IsolationLevel::kSeparate, kReadFiles);
  return BecomeUser(user);
}

}  // namespace

Result<PreparedConfinement> PreparedConfinement::Make(Confinement confinement) {
  PreparedConfinement prepared;
  prepared.confinement_ = std::move(confinement);
  const IsolationLevel level = prepared.confinement_.level;
  if (level == IsolationLevel::kNone || (level == IsolationLevel::kBasic && !HasSyscallFilters()))
    return prepared;
  if (level == IsolationLevel::kSeparate || (level == IsolationLevel::kStrict && CanMakeMountTrees()))
    prepared.tree_ = MountTree::Of(prepared.confinement_.files);
  FileFacts facts = FileFacts::kAll;
  if (level >= IsolationLevel::kStrict) facts = prepared.tree_ ? FileFacts::kWithoutSetId : FileFacts::kNone;
  BRAID_ASSIGN_OR_RETURN(prepared.filter_, SyscallFilter::Of(level, facts));
  return prepared;
}

Status PreparedConfinement::Enter() const {
  // Set-user-id programs get no rights back, at any level.
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (confinement_.level == IsolationLevel::kNone) return OkStatus();
  Status entered = EnterLevel();
  if (entered.ok()) return entered;
  return entered.WithPrefix("isolation '" + std::string(IsolationLevelName(confinement_.level)) + "': ");
}

Status PreparedConfinement::EnterLevel() const {
  switch (confinement_.level) {
    case IsolationLevel::kNone:
      return OkStatus();
    case IsolationLevel::kBasic:
      DropCapabilities(confinement_.level);
      if (LandlockVersion() >= kLandlockForAllFiles) BRAID_RETURN_IF_ERROR(EnterLandlockDomain());
      return filter_.Enter();
    case IsolationLevel::kStrict:
      if (tree_) BRAID_RETURN_IF_ERROR(tree_->Enter(false));
      DropCapabilities(confinement_.level);
      break;
    case IsolationLevel::kSeparate:
      BRAID_RETURN_IF_ERROR(BeSeparate(confinement_.user_id, *tree_));
      break;
  }
  BRAID_RETURN_IF_ERROR(EnterLandlockDomain(confinement_.files));
  return filter_.Enter();
}

Status ConfineProcess(const std::vector<LandlockPath>& files) {
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  DropCapabilities(IsolationLevel::kStrict);
  BRAID_RETURN_IF_ERROR(LayDownCapabilities());
  if (LandlockVersion() > 0) BRAID_RETURN_IF_ERROR(EnterLandlockDomain(files));
  if (!HasSyscallFilters()) return OkStatus();
  BRAID_ASSIGN_OR_RETURN(const SyscallFilter filter,
                         SyscallFilter::Of(IsolationLevel::kStrict, FileFacts::kOfOpenFiles));
  return filter.Enter();
}

IsolationReport ReportIsolation(IsolationLevel level) {
  IsolationReport report;
  if (level == IsolationLevel::kNone) return report;
  const int landlock = LandlockVersion();
  const bool privileged = HasCapability(CAP_SYS_ADMIN) && HasCapability(CAP_SETUID);
  const bool strict = level >= IsolationLevel::kStrict;
  if (!HasSyscallFilters()) report.missing.emplace_back("system calls: needs a kernel with seccomp");
  report.kept_out.emplace_back("memory and environment");
  if (landlock >= kLandlockForSignals || level == IsolationLevel::kSeparate) {
    report.kept_out.emplace_back("signals");
  } else {
    report.missing.emplace_back("signals: needs Landlock of Linux 6.12, or --worker-isolation=separate");
  }
  if (!strict) {
    // A user's own processes can write these files unless root owns them. Root owns them for processes that
    // are not dumpable, such as the server.
    if (::geteuid() == 0)
      report.missing.emplace_back(
          "settings of processes in /proc (oom_score_adj): needs a server that is not root, or "
          "--worker-isolation=strict");
    return report;
  }
  report.kept_out.emplace_back("files");
  report.kept_out.emplace_back("network");
  if (level == IsolationLevel::kSeparate || CanMakeMountTrees()) {
    report.kept_out.emplace_back("names and attributes of files");
    report.kept_out.emplace_back("Unix sockets and shared memory by name");
  } else {
    report.missing.emplace_back(
        "names and dates of files, Unix sockets and shared memory by name: needs mounts, as root or in a "
        "user namespace");
  }
  if (landlock < 1) report.refused = "this kernel has no Landlock (Linux 5.13, lsm=landlock)";
  if (!HasSyscallFilters()) report.refused = "this kernel has no system call filters (seccomp)";
  if (level == IsolationLevel::kSeparate && !privileged)
    report.refused =
        "it needs root (CAP_SYS_ADMIN, CAP_SETUID), or subordinate ids: unshare --map-root-user --map-auto "
        "braid serve ...";
  return report;
}

}  // namespace braid
