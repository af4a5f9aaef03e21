// SyscallFilter: a seccomp filter for models' processes. Refused system calls fail with an error, and the
// process goes on.
#pragma once

#include <linux/filter.h>

#include <vector>

#include "base/status.h"
#include "isolation/isolation_level.h"

namespace braid {

// Whether this kernel supports seccomp filters.
bool HasSyscallFilters();

// Which metadata of files (modes, owners, dates, attributes) a process may change. A read-only mount may
// forbid it anyway.
enum class FileFacts { kAll, kWithoutSetId, kOfOpenFiles, kNone };

// The filter of a level.
//
// kBasic refuses these calls with EPERM:
// - Access to another process's memory or descriptors (ptrace, process_vm_readv, pidfd_getfd) or limits.
// - Input into a terminal (TIOCSTI).
// - Changes of the system (mount, kexec, bpf, modules, keys, perf events).
// - All calls of programs for other architectures (32-bit).
//
// kStrict also refuses sockets outside of the Unix domain (EACCES), new namespaces (EPERM), and io_uring
// (ENOSYS), whose calls no filter sees.
//
// kSeparate is like kStrict, but allows IP and netlink sockets, because the process has a private network.
// Other socket families reach beyond it (EACCES).
//
// kWithoutSetId refuses set-user-id modes (EPERM), and openat2 (ENOSYS), whose mode no filter sees. With
// kNone, all changes of metadata are refused too (EPERM). The value kOfOpenFiles is like kNone, but allows
// modes and dates by descriptor. It refuses all sockets (EACCES).
class SyscallFilter {
 public:
  // Allows all calls.
  SyscallFilter() = default;
  // Errors: INTERNAL. REQUIRES: `level` is not kNone.
  static Result<SyscallFilter> Of(IsolationLevel level, FileFacts facts = FileFacts::kAll);

  // Applies the filter to the calling thread and every process it starts afterwards. Allocates only if it
  // fails. Errors: INTERNAL.
  Status Enter() const;

 private:
  std::vector<sock_filter> program_;
};

}  // namespace braid
