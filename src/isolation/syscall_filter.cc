#include "isolation/syscall_filter.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace braid {
namespace {

// By name, because calls unknown to the system's headers or to this architecture are left out.
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

// Calls newer than the library that knows the others by name; their numbers are the same on all
// architectures.
constexpr struct {
  std::string_view name;
  int number;
} kNewCalls[] = {{"fchmodat2", 452},
                 {"setxattrat", 463},
                 {"removexattrat", 466},
                 {"open_tree_attr", 467},
                 {"file_setattr", 469}};

// Calls that change modes, owners, dates and attributes of files.
constexpr const char* kFactCalls[] = {
    "chmod",        "fchmod",        "fchmodat",    "fchmodat2",  "chown",       "lchown",
    "fchown",       "fchownat",      "utime",       "utimes",     "futimesat",   "utimensat",
    "setxattr",     "lsetxattr",     "fsetxattr",   "setxattrat", "removexattr", "lremovexattr",
    "fremovexattr", "removexattrat", "file_setattr"};

constexpr uint64_t kNewNamespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

class FilterBuilder {
 public:
  // Allows all calls.
  FilterBuilder() : context_(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release) {}

  bool valid() const { return context_ != nullptr; }
  int error() const { return error_; }

  void Set(scmp_filter_attr attribute, uint32_t value) {
    Note(seccomp_attr_set(context_.get(), attribute, value));
  }
  // Makes the call fail with `error` if all `conditions` hold.
  template <class... Conditions>
  void Refuse(const char* call, int error, Conditions... conditions) {
    int number = seccomp_syscall_resolve_name(call);
    for (const auto& [name, of_it] : kNewCalls)
      if (name == call) number = of_it;
    if (number == __NR_SCMP_ERROR || number < 0) return;
    const std::array<scmp_arg_cmp, sizeof...(conditions)> all = {conditions...};
    Note(seccomp_rule_add_array(context_.get(), SCMP_ACT_ERRNO(static_cast<uint32_t>(error)), number,
                                static_cast<unsigned>(all.size()), all.data()));
  }
  // Returns the program for the kernel.
  std::vector<sock_filter> Program() {
    const UniqueFd file(memfd_create("syscall-filter", MFD_CLOEXEC));
    Note(file.valid() ? seccomp_export_bpf(context_.get(), file.get()) : -errno);
    if (error_ != 0) return {};
    std::vector<sock_filter> program(static_cast<size_t>(lseek(file.get(), 0, SEEK_END)) /
                                     sizeof(sock_filter));
    const size_t bytes = program.size() * sizeof(sock_filter);
    if (pread(file.get(), program.data(), bytes, 0) != static_cast<ssize_t>(bytes)) Note(-EIO);
    return program;
  }

 private:
  void Note(int result) {
    if (result < 0 && error_ == 0) error_ = -result;
  }

  std::unique_ptr<void, void (*)(scmp_filter_ctx)> context_;
  int error_ = 0;
};

scmp_arg_cmp Not(unsigned argument, uint64_t value) { return {argument, SCMP_CMP_NE, value, 0}; }
// Compares a 32-bit number as the kernel does, which ignores the register's upper half.
scmp_arg_cmp Is(unsigned argument, uint32_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, UINT32_MAX, value};
}
scmp_arg_cmp Has(unsigned argument, uint64_t flag) { return {argument, SCMP_CMP_MASKED_EQ, flag, flag}; }

void RefuseAtBasic(FilterBuilder& filter) {
  for (const char* call : kRefusedCalls) filter.Refuse(call, EPERM);
  // Refuses limits of other processes, and the limit that marks a worker's processes for the server
  // (ProcessFamily).
  filter.Refuse("prlimit64", EPERM, Not(0, 0), Not(2, 0));
  filter.Refuse("prlimit64", EPERM, Is(1, RLIMIT_LOCKS), Not(2, 0));
  filter.Refuse("setrlimit", EPERM, Is(0, RLIMIT_LOCKS));
  // Such input would act as the operator's commands.
  filter.Refuse("ioctl", EPERM, Is(1, TIOCSTI));
  filter.Refuse("ioctl", EPERM, Is(1, TIOCLINUX));
}

