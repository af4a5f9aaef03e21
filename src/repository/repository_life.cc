#include "repository/repository_life.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"

namespace braid {
namespace {

// The longest single wait. A deadline that means "never" would be too far in the future for the clock.
constexpr int64_t kLongestWaitNs = 1000000000;

}  // namespace

RepositoryLife::~RepositoryLife() { BRAID_CHECK(pollers_.empty()); }

RepositoryLife::Work::Work(RepositoryLife& life) : life_(life) {
  MutexLock lock(life_.mutex_);
  begun_ = life_.phase_ != Phase::kExiting;
  if (begun_) ++life_.works_;
}

RepositoryLife::Work::~Work() {
  if (!begun_) return;
  MutexLock lock(life_.mutex_);
  --life_.works_;
  life_.changed_.NotifyAll();
}

bool RepositoryLife::WaitForChange(int64_t deadline_ns) {
  const int64_t left_ns = deadline_ns - SteadyNowNs();
  if (left_ns <= 0) return false;
  changed_.WaitFor(mutex_, std::chrono::nanoseconds(std::min(left_ns, kLongestWaitNs)));
  return true;
}

Status RepositoryLife::Serve() {
  MutexLock lock(mutex_);
  BRAID_CHECK(phase_ != Phase::kServing);
  if (phase_ == Phase::kExiting) return UnavailableError("Server exiting");
  phase_ = Phase::kServing;
  return OkStatus();
}

bool RepositoryLife::serving() const { return phase_ == Phase::kServing; }

bool RepositoryLife::exiting() const { return phase_ == Phase::kExiting; }

Status RepositoryLife::StartPolling(const char* thread_name, std::function<void()> loop) {
  MutexLock lock(mutex_);
  if (phase_ == Phase::kExiting) return UnavailableError("Server exiting");
  try {
    pollers_.push_back(StartThread(thread_name, std::move(loop)));
  } catch (const std::system_error& fault) {
    return InternalError(std::string("failed to start the polling thread: ").append(fault.what()));
  }
  return OkStatus();
}

bool RepositoryLife::Sleep(int64_t until_ns) {
  MutexLock lock(mutex_);
  while (phase_ != Phase::kExiting && !woken_ && WaitForChange(until_ns)) {
  }
  woken_ = false;
  return phase_ != Phase::kExiting;
}

void RepositoryLife::Wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  changed_.NotifyAll();
}

void RepositoryLife::Exit() {
  MutexLock lock(mutex_);
  phase_ = Phase::kExiting;
  changed_.NotifyAll();
}

bool RepositoryLife::End(int64_t deadline_ns) {
  std::vector<std::thread> pollers;
  {
    MutexLock lock(mutex_);
    BRAID_CHECK(phase_ == Phase::kExiting);
    while (works_ != 0) {
      if (!WaitForChange(deadline_ns)) return false;
    }
    pollers.swap(pollers_);
  }
  // Their work has ended, and they begin no more.
  for (std::thread& poller : pollers) poller.join();
  return true;
}

}  // namespace braid
