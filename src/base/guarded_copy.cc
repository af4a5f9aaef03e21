#include "base/guarded_copy.h"

#include <setjmp.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace braid {
namespace {

// The copy that this thread is doing.
struct Guard {
  sigjmp_buf start;
  uintptr_t begin;
  uintptr_t end;
};

thread_local Guard* volatile current = nullptr;
struct sigaction before;

void OnBusError(int signal, siginfo_t* info, void* context) {
  // The fault is synchronous and in memcpy, which holds no locks or resources, so leaving it by a jump is
  // safe.
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  Guard* guard = current;
  if (guard != nullptr && at >= guard->begin && at < guard->end) siglongjmp(guard->start, 1);
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    // The instruction faults again and ends the process as without a handler.
    sigaction(SIGBUS, &before, nullptr);
  }
}

bool Install() {
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  // SIGBUS is not masked while the handler runs, because the jump leaves it without unmasking.
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  BRAID_CHECK(sigaction(SIGBUS, &action, &before) == 0);
  return true;
}

bool Copy(void* to, const void* from, size_t size, const void* shared) {
  static const bool installed = Install();
  static_cast<void>(installed);
  Guard guard;
  guard.begin = reinterpret_cast<uintptr_t>(shared);
  guard.end = guard.begin + size;
  if (sigsetjmp(guard.start, 0) != 0) {
    current = nullptr;
    return false;
  }
  // The fences keep the copy between the two assignments of `current`.
  current = &guard;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(to, from, size);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  current = nullptr;
  return true;
}

}  // namespace

bool CopyFromShared(void* to, const void* shared, size_t size) { return Copy(to, shared, size, shared); }
bool CopyToShared(void* shared, const void* from, size_t size) { return Copy(shared, from, size, shared); }

}  // namespace braid
