#include "gpu/device_calls.h"

#include <chrono>
#include <future>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "base/mutex.h"

namespace braid {

struct DeviceCalls::State {
  explicit State(const Options& given) : options(given) {}

  Status Hangs() const {
    return UnavailableError("GPU " + std::to_string(options.gpu) + " has not answered for " +
                            std::to_string(options.limit_ns / 1'000'000) + " ms (--gpu-timeout-ms)");
  }
  void CameBack() {
    MutexLock lock(mutex);
    if (hangs_since_ns == 0) return;
    const int64_t hung_ns = SteadyNowNs() - std::exchange(hangs_since_ns, 0);
    if (log != nullptr)
      BRAID_LOG_INFO(*log, "GPU {} answers again, after {} ms", options.gpu, hung_ns / 1'000'000);
  }

  const Options options;
  mutable Mutex mutex;
  // Null if the log may be destroyed. Lines are few, so they are logged with the lock held.
  Logger* log BRAID_GUARDED_BY(mutex) = options.log;
  int64_t hangs_since_ns BRAID_GUARDED_BY(mutex) =
      0;  // when the wait for the hanging call began; 0: no call hangs
  uint64_t stalls BRAID_GUARDED_BY(mutex) = 0;
};

DeviceCalls::DeviceCalls(const Options& options)
    : state_(std::make_shared<State>(options)),
      thread_(std::make_unique<ElasticThreads>(ElasticThreads::Options{.name = "brd-gpu", .most = 1})) {}

DeviceCalls::~DeviceCalls() {
  if (Run([] { return OkStatus(); }).ok()) return;
  static_cast<void>(thread_.release());
  MutexLock lock(state_->mutex);
  state_->log = nullptr;
}

Status DeviceCalls::Run(std::function<Status()> call) {
  const int64_t since_ns = SteadyNowNs();
  {
    MutexLock lock(state_->mutex);
    if (state_->hangs_since_ns != 0) return state_->Hangs();
  }
  auto done = std::make_shared<std::promise<Status>>();
  std::future<Status> result = done->get_future();
  Post([call = std::move(call), done]() mutable {
    Status status = OutOfMemory();
    const Status fault = Guarded([&] { status = call(); });
    call = nullptr;  // released before the waiting thread gets the result
    done->set_value(fault.ok() ? status : fault);
  });
  if (result.wait_for(std::chrono::nanoseconds(state_->options.limit_ns)) == std::future_status::ready)
    return result.get();
  Status hangs = state_->Hangs();
  MutexLock lock(state_->mutex);
  // The call may just have ended.
  if (result.wait_for(std::chrono::seconds(0)) == std::future_status::ready) return result.get();
  if (state_->hangs_since_ns != 0) return hangs;
  state_->hangs_since_ns = since_ns;
  ++state_->stalls;
  if (state_->log != nullptr)
    BRAID_LOG_ERROR(*state_->log, "{}; requests that need it fail until it does", hangs.message());
  return hangs;
}

void DeviceCalls::Post(std::function<void()> call) {
  thread_->Run([call = std::move(call), state = state_]() mutable {
    call();
    call = nullptr;
    state->CameBack();
  });
}

uint64_t DeviceCalls::stalls() const {
  MutexLock lock(state_->mutex);
  return state_->stalls;
}

}  // namespace braid
