// Driver: the load of one thread. It runs the clients of folder load/ according to the options.
#pragma once

#include <memory>

#include "load/connection.h"
#include "load/generator.h"
#include "options.h"
#include "recording.h"
#include "request_cycle.h"

namespace braid::bench {

class Driver {
 public:
  // REQUIRES: `options` outlives the driver. Errors: an address that cannot be used.
  static Result<std::unique_ptr<Driver>> Make(const Options& options);

  // Asks once whether server and model are ready.
  bool Ready() const;
  // Registers the shared memory with the server, if there is one.
  Status RegisterMemory() const;
  // Keeps `slots` requests in flight, or sends them at their times, until window.stop; then finishes them.
  // Several threads may call it at once. Failures go to `recording`.
  void Run(int slots, const Window& window, Recording& recording) const;

 private:
  Driver(const Options& options, std::shared_ptr<const load::Dialer> dialer);

  const Options& options_;
  const std::shared_ptr<const load::Dialer> dialer_;
  const load::Encoding encoding_;
  const RequestCycle<load::LoadRequest>::Maker requests_;
};

}  // namespace braid::bench
