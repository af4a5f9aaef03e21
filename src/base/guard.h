// Guards: where exceptions end. Errors are values in Braid (base/status.h); what is thrown comes from
// libraries and from memory that cannot be had. Every thread of ours does each piece of its work (a request,
// an event, a timer, a message) within a guard, so that an exception costs that piece and never the server.
//
//   Status status = Guarded([&] { return Answer(request); });
//
// Memory that cannot be had is RESOURCE_EXHAUSTED, everything else INTERNAL. None of this allocates when
// memory is what is missing.
//
// What must not stop half-way, the books of a scheduler say, is not guarded but patient:
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

// The status of an allocation that failed. Its text is so short that copies of it need no memory either.
const Status& OutOfMemory();

// The status of the exception that is being handled. REQUIRES: called in a catch block.
Status HandledExceptionStatus() noexcept;

// The status of the exception that unwinds the stack, for destructors which end what they own with it. It
// knows a failed allocation by InstallAllocationHandler(), and takes anything else for INTERNAL.
Status UnwindingStatus() noexcept;

// While one exists, an allocation of this thread that fails is tried again until it succeeds, for ten seconds
// at most, and throws only then. For bookkeeping of a few bytes a request, never for what a client sizes.
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

// Sets the new handler that UnwindingStatus() and RetryingAllocation need. Called once, by main().
void InstallAllocationHandler();

// One line on standard error, for what no request answers for: "braid: {where}: {status}".
void ReportFault(std::string_view where, const Status& status) noexcept;

// Runs `work`, which returns a Status or nothing; what it throws is returned as a status.
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

// The same for work with nobody to answer to: what it throws is reported.
template <class Work>
void GuardedOrReport(std::string_view where, Work&& work) noexcept {
  if (const Status status = Guarded(std::forward<Work>(work)); !status.ok()) ReportFault(where, status);
}

}  // namespace braid
