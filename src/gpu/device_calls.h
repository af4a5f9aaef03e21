// DeviceCalls: runs driver calls for one device on a dedicated thread, with a timeout. The driver of a device
// that hangs may never return.
//
//   DeviceCalls calls({.gpu = 0, .limit_ns = 10 * kSecondNs, .log = &log});
//   auto bytes = std::make_shared<Bytes>(size);
//   BRAID_RETURN_IF_ERROR(calls.Run([memory, bytes] { return memory->Read(0, *bytes); }));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/elastic_threads.h"
#include "base/log.h"
#include "base/status.h"

namespace braid {

// Thread-safe.
class DeviceCalls {
 public:
  struct Options {
    int gpu = 0;
    int64_t limit_ns = 10'000'000'000;
    Logger* log = nullptr;  // outlives the object; null: no log
  };
  explicit DeviceCalls(const Options& options);
  // Waits for pending calls, within the limit. Abandons a call that hangs, with its thread.
  ~DeviceCalls();
  DeviceCalls(const DeviceCalls&) = delete;
  DeviceCalls& operator=(const DeviceCalls&) = delete;

  // Runs `call` after earlier calls, and waits for its result. The call must own its data, because it may go
  // on after a timeout. Errors: those of `call`; UNAVAILABLE after the limit. Later calls then fail at once,
  // until the device answers again.
  Status Run(std::function<Status()> call);
  // Runs `call` after earlier calls, without waiting.
  void Post(std::function<void()> call);

  // How often the device has hung so far.
  uint64_t stalls() const;

 private:
  struct State;

  const std::shared_ptr<State> state_;  // shared with abandoned calls
  std::unique_ptr<ElasticThreads> thread_;
};

}  // namespace braid
