// Which system calls a process of a model may make: a filter (seccomp) that fails the others with an error, so that
// what tries one goes on.
#pragma once

#include <linux/filter.h>

#include <vector>

#include "base/status.h"
#include "isolation/isolation_level.h"

namespace braid {

// Whether this kernel has filters.
bool HasSyscallFilters();

// Which facts of files (modes, owners, dates, attributes) a process may change, where no mount that is read-only keeps it from that.
enum class FileFacts { kAll, kWithoutSetId, kOfOpenFiles, kNone };

// The filter of a level.
//
// kBasic: calls with which one process gets at another's memory or descriptors (ptrace, process_vm_readv, pidfd_getfd),
// changes another's limits, types into a terminal (TIOCSTI), or changes the system (mount, kexec, bpf, modules, keys, perf
// events); EPERM. Programs of other architectures (32-bit) get EPERM for each call.
// kStrict: besides, sockets that are not of the Unix domain (EACCES), new namespaces (EPERM), and io_uring (ENOSYS),
// which makes calls that no filter sees.
// kSeparate: as kStrict, but with sockets of IP and of the kernel (netlink), since that network is one of its own; others reach
// beyond it (EACCES).
//
// kWithoutSetId: besides, modes with which a program is its owner's for all who start it (EPERM), and openat2 (ENOSYS), whose
// mode no filter sees. kNone: besides, all changes of facts (EPERM). kOfOpenFiles: as kNone, but for modes and dates by descriptors;
// it is for a process that needs no sockets, and has none (EACCES).
class SyscallFilter {
 public:
  // Allows all calls.
  SyscallFilter() = default;
  // Errors: INTERNAL. REQUIRES: `level` is not kNone.
  static Result<SyscallFilter> Of(IsolationLevel level, FileFacts facts = FileFacts::kAll);

  // Puts the calling thread, and all that it starts from then on, under the filter. Allocates nothing unless it fails. Errors:
  // INTERNAL.
  Status Enter() const;

 private:
  std::vector<sock_filter> program_;
};

}  // namespace braid