void RefuseAtStrict(FilterBuilder& filter) {
  filter.Refuse("unshare", EPERM);
  filter.Refuse("setns", EPERM);
  filter.Refuse("chroot", EPERM);
  for (uint64_t flag = 1; flag <= kNewNamespaces; flag <<= 1) {
    if ((flag & kNewNamespaces) != 0) filter.Refuse("clone", EPERM, Has(0, flag));
  }
  // Its flags are in memory, which a filter cannot read. The C library then falls back to clone().
  filter.Refuse("clone3", ENOSYS);
  for (const char* call : {"io_uring_setup", "io_uring_enter", "io_uring_register"})
    filter.Refuse(call, ENOSYS);
}

void RefuseSockets(FilterBuilder& filter, IsolationLevel level, bool all) {
  if (all) return filter.Refuse("socket", EACCES);
  if (level == IsolationLevel::kStrict) return filter.Refuse("socket", EACCES, Not(0, AF_UNIX));
  // A rule compares an argument only once. Of the other families, virtual machines (AF_VSOCK) and radio have
  // no network namespaces.
  for (uint32_t family = 0; family < AF_NETLINK; ++family) {
    if (family != AF_UNIX && family != AF_INET && family != AF_INET6)
      filter.Refuse("socket", EACCES, Is(0, family));
  }
  filter.Refuse("socket", EACCES, scmp_arg_cmp{0, SCMP_CMP_GT, AF_NETLINK, 0});
}

void RefuseSetId(FilterBuilder& filter) {
  for (const uint64_t bit : {S_ISUID, S_ISGID}) {
    for (const char* call : {"chmod", "fchmod", "mknod", "creat"}) filter.Refuse(call, EPERM, Has(1, bit));
    for (const char* call : {"fchmodat", "fchmodat2", "mknodat"}) filter.Refuse(call, EPERM, Has(2, bit));
    // These calls have a mode argument only if they create a file.
    for (const uint64_t makes : {O_CREAT, O_TMPFILE}) {
      filter.Refuse("open", EPERM, Has(1, makes), Has(2, bit));
      filter.Refuse("openat", EPERM, Has(2, makes), Has(3, bit));
    }
  }
  filter.Refuse("openat2", ENOSYS);
}

void RefuseFacts(FilterBuilder& filter, bool of_open_files) {
  for (const std::string_view call : kFactCalls) {
    if (!of_open_files || (call != "fchmod" && call != "utimensat")) filter.Refuse(call.data(), EPERM);
  }
  if (of_open_files) filter.Refuse("utimensat", EPERM, Not(1, 0));
  filter.Refuse("ioctl", EPERM, Is(1, FS_IOC_SETFLAGS));
  filter.Refuse("ioctl", EPERM, Is(1, FS_IOC_FSSETXATTR));
}

}  // namespace

bool HasSyscallFilters() { return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0; }

Result<SyscallFilter> SyscallFilter::Of(IsolationLevel level, FileFacts facts) {
  FilterBuilder builder;
  if (!builder.valid()) return InternalError("system call filter: out of memory");
  builder.Set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM));
  builder.Set(SCMP_FLTATR_CTL_OPTIMIZE, 2);
  RefuseAtBasic(builder);
  if (level >= IsolationLevel::kStrict) RefuseAtStrict(builder);
  if (level >= IsolationLevel::kStrict) RefuseSockets(builder, level, facts == FileFacts::kOfOpenFiles);
  if (facts != FileFacts::kAll) RefuseSetId(builder);
  if (facts >= FileFacts::kOfOpenFiles) RefuseFacts(builder, facts == FileFacts::kOfOpenFiles);
  SyscallFilter filter;
  filter.program_ = builder.Program();
  if (builder.error() != 0) return ErrnoError("system call filter", builder.error());
  return filter;
}

Status SyscallFilter::Enter() const {
  if (program_.empty()) return OkStatus();
  const sock_fprog program{static_cast<unsigned short>(program_.size()),
                           const_cast<sock_filter*>(program_.data())};
  // The kernel requires this of threads without privileges.
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  // Without the flag, older kernels enable mitigations against attacks by the process's own code, which slow
  // it down.
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) != 0)
    return ErrnoError("system call filter", errno);
  return OkStatus();
}

}  // namespace braid
