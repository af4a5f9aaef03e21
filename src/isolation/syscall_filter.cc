#include "isolation/syscall_filter.h"

#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>

namespace braid {
namespace {

// By name, since those that the system's headers or this architecture do not know are left out.
constexpr const char* kRefusedCalls[] = {
    // other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "process_madvise", "kcmp",
    "migrate_pages", "move_pages",
    // mounts
    "mount", "umount2", "pivot_root", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig",
    "fsmount", "fspick", "mount_setattr", "swapon", "swapoff", "quotactl", "quotactl_fd", "open_by_handle_at",
    // the kernel
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "bpf", "perf_event_open",
    "userfaultfd", "lookup_dcookie", "syslog", "acct", "reboot", "iopl", "ioperm", "modify_ldt",
    // keys
    "add_key", "request_key", "keyctl",
    // the clock and the names of the machine
    "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "vhangup"};

constexpr uint64_t kNewNamespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

class Filter {
 public:
  // Allows all calls.
  Filter() : context_(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release) {}

  bool valid() const { return context_ != nullptr; }
  int error() const { return error_; }

  void Set(scmp_filter_attr attribute, uint32_t value) {
    Note(seccomp_attr_set(context_.get(), attribute, value));
  }
  // The call fails with `error` where all of `conditions` hold.
  template <class... Conditions>
  void Refuse(const char* call, int error, Conditions... conditions) {
    const int number = seccomp_syscall_resolve_name(call);
    if (number == __NR_SCMP_ERROR || number < 0) return;
    const std::array<scmp_arg_cmp, sizeof...(conditions)> all = {conditions...};
    Note(seccomp_rule_add_array(context_.get(), SCMP_ACT_ERRNO(static_cast<uint32_t>(error)), number,
                                static_cast<unsigned>(all.size()), all.data()));
  }
  void Load() {
    if (error_ == 0) Note(seccomp_load(context_.get()));
  }

 private:
  void Note(int result) {
    if (result < 0 && error_ == 0) error_ = -result;
  }

  std::unique_ptr<void, void (*)(scmp_filter_ctx)> context_;
  int error_ = 0;
};

scmp_arg_cmp Not(unsigned argument, uint64_t value) { return {argument, SCMP_CMP_NE, value, 0}; }
// Of a number of 32 bits, as the kernel takes it: what stands in the upper half of the register is nothing.
scmp_arg_cmp Is(unsigned argument, uint32_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, UINT32_MAX, value};
}
scmp_arg_cmp Has(unsigned argument, uint64_t flag) { return {argument, SCMP_CMP_MASKED_EQ, flag, flag}; }

void RefuseAtBasic(Filter& filter) {
  for (const char* call : kRefusedCalls) filter.Refuse(call, EPERM);
  // Limits of other processes; and the one by which the server knows what a worker has started (ProcessFamily).
  filter.Refuse("prlimit64", EPERM, Not(0, 0), Not(2, 0));
  filter.Refuse("prlimit64", EPERM, Is(1, RLIMIT_LOCKS), Not(2, 0));
  filter.Refuse("setrlimit", EPERM, Is(0, RLIMIT_LOCKS));
}

void RefuseAtStrict(Filter& filter) {
  filter.Refuse("unshare", EPERM);
  filter.Refuse("setns", EPERM);
  filter.Refuse("chroot", EPERM);
  for (uint64_t flag = 1; flag <= kNewNamespaces; flag <<= 1) {
    if ((flag & kNewNamespaces) != 0) filter.Refuse("clone", EPERM, Has(0, flag));
  }
  // Its flags lie in memory, where a filter does not see them; the C library takes clone() then.
  filter.Refuse("clone3", ENOSYS);
  for (const char* call : {"io_uring_setup", "io_uring_enter", "io_uring_register"})
    filter.Refuse(call, ENOSYS);
}

}  // namespace

bool HasSyscallFilters() { return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0; }

Status FilterSyscalls(IsolationLevel level) {
  Filter filter;
  if (!filter.valid()) return InternalError("a filter of system calls: out of memory");
  filter.Set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM));
  // Else older kernels slow the process down, against attacks by its own code on itself.
  filter.Set(SCMP_FLTATR_CTL_SSB, 1);
  filter.Set(SCMP_FLTATR_CTL_OPTIMIZE, 2);
  RefuseAtBasic(filter);
  if (level >= IsolationLevel::kStrict) RefuseAtStrict(filter);
  if (level == IsolationLevel::kStrict) {
    filter.Refuse("socket", EACCES, Not(0, AF_UNIX));
  }
  filter.Load();
  if (filter.error() != 0) return ErrnoError("a filter of system calls", filter.error());
  return OkStatus();
}

}  // namespace braid
