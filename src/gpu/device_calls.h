// DeviceCalls: calls of the driver for one device, on a thread of their own, so that who waits for one waits no longer than a
// limit. The driver of a device that hangs may never return.
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

// Any thread.
class DeviceCalls {
 public:
  struct Options {
    int gpu = 0;
    int64_t limit_ns = 10'000'000'000;
    Logger* log = nullptr;  // outlives this; null: nothing is said
  };
  explicit DeviceCalls(const Options& options);
  // Waits for the calls that are under way, within the limit; what hangs is left behind, with its thread.
  ~DeviceCalls();
  DeviceCalls(const DeviceCalls&) = delete;
  DeviceCalls& operator=(const DeviceCalls&) = delete;

  // Runs `call` behind those before it, and waits for its end. It owns what it uses, since it may go on when this has returned.
  // Errors: those of `call`; UNAVAILABLE when the limit has passed, and from then on at once, until the device has come back.
  Status Run(std::function<Status()> call);
  // The same without waiting.
  void Post(std::function<void()> call);

  // How often the device has hung so far.
  uint64_t stalls() const;

 private:
  struct State;

  const std::shared_ptr<State> state_;  // shared with calls that are left behind
  std::unique_ptr<ElasticThreads> thread_;
};

}  // namespace braid
