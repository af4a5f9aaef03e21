#include "base/guard.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <thread>

#include "base/clock.h"

namespace braid {
namespace {

constexpr int64_t kLongestPatienceNs = 10'000'000'000;
constexpr std::chrono::milliseconds kPause{1};
// Failures further apart than this belong to different rows.
constexpr int64_t kRowNs = 100'000'000;

// Set when the handler gives up; reset by the code that handles the exception.
thread_local bool allocation_failed = false;
thread_local int patience = 0;  // the number of RetryingAllocations of this thread
// When the current row of failures began, and when its last failure was.
thread_local int64_t failing_since_ns = 0;
thread_local int64_t failed_ns = 0;

void OnFailedAllocation() {
  if (patience > 0) {
    const int64_t now_ns = SteadyNowNs();
    const bool first = now_ns - failed_ns > kRowNs;
    if (first) failing_since_ns = now_ns;
    failed_ns = now_ns;
    if (now_ns - failing_since_ns < kLongestPatienceNs) {
      // The first retry is immediate; later ones pause.
      if (!first) std::this_thread::sleep_for(kPause);
      return;
    }
  }
  allocation_failed = true;
  throw std::bad_alloc();
}

// Created before memory can be short.
const Status out_of_memory{StatusCode::kResourceExhausted, "out of memory"};

}  // namespace

const Status& OutOfMemory() { return out_of_memory; }

Status HandledExceptionStatus() noexcept {
  allocation_failed = false;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::exception& error) {
    try {
      return InternalError(std::string("internal server error: ") + error.what());
    } catch (...) {
      return OutOfMemory();
    }
  } catch (...) {
    try {
      return InternalError("internal server error");
    } catch (...) {
      return OutOfMemory();
    }
  }
}

Status UnwindingStatus() noexcept {
  if (allocation_failed) return OutOfMemory();
  try {
    return InternalError("internal server error");
  } catch (...) {
    return OutOfMemory();
  }
}

RetryingAllocation::RetryingAllocation() noexcept { ++patience; }

RetryingAllocation::~RetryingAllocation() { --patience; }

void InstallAllocationHandler() { std::set_new_handler(&OnFailedAllocation); }

void ReportFault(std::string_view where, const Status& status) noexcept {
  char line[512];
  const std::string_view text = status.message();
  int size = std::snprintf(line, sizeof(line) - 1, "braid: %.*s: %.*s", static_cast<int>(where.size()),
                           where.data(), static_cast<int>(text.size()), text.data());
  if (size < 0) return;
  size = std::min(size, static_cast<int>(sizeof(line)) - 2);
  // The exception's text may quote foreign input, so control characters are replaced to keep it on one line.
  std::replace_if(
      line, line + size, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  line[size] = '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line, static_cast<size_t>(size) + 1);
}

}  // namespace braid
