// Guards: the places where exceptions end. Braid's own errors are values (base/status.h); exceptions come
// from libraries and from failed allocations. Every thread runs each piece of its work (a request, an event,
// a timer, a message) in a guard. An exception then costs that piece and never the server.
//
//   Status status = Guarded([&] { return Answer(request); });
//
// A failed allocation becomes RESOURCE_EXHAUSTED, everything else INTERNAL. None of this allocates when
// memory is short.
//
// Changes that must not stop half-way, such as a scheduler's state, are not guarded. They retry failed
// allocations:
//
//   RetryingLock lock(mutex_);
//   ... queues, tables, lists ...
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"

namespace braid {

// The status of a failed allocation. Its text is so short that copies of it need no memory either.
const Status& OutOfMemory();

// Returns the status of the exception that is being handled. REQUIRES: called in a catch block.
Status HandledExceptionStatus() noexcept;

// Returns the status of the exception that unwinds the stack, for destructors that report an error to the
// objects they own. It recognises a failed allocation through InstallAllocationHandler() and reports anything
// else as INTERNAL.
Status UnwindingStatus() noexcept;

// While one exists, a failed allocation of this thread is retried for up to ten seconds, and throws only
// then. Use it for state of a few bytes per request, never for sizes that a client chooses.
class RetryingAllocation {
 public:
  RetryingAllocation() noexcept;
  ~RetryingAllocation();
  RetryingAllocation(const RetryingAllocation&) = delete;
  RetryingAllocation& operator=(const RetryingAllocation&) = delete;
};

// A MutexLock whose section retries failed allocations: for state that must not change by half.
class BRAID_THREAD_ATTRIBUTE(scoped_lockable) RetryingLock {
 public:
  explicit RetryingLock(Mutex& mutex) BRAID_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~RetryingLock() BRAID_RELEASE() { mutex_.Unlock(); }
  RetryingLock(const RetryingLock&) = delete;
  RetryingLock& operator=(const RetryingLock&) = delete;

 private:
  const RetryingAllocation retrying_;
  Mutex& mutex_;
};

// Installs the new-handler that UnwindingStatus() and RetryingAllocation need. Called once, by main().
void InstallAllocationHandler();

// Writes one line to standard error, for faults that belong to no request: "braid: {where}: {status}".
void ReportFault(std::string_view where, const Status& status) noexcept;

// Runs `work`, which returns a Status or nothing. An exception is returned as a status.
template <class Work>
Status Guarded(Work&& work) noexcept {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
      std::forward<Work>(work)();
      return OkStatus();
    } else {
      return std::forward<Work>(work)();
    }
  } catch (...) {
    return HandledExceptionStatus();
  }
}

// Like Guarded(), for work that has no caller to return a status to: exceptions are reported.
template <class Work>
void GuardedOrReport(std::string_view where, Work&& work) noexcept {
  if (const Status status = Guarded(std::forward<Work>(work)); !status.ok()) ReportFault(where, status);
}

}  // namespace braid
